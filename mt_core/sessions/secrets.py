"""Secret properties: found by their key, shown as ***."""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "***"
_SECRET = re.compile(
    r"passw(or)?d|secret|token|credential|access[._-]?key|private[._-]?key|api[._-]?key", re.IGNORECASE
)


def is_secret(key: str) -> bool:
    """Return whether the value of property *key* must not be shown."""
    return _SECRET.search(key) is not None


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return *properties* sorted by key, with secrets masked."""
    return {key: MASK if is_secret(key) else value for key, value in sorted(properties.items())}
