"""The health of a table: whether it is refreshed as often as it should be, and how stale it is, as far as that is known."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from mt_core.model.freshness import grid_of
from mt_core.model.run import DONE, RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.registry import Transaction
from mt_core.tables.runs.decide import SUSPENDED

LATE, FAILING, OK = "LATE", "FAILING", "OK"
_PAGE = 10
_TICK = timedelta(microseconds=1)


def last_run(tx: Transaction, table: MaterializedTable, statuses: Iterable[RunStatus]) -> RefreshRun | None:
    """Return the newest run of those statuses; those skipped as suspended, of which there may be many, are none."""
    wanted, before = frozenset(statuses), None
    while runs := tx.runs.newest(table_id=table.table_id, statuses=wanted, before=before, limit=_PAGE):
        for run in runs:
            if run.decision != SUSPENDED:
                return run
        before = runs[-1].run_id
    return None


def health_of(
    table: MaterializedTable, *, ended: RefreshRun | None, done: RefreshRun | None, now: datetime
) -> str | None:
    """Return FAILING, LATE or OK; None for a table that is not kept fresh. *ended* and *done* are its newest such runs."""
    if table.failing or (ended is not None and ended.status is RunStatus.FAILED):
        return FAILING
    if table.status is not RefreshStatus.ACTIVATED:
        return None
    grid = grid_of(table.definition.freshness, table.definition.zone)
    previous = grid.at_or_before(grid.at_or_before(now) - _TICK)
    since = fresh_as_of(done) if done is not None else table.created_at
    return LATE if max(since, table.status_at) < previous else OK


def staleness(done: RefreshRun, now: datetime) -> str:
    """Return how old the sources are that *done* has read, and what else it left as it was."""
    age, scope = _age(now - fresh_as_of(done)), done.scope
    if scope.specs is None:
        return age
    return f"{age} (only {scope if len(scope.specs) == 1 else f'{len(scope.specs)} partitions'})"


def fresh_as_of(run: RefreshRun) -> datetime:
    """Return the instant at which what *run* refreshed was true: when it read its sources."""
    return run.started_at or run.requested_at


ENDED = DONE | {RunStatus.FAILED}


def _age(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172800 else f"{seconds // 86400} d"
