"""The rows of SHOW REFRESHES."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from mt_core.base.rowset import BIGINT, DOUBLE, INT, Column, RowSet
from mt_core.model.formatter import show_schedule_time
from mt_core.model.run import RefreshRun
from mt_core.model.table import TableIdentifier
from mt_core.tables.brief import brief_scope, brief_text
from mt_core.tables.views.run_view import RunView, UnreadableRun

_COLUMNS = (
    Column(name="refresh"),
    Column(name="materialized table"),
    Column(name="kind"),
    Column(name="schedule time"),
    Column(name="partitions"),
    Column(name="status"),
    Column(name="decision"),
    Column(name="reason"),
    Column(name="attempt", type=INT),
    Column(name="requested at"),
    Column(name="started at"),
    Column(name="finished at"),
    Column(name="rows", type=BIGINT),
    Column(name="snapshot"),
    Column(name="error"),
    Column(name="requested by"),
    Column(name="strategy"),
    Column(name="rows inserted", type=BIGINT),
    Column(name="rows updated", type=BIGINT),
    Column(name="rows deleted", type=BIGINT),
    Column(name="bytes read", type=BIGINT),
    Column(name="job"),
    Column(name="seconds", type=DOUBLE),
)
_SHORT = (
    *("materialized table", "requested at", "status", "partitions", "rows", "strategy", "seconds"),
    # The error instead, if there is one.
    "reason",
)
_SHORT_COLUMNS = tuple(column for name in _SHORT for column in _COLUMNS if column.name == name)

_BATCH_COLUMNS = (
    Column(name="refresh"),
    Column(name="batch", type=INT),
    Column(name="began at"),
    Column(name="seconds", type=DOUBLE),
    Column(name="lag seconds", type=DOUBLE),
    Column(name="strategy"),
    Column(name="rows", type=BIGINT),
    Column(name="snapshot"),
    Column(name="bytes read", type=BIGINT),
)


def run_rows(views: Iterable[RunView | UnreadableRun], *, extended: bool) -> RowSet:
    """Return the rows of SHOW REFRESHES.

    If a run is unreadable, the reason is in `error`, or in `reason` in the short form.
    """
    columns = _COLUMNS if extended else _SHORT_COLUMNS
    known = [
        _unreadable_row(view, extended) if isinstance(view, UnreadableRun) else _row(view, extended)
        for view in views
    ]
    if not extended:
        known = [{**row, "reason": brief_text(row["reason"])} for row in known]
    return RowSet(columns=columns, rows=[[row.get(column.name) for column in columns] for row in known])


def _unreadable_row(run: UnreadableRun, extended: bool) -> dict[str, Any]:
    return {
        "refresh": run.run_id,
        "materialized table": _table_text(run.table, run.table_id),
        "error" if extended else "reason": f"cannot be read: {run.error}",
    }


def _table_text(table: TableIdentifier | None, table_id: str) -> str:
    return str(table) if table else f"dropped ({table_id})"


def batch_rows(runs: Iterable[RunView], limit: int) -> RowSet:
    """Return up to *limit* rows of SHOW REFRESHES … BATCHES: the last batches of each run, newest first."""
    rows = [
        [
            view.run.run_id,
            batch.number,
            show_schedule_time(batch.began_at, view.zone),
            batch.seconds,
            batch.lag,
            batch.strategy,
            batch.rows,
            batch.snapshot_id,
            batch.bytes_read,
        ]
        for view in runs
        for batch in reversed(view.run.recent)
    ]
    return RowSet(columns=_BATCH_COLUMNS, rows=rows[:limit])


def _row(view: RunView, extended: bool) -> dict[str, Any]:
    run = view.run

    def shown(instant: datetime | None) -> str | None:
        return show_schedule_time(instant, view.zone) if instant else None

    reason = f"covered by {run.covered_by}" if run.covered_by else view.reason
    row = {
        "materialized table": _table_text(view.table, run.table_id),
        "requested at": shown(run.requested_at),
        "partitions": str(run.scope) if extended else brief_scope(run.scope),
        "status": run.status.value,
        "reason": reason if extended else run.error or reason,
        "rows": run.rows,
        "strategy": run.strategy,
        "seconds": _seconds(run),
    }
    if not extended:
        return row
    return row | {
        "refresh": run.run_id,
        "kind": view.kind,
        "schedule time": shown(run.schedule_time),
        "decision": run.decision,
        "attempt": run.attempt,
        "started at": shown(run.started_at),
        "finished at": shown(run.finished_at),
        "snapshot": run.snapshot_id,
        "error": run.error,
        "requested by": run.requested_by,
        "rows inserted": run.rows_inserted,
        "rows updated": run.rows_updated,
        "rows deleted": run.rows_deleted,
        "bytes read": run.bytes_read,
        "job": run.continuous_job or run.job_id,
    }


def _seconds(run: RefreshRun) -> float | None:
    """Return the duration of an ended run in seconds, or None if it has not ended."""
    if run.started_at is None or run.finished_at is None:
        return None
    return round((run.finished_at - run.started_at).total_seconds(), 1)
