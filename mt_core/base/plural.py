"""The noun or verb beside a number in a text."""

from __future__ import annotations


def plural(number: int, one: str, more: str | None = None) -> str:
    """Return *one* if *number* is 1, else *more*; without *more* that is *one* and an s."""
    if number == 1:
        return one
    return f"{one}s" if more is None else more
