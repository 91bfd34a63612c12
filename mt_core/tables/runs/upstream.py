"""Upstream: the materialized tables that a table reads, and for the runs of which a periodic run of it waits.

A schedule time is waited for while a run of it is open, and from its passing until it is requested, since a scheduler sends the
ticks of one instant in any order. Points that failed alone do not keep others waiting, nor does a table that no schedule keeps.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mt_core.model.formatter import show_schedule_time
from mt_core.model.freshness import grid_of
from mt_core.model.run import OPEN, RefreshRun, RunKind
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus
from mt_core.sql.parser import parse_name
from mt_core.sql.statements import qualify
from mt_core.tables.registry import Transaction
from mt_core.tables.runs.due import is_due
from mt_core.tables.settings import ManagerSettings, upstream_wait_of


def with_wait(tx: Transaction, table: MaterializedTable, run: RefreshRun, settings: ManagerSettings) -> RefreshRun:
    """Return *run*, which no worker has claimed yet, with the runs that it has to wait for now, and until when at most."""
    wait = upstream_wait_of(table.definition, settings)
    if run.kind is not RunKind.PERIODIC or run.claim or run.schedule_time is None or not wait:
        return run
    awaited = {
        upstream.table_id: f"{upstream.identifier} at {show_schedule_time(point, table.definition.zone)}"
        for upstream in _upstream_of(tx, table)
        if (point := _open_point(tx, upstream, run.schedule_time)) is not None
    }
    return replace(run, waits_for=awaited, waits_until=run.requested_at + wait if awaited else None)


def wake(tx: Transaction, table_id: str) -> None:
    """Let the runs that wait for those of a table be looked at again."""
    for run in tx.runs.waiting():
        if table_id in run.waits_for:
            tx.runs.replace(replace(run, waits_until=None), expected=run)


def wake_needless(tx: Transaction, settings: ManagerSettings) -> int:
    """End the waits that have no cause any more, since a table was suspended, dropped or changed; return how many."""
    needless = 0
    for run in tx.runs.waiting():
        table = tx.tables.get(run.table_id)
        if table is None or not with_wait(tx, table, run, settings).waits_for:
            tx.runs.replace(replace(run, waits_until=None), expected=run)
            needless += 1
    return needless


def materialized(tx: Transaction, source: str) -> MaterializedTable | None:
    """Return the materialized table of the name *source*; None for any other source."""
    parts = parse_name(source)
    return tx.tables.named(qualify(parts, parts[0], parts[1:-1])) if len(parts) > 2 else None


def _upstream_of(tx: Transaction, table: MaterializedTable) -> list[MaterializedTable]:
    found = (materialized(tx, source) for source in table.definition.sources)
    return [each for each in found if each is not None and each.table_id != table.table_id]


def _open_point(tx: Transaction, table: MaterializedTable, until: datetime) -> datetime | None:
    """Return the latest schedule time up to *until* for which the schedule of *table* still has to refresh it, None if none is."""
    definition = table.definition
    if definition.refresh_mode is not RefreshMode.FULL or table.status is not RefreshStatus.ACTIVATED:
        return None
    runs = tx.runs.newest(table_id=table.table_id, statuses=OPEN)
    points = {point for run in runs if run.kind is RunKind.PERIODIC for point in run.points if point <= until}
    if points := points.difference(table.failing):
        return max(points)
    passed = grid_of(definition.freshness, definition.zone).at_or_before(until)
    if passed <= table.status_at or not is_due(table, passed):
        return None
    requested = tx.runs.last_point(table.table_id)
    return passed if requested is None or requested < passed else None
