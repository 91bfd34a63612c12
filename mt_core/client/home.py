"""The token that a gateway of this user wrote to its home folder."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from mt_core.access import is_loopback

DEFAULT_HOME = "./.freshtable"


def token_in(home: Path, gateway: str) -> str | None:
    """Return the token in *home* for the gateway at the URL *gateway*, or None if that gateway is not the one of *home*.

    The token is sent to no other machine and to no other port, where another user's program may listen.
    """
    try:
        url = urlsplit(gateway)
        own = urlsplit(json.loads((home / "gateway.json").read_text(encoding="utf-8"))["url"] or "")
        if not is_loopback(url.hostname or "") or url.port is None or url.port != own.port:
            return None
        return (home / "token").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError, KeyError, TypeError):
        return None
