"""Periodic runs: the schedule times that a claim adds to a run, and the runs that follow when it ends.

If a run with several schedule times fails, it is unknown which of them caused the failure. So one run for
each of them follows, one after the other and after all other work. This stops when three in a row have failed
with the same error: then a source is the cause, not a partition. A schedule time that failed when it was
refreshed separately is excluded from later combined runs and retried after each success. So it delays no
other, and is refreshed once its cause has been removed. No run follows a run whose query is broken: each
would fail in the same way, and all its schedule times remain due.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mt_core.incremental.strategy import Way
from mt_core.model.partition import WHOLE
from mt_core.model.run import DONE, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.registry import Transaction
from mt_core.tables.runs.due import (
    cover,
    due_share,
    has_come,
    is_due,
    scope_of,
    share_of,
    without_to_come,
)

MOST_ALIKE = 3
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicRuns:
    """Determines the periodic runs to queue."""

    max_partitions: int
    new_id: Callable[[], str]

    # -------------------------------------------------------------------------------------------------- claim

    def widened(self, tx: Transaction, table: MaterializedTable, run: RefreshRun) -> RefreshRun:
        """Return *run* with all schedule times that are due when it is claimed.

        Those beyond the limit of partitions are queued as a further run.
        """
        if run.kind is not RunKind.PERIODIC:
            return run
        # A schedule time is in the future if it was requested before the clock was set back.
        run = replace(run, points=tuple(point for point in run.points if has_come(point, tx.now())))
        if run.solo:
            return run
        if table.rebuild_due is not None:
            run = replace(run, scope=WHOLE)
        if not run.points or not table.definition.date_formatters:
            return run
        until = max(run.points)
        if not is_due(table, until):
            return run
        failing = () if run.scope.whole else set(table.failing) - set(run.points)
        share = due_share(table, until, max_partitions=self.max_partitions, without=failing)
        if share.rest is not None:
            tx.runs.insert(self._run(table, [share.rest], tx.now(), options=run.options))
        scope = WHOLE if run.scope.whole else run.scope.union(scope_of(table, share.points))
        return replace(run, points=tuple(sorted({*run.points, *share.points}, reverse=True)), scope=scope)

    # ---------------------------------------------------------------------------------------------------- end

    def ended(self, tx: Transaction, table: MaterializedTable, run: RefreshRun) -> MaterializedTable:
        """Queue the runs that must follow the end of *run* and return the table after that end."""
        table = _marked(tx, table, run)
        if run.kind is not RunKind.PERIODIC or not run.points or not table.definition.date_formatters:
            return table
        if run.status is RunStatus.FAILED and run.broken:
            return table
        # If a run also took late partitions, they may have caused the failure, so it is repeated without
        # them.
        several = len(run.points) > 1 or (not run.solo and run.scope != scope_of(table, run.points))
        if run.status is RunStatus.FAILED and several:
            # Schedule times that failed separately before come last.
            first = [point for point in table.failing if point in run.points]
            others = set(run.points).difference(first)
            self._queue_next(tx, table, run, (*sorted(others, reverse=True), *first), alike=0)
        elif run.solo:
            alike = _alike(run)
            if alike < MOST_ALIKE:
                self._queue_next(tx, table, run, run.rest, alike=alike)
        elif run.status in DONE:
            self._queue_failing(tx, table, run)
        return table

    def _queue_next(
        self,
        tx: Transaction,
        table: MaterializedTable,
        run: RefreshRun,
        points: Sequence[datetime],
        *,
        alike: int,
    ) -> None:
        """Queue a single run for the first due schedule time of *points*; the others are to follow it.

        If a single run is already queued, the schedule times are added after its own.
        """
        due = [point for point in points if is_due(table, point)]
        waiting = next((each for each in tx.runs.queued(table.table_id) if each.solo), None)
        if waiting is not None:
            rest = tuple(point for point in due if point not in waiting.points and point not in waiting.rest)
            tx.runs.replace(replace(waiting, rest=(*waiting.rest, *rest)), expected=waiting)
        elif due:
            first = self._run(table, due[:1], tx.now(), options=run.options)
            origin = run.retry_of if len(run.points) == 1 and run.solo else run.run_id
            after = replace(first, solo=True, retry_of=origin, rest=tuple(due[1:]), alike=alike)
            tx.runs.insert(replace(after, error_before=_without_digits(run.error) if alike else None))

    def _queue_failing(self, tx: Transaction, table: MaterializedTable, run: RefreshRun) -> None:
        """Queue one retry of all schedule times that failed separately, after all other work."""
        again = share_of(table, table.failing, self.max_partitions, max_points=self.max_partitions).points
        if again and not any(each.solo for each in tx.runs.queued(table.table_id)):
            retry = self._run(table, again, tx.now(), options=run.options)
            tx.runs.insert(replace(retry, solo=True, retry_of=run.run_id))

    def _run(
        self,
        table: MaterializedTable,
        points: Sequence[datetime],
        now: datetime,
        *,
        options: Mapping[str, str],
    ) -> RefreshRun:
        return RefreshRun(
            run_id=self.new_id(),
            table_id=table.table_id,
            kind=RunKind.PERIODIC,
            scope=scope_of(table, points),
            points=tuple(sorted(points, reverse=True)),
            schedule_time=max(points),
            requested_at=now,
            options=options,
        )


def _marked(tx: Transaction, table: MaterializedTable, run: RefreshRun) -> MaterializedTable:
    """Return *table* as *run* leaves it.

    Updates the covered schedule times, the due rebuild, and the schedule times that failed separately.
    """
    marked = table
    if run.status in DONE:
        if table.definition.date_formatters and run.points:
            marked = without_to_come(cover(marked, run.points), tx.now())
        # An upgrade may have changed what is part of a fingerprint.
        computed = run.fingerprint in (table.rebuild_due, fingerprint_of(table.definition))
        # A run that began before the rows were in doubt may still have applied changes.
        trusted = table.doubt is None or run.kind is RunKind.REBUILD or run.strategy == Way.RECOMPUTE
        if run.scope.whole and table.rebuild_due is not None and computed and trusted:
            marked = replace(marked, rebuild_due=None, doubt=None)
    failing = [point for point in marked.failing if point not in run.points or run.status not in DONE]
    if run.solo and len(run.points) == 1 and run.status is RunStatus.FAILED and not run.broken:
        failing = [*(point for point in failing if point not in run.points), *run.points]
    # Without date-formatters every refresh covers the whole table, so no schedule time fails separately.
    due = tuple(point for point in failing if table.definition.date_formatters and is_due(marked, point))
    return marked if due == marked.failing else replace(marked, failing=due)


def _alike(run: RefreshRun) -> int:
    """Return how many single runs in a row, up to *run*, have failed with the same error."""
    if run.status is not RunStatus.FAILED:
        return 0
    return run.alike + 1 if run.error_before == _without_digits(run.error) else 1


def _without_digits(error: str | None) -> str:
    """Return *error* without digits, to compare causes.

    Digits name the partition, snapshot or attempt; the rest of the text identifies the cause.
    """
    return _DIGITS.sub("", error or "")
