"""The pace of a continuous refresh: how often its sources are looked at, and when its next batch may begin.

Pure.
"""

from __future__ import annotations

from datetime import timedelta

from mt_core.incremental.strategy import Way
from mt_core.model.freshness import Freshness

LOOKS, LOOKS_AT_REST = 20, 5
SHORTEST_LOOK, LONGEST_LOOK = timedelta(milliseconds=50), timedelta(seconds=5)
SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)


def look_every(freshness: Freshness, *, at_rest: bool = False) -> timedelta:
    """Return how often the sources are looked at: twenty times within the freshness,
    from twenty times a second to every 5 s.

    *at_rest*: nothing changed for a minute; five times are enough.
    """
    looks = LOOKS_AT_REST if at_rest else LOOKS
    return min(max(timedelta(seconds=freshness.seconds) / looks, SHORTEST_LOOK), LONGEST_LOOK)


def next_look(freshness: Freshness, now: timedelta, *, at_rest: bool = False) -> timedelta:
    """Return when the sources are looked at after *now*: at whole multiples of the time between two looks,
    so that those of many tables are looked at together."""
    every = look_every(freshness, at_rest=at_rest)
    return now + every - now % every


def apart(freshness: Freshness, way: Way | None) -> timedelta:
    """Return how long after the begin of a batch the next one may begin: half the freshness, all of it after
    a recomputation, so that one is never due at once again. *way* None: nothing was published."""
    whole = timedelta(seconds=freshness.seconds)
    match way:
        case None:
            return timedelta(0)
        case Way.RECOMPUTE:
            return whole
        case _:
            return whole / 2


def pause_after(freshness: Freshness, failures: int) -> timedelta:
    """Return how long nothing is tried after so many failures in a row:
    the freshness, but 5 seconds at least, twice as long each time, up to 5 minutes or a longer freshness."""
    whole = max(timedelta(seconds=freshness.seconds), SHORTEST_PAUSE)
    # The exponent is bounded because no pause is longer anyway.
    doubled: timedelta = whole * 2 ** min(failures - 1, 10)
    return min(doubled, max(LONGEST_PAUSE, whole))
