"""Upstream: the materialized tables that a table reads, whose runs a periodic run waits for.

A schedule time of an upstream table is awaited while it has an open run. It is also awaited from its instant
until it is requested, because a scheduler sends the requests of one instant in any order. Schedule times that
failed when they were refreshed separately are not awaited, nor are tables without a schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

from mt_core.errors import SqlSyntaxError
from mt_core.model.formatter import show_schedule_time
from mt_core.model.run import DONE, OPEN, RefreshRun, RunKind
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus, TableIdentifier
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.statements import Name, qualify
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.registry import Transaction
from mt_core.tables.runs.due import is_due
from mt_core.tables.settings import ManagerSettings, upstream_wait_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Determines which runs to wait for, within one transaction; caches what it has read about each table."""

    tx: Transaction
    settings: ManagerSettings
    _tables: dict[str, MaterializedTable | None] = field(default_factory=dict)
    _requested: dict[str, tuple[Set[datetime], datetime | None]] = field(default_factory=dict)

    def with_wait(self, table: MaterializedTable, run: RefreshRun) -> RefreshRun:
        """Return *run* with a deadline and the runs that it has to wait for now.

        Runs that were claimed before or are not periodic are returned unchanged.
        """
        if run.kind is not RunKind.PERIODIC or run.claim or run.schedule_time is None:
            return run
        wait = upstream_wait_of(table.definition, self.settings, run.schedule_time)
        if not wait:
            return run
        awaited = {
            upstream.table_id: f"{upstream.identifier} at {show_schedule_time(point, table.definition.zone)}"
            for source in table.definition.sources
            if (upstream := self._scheduled(source)) is not None and upstream.table_id != table.table_id
            if (point := self._open_point(upstream, run.schedule_time)) is not None
            if not self._is_at_version(table, source)
        }
        return replace(run, waits_for=awaited, waits_until=run.requested_at + wait if awaited else None)

    def _scheduled(self, source: str) -> MaterializedTable | None:
        if source not in self._tables:
            table = materialized(self.tx, source)
            self._tables[source] = table if is_scheduled(table) else None
        return self._tables[source]

    def _is_at_version(self, table: MaterializedTable, source: str) -> bool:
        """Return whether *table*, at its last refresh, read *source* only at versions that its query names.

        Source names in a definition have no versions, but those in a run's vector do.
        """
        done = self.tx.runs.newest(table_id=table.table_id, statuses=DONE, limit=1)
        if not done or done[0].fingerprint != fingerprint_of(table.definition):
            return False
        names = [str(each["name"]) for each in done[0].vector or ()]
        return source not in names and read_source(source)[0] in {read_source(name)[0] for name in names}

    def _open_point(self, table: MaterializedTable, until: datetime) -> datetime | None:
        """Return the latest schedule time up to *until* that *table* still has to cover, or None."""
        waiting, requested = self._requests_of(table)
        if points := {point for point in waiting if point <= until}:
            return max(points)
        passed = table.definition.grid().at_or_before(until)
        # If the status time is in the future, it dates from before the clock was set back.
        if passed <= table.status_at <= self.tx.now() or not is_due(table, passed):
            return None
        return passed if requested is None or requested < passed else None

    def _requests_of(self, table: MaterializedTable) -> tuple[Set[datetime], datetime | None]:
        """Return the schedule times of open runs, without those that failed separately.

        Also returns the latest schedule time of all requested runs, or None.
        """
        if table.table_id not in self._requested:
            runs = self.tx.runs.newest(table_id=table.table_id, statuses=OPEN)
            points = {point for run in runs if run.kind is RunKind.PERIODIC for point in run.points}
            last = self.tx.runs.last_point(table.table_id, requested_by=self.tx.now())
            self._requested[table.table_id] = points.difference(table.failing), last
        return self._requested[table.table_id]


def wake(tx: Transaction, table_id: str) -> None:
    """End the waits for runs of a table, so that the next claim evaluates them again."""
    _wake(tx, lambda run: table_id in run.waits_for)


def wake_needless(tx: Transaction) -> int:
    """End the waits for tables that are no longer refreshed on a schedule; return their number."""
    awaited = {table_id for run in tx.runs.waiting() for table_id in run.waits_for}
    idle = {table_id for table_id in awaited if not is_scheduled(tx.tables.get(table_id))}
    return _wake(tx, lambda run: not idle.isdisjoint(run.waits_for)) if idle else 0


def wake_put_back(tx: Transaction) -> int:
    """Restart the waits of runs that were requested before the clock was set back; return their number."""
    now = tx.now()
    runs = [run for run in tx.runs.waiting() if run.requested_at > now and run.waits_until is not None]
    for run in runs:
        assert run.waits_until is not None
        wait = run.waits_until - run.requested_at
        tx.runs.replace(replace(run, requested_at=now, waits_until=now + wait), expected=run)
    return len(runs)


def is_scheduled(table: MaterializedTable | None) -> bool:
    """Return whether *table* is refreshed on a schedule; False for None, which stands for a missing table."""
    if table is None or table.status is not RefreshStatus.ACTIVATED:
        return False
    return table.definition.refresh_mode is RefreshMode.FULL


def materialized(tx: Transaction, source: str) -> MaterializedTable | None:
    """Return the materialized table with the source name *source*, or None for any other source."""
    identifier = table_in(source)
    return None if identifier is None else tx.tables.named(identifier)


def table_in(source: str) -> TableIdentifier | None:
    """Return the identifier of the table with the source name *source*, or None if it is not a table name.

    Also returns None for a table that a query reads at a version named in its text, because no refresh of the
    table changes what the query reads.
    """
    parts, version = read_source(source)
    return qualify(parts, parts[0], parts[1:-1]) if len(parts) > 2 and not version else None


def read_source(source: str) -> tuple[Name, bool]:
    """Parse a source name: return the table name, and whether a version follows it.

    A source without a name, such as files read by path, has no name parts.
    """
    cursor = TokenCursor(source)
    try:
        parts = cursor.name()
        version = cursor.accept("AS", "OF")
        return (parts, version) if version or cursor.at_end else ((), False)
    except SqlSyntaxError:
        return (), False


def _wake(tx: Transaction, should_wake: Callable[[RefreshRun], bool]) -> int:
    runs = [run for run in tx.runs.waiting() if should_wake(run)]
    for run in runs:
        tx.runs.replace(replace(run, waits_until=None), expected=run)
    return len(runs)
