"""The files that a gateway writes to its home folder for clients."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from mt_core.base.access import is_loopback
from mt_core.base.address import Address

DEFAULT_HOME = "./.freshtable"
# Maps wildcard listen addresses to addresses that a client can call.
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
SOCKET_NAME = "gateway.sock"
# The exit code of an embedded gateway if another gateway owns its home (EX_TEMPFAIL). The other gateway may
# be exiting, or will respond soon.
TRY_AGAIN = 75


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The gateway that owns a home: its process id, and its URL for local clients."""

    pid: int
    url: str


def holder_of(home: Path) -> Holder | None:
    """Return the gateway that owns *home*, or None if there is none or its process has exited."""
    try:
        note = json.loads((home / "gateway.json").read_text(encoding="utf-8"))
        holder = Holder(pid=int(note["pid"]), url=callable_url(note["url"]) if note["url"] else "")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return holder if holder.url and _runs(holder.pid) else None


def url_in(home: Path) -> str | None:
    """Return the URL, for local clients, of the gateway that owns *home*, or None if there is none."""
    try:
        url = json.loads((home / "gateway.json").read_text(encoding="utf-8"))["url"]
        return callable_url(url) if isinstance(url, str) and url else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def callable_url(url: str) -> str:
    """Return the URL at which local clients call a gateway that listens on *url*. Raises ValueError."""
    if Address.of(url).socket is not None:
        return url
    parts = urlsplit(url)
    host = _EVERY_ADDRESS.get(parts.hostname or "", parts.hostname or "")
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port}"


def token_in(home: Path, gateway: str) -> str | None:
    """Return the token in *home* if *gateway* is the URL of its gateway, or None.

    The token is not sent to another machine or port, because another user's program may listen there.
    """
    try:
        own = json.loads((home / "gateway.json").read_text(encoding="utf-8"))["url"] or ""
        if not _is_same(gateway, own):
            return None
        return (home / "token").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        # The process exists but belongs to another user.
        return True
    except OSError:
        return False
    return True


def _is_same(gateway: str, own: str) -> bool:
    """Return whether *gateway* reaches the local gateway whose own URL is *own*."""
    if Address.of(gateway).socket is not None:
        return gateway == own
    url = urlsplit(gateway)
    return is_loopback(url.hostname or "") and url.port is not None and url.port == urlsplit(own).port
