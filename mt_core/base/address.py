"""The address of a gateway: a URL of HTTP, or one of a UNIX socket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

_UNIX = "unix://"
# HTTP needs the name of a host; on a socket it leads nowhere.
_HOST = "http://localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where requests go: `base_url`, through the UNIX socket at the path `socket` if there is one."""

    base_url: str
    socket: str | None = None

    @classmethod
    def of(cls, url: str) -> Address:
        """Return the address of a gateway's *url*, `http://host:port` or `unix:///path`."""
        if url.startswith(_UNIX):
            return cls(base_url=_HOST, socket=unquote(url.removeprefix(_UNIX)))
        return cls(base_url=url.rstrip("/"))


def socket_url(path: Path) -> str:
    """Return the URL of the gateway behind the UNIX socket at *path*."""
    return _UNIX + quote(str(path))
