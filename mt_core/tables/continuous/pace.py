"""The pace of continuous refresh: how often sources are polled, and when the next batch may begin."""

from __future__ import annotations

from datetime import timedelta

from mt_core.base import backoff
from mt_core.incremental.strategy import Way
from mt_core.model.freshness import Freshness

POLLS, POLLS_AT_REST = 20, 5
SHORTEST_INTERVAL, LONGEST_INTERVAL = timedelta(milliseconds=50), timedelta(seconds=5)
SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)


def poll_interval(freshness: Freshness, *, at_rest: bool = False) -> timedelta:
    """Return how often sources are polled: a twentieth of the freshness, but at least 50 ms and at most 5 s.

    With *at_rest*, nothing has changed for a minute, and a fifth of the freshness is enough.
    """
    polls = POLLS_AT_REST if at_rest else POLLS
    return min(max(timedelta(seconds=freshness.seconds) / polls, SHORTEST_INTERVAL), LONGEST_INTERVAL)


def next_poll_at(freshness: Freshness, now: timedelta, *, at_rest: bool = False) -> timedelta:
    """Return when sources are polled next after *now*.

    Polls take place at whole multiples of the interval, so that the sources of many tables are read together.
    """
    every = poll_interval(freshness, at_rest=at_rest)
    return now + every - now % every


def batch_gap(freshness: Freshness, way: Way | None) -> timedelta:
    """Return the minimum time between the starts of two batches: half the freshness.

    After a recomputation it is the whole freshness, so that the next one is not due immediately. If nothing
    was published (*way* is None), it is zero.
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
    """Return the pause after *failures* consecutive failures.

    The first pause is the freshness, but at least 5 seconds. It doubles with each failure, up to 5 minutes
    or, if that is longer, the freshness.
    """
    whole = max(timedelta(seconds=freshness.seconds), SHORTEST_PAUSE)
    return backoff.pause_after(failures, first=whole, longest=max(LONGEST_PAUSE, whole))
