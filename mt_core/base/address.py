"""The address of a gateway: an HTTP URL or the URL of a UNIX socket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

_UNIX = "unix://"
# HTTP requires a host name, but a socket has none.
_HOST = "http://localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a gateway: `base_url`, reached through the UNIX socket at the path `socket` if set."""

    base_url: str
    socket: str | None = None

    @classmethod
    def of(cls, url: str) -> Address:
        """Parse the URL of a gateway: `http://host:port` or `unix:///path`."""
        if url.startswith(_UNIX):
            return cls(base_url=_HOST, socket=unquote(url.removeprefix(_UNIX)))
        return cls(base_url=url.rstrip("/"))


def socket_url(path: Path) -> str:
    """Return the URL of the gateway behind the UNIX socket at *path*."""
    return _UNIX + quote(str(path))
