"""How SHOW REFRESHES writes the views of runs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from mt_core.model.formatter import show_schedule_time
from mt_core.model.table import TableIdentifier
from mt_core.rowset import BIGINT, DOUBLE, INT, Column, RowSet
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
)


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


def run_rows(views: Iterable[RunView | UnreadableRun]) -> RowSet:
    """Return the rows of SHOW REFRESHES; that of a run that cannot be read has its id, and why in `error`."""
    rows = [_unreadable_row(view) if isinstance(view, UnreadableRun) else _row(view) for view in views]
    return RowSet(columns=_COLUMNS, rows=rows)


def _unreadable_row(run: UnreadableRun) -> list[object]:
    known = {
        "refresh": run.run_id,
        "materialized table": _table_text(run.table, run.table_id),
        "error": f"cannot be read: {run.error}",
    }
    return [known.get(column.name) for column in _COLUMNS]


def _table_text(table: TableIdentifier | None, table_id: str) -> str:
    return str(table) if table else f"dropped ({table_id})"


def batch_rows(stretches: Iterable[RunView], limit: int) -> RowSet:
    """Return the rows of SHOW REFRESHES … BATCHES, newest first: the last batches of each of *stretches*."""
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
        for view in stretches
        for batch in reversed(view.run.recent)
    ]
    return RowSet(columns=_BATCH_COLUMNS, rows=rows[:limit])


def _row(view: RunView) -> list[object]:
    run = view.run

    def shown(instant: datetime | None) -> str | None:
        return show_schedule_time(instant, view.zone) if instant else None

    return [
        run.run_id,
        _table_text(view.table, run.table_id),
        view.kind,
        shown(run.schedule_time),
        str(run.scope),
        run.status.value,
        run.decision,
        f"covered by {run.covered_by}" if run.covered_by else view.reason,
        run.attempt,
        shown(run.requested_at),
        shown(run.started_at),
        shown(run.finished_at),
        run.rows,
        run.snapshot_id,
        run.error,
        run.requested_by,
        run.strategy,
        run.rows_inserted,
        run.rows_updated,
        run.rows_deleted,
        run.bytes_read,
        run.continuous_job or run.job_id,
    ]
