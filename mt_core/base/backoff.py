"""The pause before a retry, which doubles with each failure in a row."""

from __future__ import annotations

from datetime import timedelta

# The exponent is bounded because 2 ** 1,000 s overflows a timedelta.
_MOST_DOUBLINGS = 16


def pause_after(failures: int, *, first: timedelta, longest: timedelta) -> timedelta:
    """Return the pause after *failures* in a row: *first*, doubled by each further one, up to *longest*."""
    doubled: timedelta = first * 2 ** min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return min(doubled, longest)
