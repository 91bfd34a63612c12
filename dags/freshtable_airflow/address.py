"""The address of the gateway, with the connection settings of a client."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from freshtable_airflow.errors import GatewayRefused

if TYPE_CHECKING:
    from airflow.sdk import Connection

DEFAULT_PORT = 8083
TIMEOUT = httpx.Timeout(20.0, connect=5.0)


@dataclass(frozen=True)
class GatewayAddress:
    """A gateway's URL, its token ("": none), and files for TLS ("": the system's own)."""

    url: str
    token: str = field(default="", repr=False)
    verify_tls: bool = True
    ca_file: str = ""
    client_cert: str = ""
    client_key: str = ""

    @classmethod
    def of_connection(cls, connection: Connection) -> GatewayAddress:
        """Return the address in an Airflow connection; raise GatewayRefused if the connection has no host."""
        extra: dict[str, Any] = connection.extra_dejson
        if not connection.host:
            raise GatewayRefused(
                f"Connection {connection.conn_id} has no host: set it to the gateway's URL, "
                "such as https://freshtable.example.com:8083."
            )
        return cls(
            url=_url(connection.host, connection.port, connection.schema or ""),
            token=connection.password or "",
            verify_tls=extra.get("verify_tls") is not False,
            ca_file=extra.get("ca_file") or "",
            client_cert=extra.get("client_cert") or "",
            client_key=extra.get("client_key") or "",
        )

    def options(self) -> dict[str, Any]:
        """Return the arguments for creating an httpx client for this gateway."""
        # Reading the system's certificates takes longer than a whole request, so they are read only for TLS.
        is_checked = self.url.startswith("https:") and self.verify_tls
        has_files = bool(self.client_cert or (is_checked and self.ca_file))
        authorization = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {
            "base_url": self.url,
            "headers": {"Freshtable-Errors": "json", **authorization},
            "timeout": TIMEOUT,
            "verify": self._context(check=is_checked) if has_files else is_checked,
        }

    def _context(self, *, check: bool) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.client_cert:
                context.load_cert_chain(self.client_cert, self.client_key or None)
        except OSError as cause:
            files = ", ".join(file for file in (self.ca_file, self.client_cert, self.client_key) if file)
            raise GatewayRefused(
                f"The connection's certificate files cannot be used ({files}): {cause}"
            ) from cause
        if not check:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def _url(host: str, port: int | None, scheme: str) -> str:
    """Return the base URL for *host*, which is a URL, a host with a port, or only a host name."""
    text = host.strip().rstrip("/")
    if "://" not in text:
        text = f"{scheme if scheme in ('http', 'https') else 'http'}://{text}"
        if port is None and ":" not in text.partition("://")[2]:
            port = DEFAULT_PORT
    has_port = ":" in text.partition("://")[2].partition("/")[0]
    return text if port is None or has_port else f"{text}:{port}"
