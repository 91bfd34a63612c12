"""Secret properties: found by their key, shown as ***; passwords in URLs too."""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "***"
SECRET_KEYS = r"passw(or)?d|passphrase|secret|token|credential|authorization|(access|account|private|api)[._-]?key"
_SECRET = re.compile(SECRET_KEYS, re.IGNORECASE)
_IN_URL = re.compile(
    r"(://[^:/?#@\s]*:)[^@\s/]+(?=@)|([?&;](?:\w*password|passwd|pwd|token|secret)=)[^&;\s,)'\"]+", re.IGNORECASE
)


def is_secret(key: str) -> bool:
    """Return whether the value of property *key* must not be shown."""
    return _SECRET.search(key) is not None


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return *properties* sorted by key, with secrets masked."""
    return {key: MASK if is_secret(key) else without_passwords(value) for key, value in sorted(properties.items())}


def without_passwords(text: str) -> str:
    """Return *text* with the passwords of the URLs in it masked."""
    return _IN_URL.sub(lambda found: (found[1] or found[2]) + MASK, text)


def redacted(text: str, properties: Mapping[str, str]) -> str:
    """Return *text*, which may quote from *properties*, with the values of the secret ones masked."""
    for key, value in properties.items():
        if value and is_secret(key):
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", MASK, text)
    return without_passwords(text)
