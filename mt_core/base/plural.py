"""Singular and plural forms after a number."""

from __future__ import annotations


def plural(number: int, one: str, more: str | None = None) -> str:
    """Return *one* if *number* is 1, and *more* if not; *more* defaults to *one* with an s."""
    if number == 1:
        return one
    return f"{one}s" if more is None else more
