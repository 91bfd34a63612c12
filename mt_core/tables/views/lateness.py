"""Lateness: how much staler a table is than its freshness allows, and why. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from mt_core.model.run import OPEN, RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How much older the source data of a table is than the freshness allows, and the cause."""

    by: timedelta
    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTimes:
    """The times of a table's source data.

    `read_at` is when the table read its sources. `shows` is its data-as-of time plus the freshness of the
    tables between it and its ultimate sources. `written_at` is the last commit to any source, None if that is
    unknown or irrelevant. `looked` is True if this gateway has polled the sources of a CONTINUOUS table.
    """

    read_at: datetime
    shows: datetime
    written_at: datetime | None = None
    looked: bool = True


def oldest_allowed(table: MaterializedTable, now: datetime) -> datetime:
    """Return the oldest data-as-of time that a fresh table may have.

    For a table with a schedule, this is the schedule time before the last one.
    """
    definition = table.definition
    if definition.refresh_mode is RefreshMode.CONTINUOUS:
        return now - timedelta(seconds=definition.interval.seconds)
    grid = definition.grid()
    return grid.at_or_before(grid.at_or_before(now) - timedelta(microseconds=1))


def lateness_of(
    table: MaterializedTable, runs: Iterable[RefreshRun], seen: SourceTimes, *, now: datetime
) -> Lateness | None:
    """Return how late *table* is, or None if it is not; *runs* are its last runs, newest first."""
    runs = list(runs)
    allowed = oldest_allowed(table, now)

    def late_by(instant: datetime) -> timedelta:
        return now - table.definition.fresh_until(instant)

    if seen.read_at < allowed:
        return Lateness(by=late_by(seen.read_at), fault=_own_fault(table, runs, now, looked=seen.looked))
    # After a failed refresh, the sources may be up to date, but their new rows have not been read.
    failed = _has_failed(runs)
    if seen.shows < allowed:
        return Lateness(by=late_by(seen.shows), fault=Fault.QUERY if failed else Fault.SOURCE)
    if seen.written_at is not None and seen.written_at < allowed:
        return Lateness(by=late_by(seen.written_at), fault=Fault.QUERY if failed else Fault.WRITER)
    return None


def _has_failed(runs: list[RefreshRun]) -> bool:
    ended = next((run for run in runs if run.status not in OPEN), None)
    return ended is not None and ended.status is RunStatus.FAILED


def _own_fault(table: MaterializedTable, runs: list[RefreshRun], now: datetime, *, looked: bool) -> Fault:
    running = next((run for run in runs if run.status is RunStatus.RUNNING), None)
    waiting = any(run.status is RunStatus.QUEUED for run in runs)
    is_continuous = table.definition.refresh_mode is RefreshMode.CONTINUOUS
    if (
        is_continuous
        and not looked
        and running is not None
        and (running.recent or _is_young(table, running, now))
    ):
        # An earlier gateway began the continuous run, or this gateway has begun its first batch.
        return Fault.SCHEDULE
    if running is not None and running.recent:
        return (
            Fault.QUERY
            if timedelta(seconds=running.recent[-1].seconds) > table.definition.period_at(now) / 2
            else Fault.QUEUE
        )
    if running is not None and running.started_at is not None:
        waited = running.started_at - running.requested_at
        return Fault.QUEUE if waited > now - running.started_at else Fault.QUERY
    if _has_failed(runs):
        return Fault.QUERY
    return Fault.QUEUE if waiting or (is_continuous and looked) else Fault.SCHEDULE


def _is_young(table: MaterializedTable, running: RefreshRun, now: datetime) -> bool:
    """Return whether a run has not taken longer than the freshness so far."""
    began = running.started_at or running.requested_at
    return now - began <= timedelta(seconds=table.definition.interval.seconds)
