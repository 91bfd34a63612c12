"""The pace of continuous refresh: how often the sources of a table are polled, and when its next batch may
begin. Pure functions.
"""

from __future__ import annotations

from datetime import timedelta

from mt_core.incremental.strategy import Way
from mt_core.model.freshness import Freshness

POLLS, POLLS_AT_REST = 20, 5
SHORTEST_INTERVAL, LONGEST_INTERVAL = timedelta(milliseconds=50), timedelta(seconds=5)
SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)


def poll_interval(freshness: Freshness, *, at_rest: bool = False) -> timedelta:
    """Return the interval at which sources are polled: a twentieth of the freshness, within 50 ms to 5 s.

    *at_rest*: nothing has changed for a minute; a fifth of the freshness is enough.
    """
    polls = POLLS_AT_REST if at_rest else POLLS
    return min(max(timedelta(seconds=freshness.seconds) / polls, SHORTEST_INTERVAL), LONGEST_INTERVAL)


def next_poll_at(freshness: Freshness, now: timedelta, *, at_rest: bool = False) -> timedelta:
    """Return when the sources are polled next after *now*.

    Polls fall on whole multiples of the interval, so that the sources of many tables are read together.
    """
    every = poll_interval(freshness, at_rest=at_rest)
    return now + every - now % every


def batch_gap(freshness: Freshness, way: Way | None) -> timedelta:
    """Return the minimum time between the begins of two batches: half the freshness.

    It is the whole freshness after a recomputation, so that the next one is not due at once, and zero if
    nothing was published (*way* None).
    """
    whole = timedelta(seconds=freshness.seconds)
    match way:
        case None:
            return timedelta(0)
        case Way.RECOMPUTE:
            return whole
        case _:
            return whole / 2


def pause_after(freshness: Freshness, failures: int) -> timedelta:
    """Return the pause after *failures* in a row.

    It begins at the freshness, at least 5 seconds, and doubles each time up to 5 minutes, or to a longer
    freshness.
    """
    whole = max(timedelta(seconds=freshness.seconds), SHORTEST_PAUSE)
    # Larger exponents would only overflow: the result is bounded anyway.
    doubled: timedelta = whole * 2 ** min(failures - 1, 10)
    return min(doubled, max(LONGEST_PAUSE, whole))
