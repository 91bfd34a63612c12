"""Lateness: from when a table is staler than its freshness allows, and why. Pure functions.

A promise is about schedule times, not about an age: a table with a schedule that was read just after one of
them may miss the next, and is late only from the one after that. So the age of a healthy table may be almost
twice its freshness, and no ratio of age and freshness says how close a table is to being late. What does is
one instant, `late_from`: from then on the table is late, unless it is refreshed before. Everything else that
is said about lateness follows from it: whether a table is late (the instant has passed) and whether it soon
will be.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from mt_core.model.cadence import Cadence
from mt_core.model.freshness import Freshness
from mt_core.model.table import RefreshMode


class Fault(StrEnum):
    """What prevents a table from being fresh.

    SOURCE: an upstream materialized table is late. WRITER: its sources have no new rows. QUEUE: its refresh
    is waiting for a worker, or waited for most of its time. QUERY: its refreshes fail or take too long.
    SCHEDULE: no refresh is requested, for example because the scheduler or the gateway is down.
    """

    SOURCE = "source"
    WRITER = "writer"
    QUEUE = "queue"
    QUERY = "query"
    SCHEDULE = "schedule"


class State(StrEnum):
    """How a table is, in one word: the first of these that holds.

    SUSPENDED: nothing refreshes it. LATE: the source data that it shows is older than its freshness allows.
    FAILING: its last refresh, or a schedule time that is retried separately, has failed. DOUBTED: partitions
    are in doubt. SOON: it becomes LATE before a refresh that begins now has ended. A table without rows is
    INITIALIZING until it is LATE or FAILING.
    """

    SUSPENDED = "SUSPENDED"
    LATE = "LATE"
    FAILING = "FAILING"
    DOUBTED = "DOUBTED"
    SOON = "SOON"
    OK = "OK"
    INITIALIZING = "INITIALIZING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """How fresh a table has to be."""

    mode: RefreshMode
    cadence: Cadence
    zone: str

    @property
    def interval(self) -> timedelta | None:
        """The freshness of a CONTINUOUS table, None for a table with a schedule."""
        if self.mode is not RefreshMode.CONTINUOUS or not isinstance(self.cadence, Freshness):
            return None
        return timedelta(seconds=self.cadence.seconds)

    def late_from(self, instant: datetime) -> datetime:
        """Return from when on a table is late that shows its sources as they were at *instant*.

        For a table with a schedule, this is the second schedule time after *instant*.
        """
        if self.interval is not None:
            return instant + self.interval
        grid = self.cadence.grid(self.zone)
        return grid.after(grid.after(instant))


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A refresh that is RUNNING. A CONTINUOUS one has published batches if `batch_s` is not None.

    `batch_s` is the duration of the last one in seconds.
    """

    requested_at: datetime
    started_at: datetime | None
    batch_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The open refreshes of a table, and whether the last one that ended has FAILED.

    `waiting_since` is the time of the oldest request that is QUEUED, None if none is.
    """

    running: Running | None = None
    waiting_since: datetime | None = None
    failed: bool = False


def own_fault(work: Work, *, freshness: timedelta | None, now: datetime, looked: bool) -> Fault:
    """Return why a table has not read its sources in time.

    *freshness* is that of a CONTINUOUS table, None for a table with a schedule. *looked* is True if this
    gateway has polled the sources of a CONTINUOUS table.
    """
    running = work.running
    if freshness is not None and not looked and _is_other_gateways(running, freshness, now):
        return Fault.SCHEDULE
    if running is not None and running.batch_s is not None and freshness is not None:
        return Fault.QUERY if timedelta(seconds=running.batch_s) > freshness / 2 else Fault.QUEUE
    if running is not None and running.started_at is not None:
        waited = running.started_at - running.requested_at
        return Fault.QUEUE if waited > now - running.started_at else Fault.QUERY
    if work.failed:
        return Fault.QUERY
    is_waiting = work.waiting_since is not None or (freshness is not None and looked)
    return Fault.QUEUE if is_waiting else Fault.SCHEDULE


def fault_turns(work: Work, *, freshness: timedelta | None) -> list[datetime]:
    """Return the instants at which `own_fault` may change while the work stays as it is."""
    running = work.running
    if running is None:
        return []
    began = running.started_at or running.requested_at
    # From then on, the refresh has been running for longer than it waited.
    turns = [began + (began - running.requested_at)]
    return turns if freshness is None else [*turns, began + freshness + timedelta(microseconds=1)]


def _is_other_gateways(running: Running | None, freshness: timedelta, now: datetime) -> bool:
    """Return whether an earlier gateway began the continuous run, or its first batch is not overdue yet."""
    if running is None:
        return False
    began = running.started_at or running.requested_at
    return running.batch_s is not None or now - began <= freshness
