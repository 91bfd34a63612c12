"""The word that is being typed at the end of a text, which completion replaces."""

from __future__ import annotations

import re

# A word as the gateway parses it: a name with its dots and quotes.
_WORD = re.compile(r"(?:`(?:[^`]|``)*(?:`|$)|[\w$.])*$")
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)


def typed_word(before: str) -> str:
    """Return the partial word at the end of *before*, or the partial string if it ends inside a string."""
    _, quote, string = _STRING.sub("", before).rpartition("'")
    if quote:
        return string
    match = _WORD.search(before)
    return match.group() if match else ""
