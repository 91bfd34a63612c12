"""Failures in a row: the schedule times of a table that failed by its query one after the other,
until one succeeds. Pure.

Of a CONTINUOUS table these are runs, which end at a batch that fails.
"""

from __future__ import annotations

from dataclasses import replace

from mt_core.model.run import DONE, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus
from mt_core.tables.settings import ManagerSettings

_COUNTED = frozenset({RunKind.PERIODIC, RunKind.CONTINUOUS})


def count_failures(settings: ManagerSettings, table: MaterializedTable, run: RefreshRun) -> MaterializedTable:
    """Return *table* after the end of *run* with its last failures in a row.

    A schedule time counts once, however often it is tried; a run of several counts as the latest of them,
    since each of the others is tried alone. What was lost or away neither counts nor ends the row.
    """
    before = () if run.status in DONE or run.recent else table.failed_times
    most = settings.suspend_after
    if run.status is RunStatus.FAILED and run.by_query and run.kind in _COUNTED and most:
        time = run.schedule_time or run.requested_at
        before = (*(other for other in before if other != time), time)[-most:]
    return table if before == table.failed_times else replace(table, failed_times=before)


def why_suspend(settings: ManagerSettings, table: MaterializedTable) -> str | None:
    """Return what failed as often in a row as it may, in words; None if *table* goes on,
    or is suspended already.
    """
    most = settings.suspend_after
    if not most or len(table.failed_times) < most or table.status is not RefreshStatus.ACTIVATED:
        return None
    what = "batches" if table.definition.refresh_mode is RefreshMode.CONTINUOUS else "schedule times"
    return f"{most} failed {what} in a row"
