"""Versions of stored JSON: a later form is refused, because reading a part of it would lose the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mt_core.errors import Unsupported


def check_version(what: str, body: Mapping[str, Any], versions: Collection[int]) -> None:
    """Raise Unsupported if the version of *body*, which messages call *what*, is none of *versions*."""
    if body.get("version") not in versions:
        known = " and ".join(map(str, sorted(versions)))
        raise Unsupported(
            f"{what} has version {body.get('version')}, this release reads version {known}; "
            "use the release that wrote it."
        )


def check_keys(what: str, body: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise Unsupported if *body*, which messages call *what*, has a key that is not *known*."""
    if unknown := sorted(body.keys() - set(known)):
        raise Unsupported(
            f"{what} has {', '.join(unknown)}, which this release does not know; "
            "use the release that wrote it, or a newer one."
        )
