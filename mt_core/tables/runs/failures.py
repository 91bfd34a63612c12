"""Consecutive failures: schedule times that failed because of the query, without a success in between.

Pure functions. For a CONTINUOUS table runs are counted instead, because a failed batch ends its run.
"""

from __future__ import annotations

from dataclasses import replace

from mt_core.model.run import DONE, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus
from mt_core.tables.settings import ManagerSettings

_COUNTED = frozenset({RunKind.PERIODIC, RunKind.CONTINUOUS})


def count_failures(settings: ManagerSettings, table: MaterializedTable, run: RefreshRun) -> MaterializedTable:
    """Return *table* with its consecutive failures after the end of *run*.

    A schedule time counts once, however often it is tried. A run of several schedule times counts as the
    latest of them, because the others are retried one by one. Lost processes and unavailable sources are not
    counted, and do not reset the count.
    """
    before = () if run.status in DONE or run.recent else table.failed_times
    most = settings.suspend_after
    if run.status is RunStatus.FAILED and run.by_query and run.kind in _COUNTED and most:
        time = run.schedule_time or run.requested_at
        before = (*(other for other in before if other != time), time)[-most:]
    return table if before == table.failed_times else replace(table, failed_times=before)


def why_suspend(settings: ManagerSettings, table: MaterializedTable) -> str | None:
    """Return why *table* must be suspended, as text for users.

    The result is None if the table has not failed often enough in a row or is already suspended, or if
    `suspend_after` is 0.
    """
    most = settings.suspend_after
    if not most or len(table.failed_times) < most or table.status is not RefreshStatus.ACTIVATED:
        return None
    what = "batches" if table.definition.refresh_mode is RefreshMode.CONTINUOUS else "schedule times"
    return f"{most} failed {what} in a row"
