"""Waiting for refreshes: an operation ends when the run that it requested ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from mt_core.errors import Canceled, RefreshFailed
from mt_core.model.run import DONE, RefreshRun, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.sessions.operations import operation as operations
from mt_core.sessions.operations.operation import (
    POLL_S,
    TERMINAL,
    Operation,
    OperationKind,
    OperationResult,
    OperationStatus,
    Work,
    content,
)
from mt_core.sessions.ports import Runs
from mt_core.sessions.refreshes import STATUS_OF, ClusterInfo, queue_message, refresh_result
from mt_core.sql.statements import RefreshTable, TableStatement
from mt_core.tables.table_commands import CommandOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRefresh:
    """A run that an operation waits for, with its table and the statement that requested it."""

    run_id: str
    table: TableIdentifier
    statement: TableStatement
    outcome: CommandOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshWait:
    """Waits for the runs of operations. Cancelling the operation cancels its run."""

    runs: Runs
    cluster_info: ClusterInfo

    def begin(self, operation: Operation, pending: PendingRefresh) -> bool:
        """Make the run the work of *operation*. Return False if the operation has already ended.

        If the operation was cancelled, its run is cancelled too.
        """
        runs, run_id = self.runs, pending.run_id
        work = Work(
            kind=OperationKind.REFRESH,
            message="waiting for the refresh",
            stop=lambda: runs.cancel_run(run_id),
            measure=lambda: runs.progress(run_id),
        )
        try:
            operation.begin(work)
        except Canceled:
            if operation.status is OperationStatus.CANCELED:
                runs.cancel_run(run_id)
            return False
        return True

    def wait(self, operation: Operation, pending: PendingRefresh) -> None:
        """Finish *operation* with the result of its run. Raises RefreshFailed."""
        while operation.status not in TERMINAL:
            run = self.runs.wait_run(pending.run_id, POLL_S)
            if STATUS_OF[run.status] not in TERMINAL:
                operation.report(queue_message(run))
            elif run.status not in DONE:
                raise RefreshFailed(_failure(run, pending))
            elif isinstance(pending.statement, RefreshTable):
                operation.finish(refresh_result(run, self.cluster_info()))
            else:
                operation.finish(outcome_result(with_first_duration(pending.outcome, run)))


def with_first_duration(outcome: CommandOutcome, run: RefreshRun) -> CommandOutcome:
    """Add a warning with the duration of the first refresh to the outcome of CREATE.

    This is done only if every refresh recomputes the table.
    """
    freshness = outcome.recomputed
    if freshness is None or run.started_at is None or run.finished_at is None:
        return outcome
    seconds = (run.finished_at - run.started_at).total_seconds()
    warning = f"The first refresh of {outcome.created} took {seconds:.1f} s"
    if seconds > freshness.seconds / 2:
        warning += (
            f", more than half of its freshness of {freshness.words}, so it cannot keep up: "
            f"ALTER MATERIALIZED TABLE {outcome.created} SET "
            f"FRESHNESS = INTERVAL '{ceil(2 * seconds)}' SECOND, or longer"
        )
    return replace(outcome, warnings=(*outcome.warnings, f"{warning}."))


def outcome_result(outcome: CommandOutcome) -> OperationResult:
    """Return the result of a statement about materialized tables."""
    if outcome.rows is None:
        return replace(operations.DONE, warnings=outcome.warnings)
    return content(outcome.rows, outcome.warnings)


def _failure(run: RefreshRun, pending: PendingRefresh) -> str:
    ended = (
        "was cancelled"
        if run.status is RunStatus.CANCELED
        else f"failed: {run.error or 'no reason was given'}"
    )
    table = pending.table
    if pending.outcome.created is not None:
        return (
            f"Materialized table {table} was created, but its first refresh {ended}; "
            f"correct the sources and ALTER MATERIALIZED TABLE {table} REFRESH, "
            f"or correct the query with ALTER MATERIALIZED TABLE {table} AS … or CREATE OR ALTER. "
            "Until then, each scheduled refresh tries the whole table again; DROP removes the table."
        )
    if not isinstance(pending.statement, RefreshTable):
        return f"Materialized table {table} was altered, but its full refresh {ended}"
    return f"The refresh of materialized table {table} {ended}"
