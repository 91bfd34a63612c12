"""Refresh runs as operations.

A run id is a valid operation handle in any live session, even after a restart of the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mt_core.base.rowset import BIGINT, STRING_MAP, Column, PageForm, RowSet
from mt_core.errors import IllegalStatus, MtError, OperationNotFound, QueryBroken, RefreshFailed
from mt_core.model.run import DONE, RefreshRun, RunStatus
from mt_core.sessions.operations.operation import (
    NO_TASKS,
    TERMINAL,
    Operation,
    OperationProgress,
    OperationResult,
    OperationStatus,
    ResultKind,
)
from mt_core.sessions.operations.result_pages import Page, ResultPages
from mt_core.sessions.ports import Runs
from mt_core.sessions.sessions import SessionManager

STATUS_OF: Mapping[RunStatus, OperationStatus] = {
    RunStatus.QUEUED: OperationStatus.PENDING,
    RunStatus.COALESCED: OperationStatus.PENDING,
    RunStatus.RUNNING: OperationStatus.RUNNING,
    RunStatus.SUCCEEDED: OperationStatus.FINISHED,
    RunStatus.SKIPPED: OperationStatus.FINISHED,
    RunStatus.FAILED: OperationStatus.ERROR,
    RunStatus.CANCELED: OperationStatus.CANCELED,
}
REFRESH_COLUMNS = (
    Column(name="job id"),
    Column(name="cluster info", type=STRING_MAP),
    Column(name="partitions"),
    Column(name="rows", type=BIGINT),
)

ClusterInfo = Callable[[], Mapping[str, str]]


def refresh_result(run: RefreshRun, cluster_info: Mapping[str, str]) -> OperationResult:
    """Return the result of a refresh: job id and cluster info, as in Flink, then its scope and row count."""
    job_id = run.job_id or run.run_id.replace("-", "")
    rows = RowSet(columns=REFRESH_COLUMNS, rows=[[job_id, dict(cluster_info), str(run.scope), run.rows]])
    return OperationResult(rows=rows, result_kind=ResultKind.SUCCESS_WITH_CONTENT, run=run)


def queue_message(run: RefreshRun) -> str:
    """Return the progress message of a run that has not ended."""
    return "refreshing" if run.status is RunStatus.RUNNING else "waiting for its turn"


@dataclass(frozen=True, slots=True)
class RefreshOperation:
    """A refresh run as an operation. It has no state of its own: every call reads the ledger."""

    handle: str
    runs: Runs
    cluster_info: ClusterInfo

    def run(self) -> RefreshRun:
        """Return the current state of the run. Raises OperationNotFound."""
        run = self.runs.run(self.handle)
        if run is None:
            raise OperationNotFound(
                f"Operation {self.handle} is not known; it was closed or never existed.",
                operation=self.handle,
            )
        return run

    @property
    def request_id(self) -> str:
        """Empty, because several requests may have requested the run."""
        return ""

    @property
    def status(self) -> OperationStatus:
        return STATUS_OF[self.run().status]

    @property
    def error(self) -> MtError | None:
        """The error of a failed run, or None if it has not failed."""
        run = self.run()
        if run.status is not RunStatus.FAILED:
            return None
        failure = QueryBroken if run.broken else RefreshFailed
        return failure(f"Refresh {self.handle} failed: {run.error or 'its worker gave no reason.'}")

    @property
    def result(self) -> OperationResult | None:
        """The result of a run that succeeded or was skipped, or None."""
        run = self.run()
        return refresh_result(run, self.cluster_info()) if run.status in DONE else None

    def wait(self, timeout_s: float) -> bool:
        """Wait until the run is terminal, for up to *timeout_s*; return whether it is."""
        return STATUS_OF[self.runs.wait_run(self.handle, timeout_s).status] in TERMINAL

    def wait_page(self, token: int, timeout_s: float) -> bool:
        """Wait until the run is terminal, for up to *timeout_s* seconds, and return whether it is.

        The only row of the result becomes available when the run is terminal.
        """
        return self.wait(timeout_s)

    def fetch(self, token: int, size: int | None = None, form: PageForm | None = None) -> Page:
        """Return page *token*; see `Operation.fetch`. Raises IllegalStatus if the run has no result."""
        run = self.run()
        if run.status not in DONE:
            raise IllegalStatus(
                f"Operation {self.handle} is {STATUS_OF[run.status]}: it has no result to fetch."
            )
        pages = ResultPages(refresh_result(run, self.cluster_info()).rows)
        if token > 0:
            pages.fetch(0)
        return pages.fetch(token, size, form)

    def progress(self) -> OperationProgress | None:
        """Return the progress of the run, or None once it has ended."""
        run = self.run()
        if STATUS_OF[run.status] in TERMINAL:
            return None
        return OperationProgress(
            tasks=self.runs.progress(self.handle) or NO_TASKS, message=queue_message(run)
        )

    def cancel(self, attempt: int | None = None) -> OperationStatus:
        """Withdraw the requester, or only its *attempt*, from the run; return the operation's status.

        If the run has ended, this raises IllegalStatus, unless *attempt* is given; then it does nothing.
        """
        status = self.status
        if status in TERMINAL and attempt is None:
            raise IllegalStatus(
                f"Operation {self.handle} is {status} and cannot become {OperationStatus.CANCELED}."
            )
        run = self.runs.cancel_run(self.handle, attempt)
        status = STATUS_OF[run.status]
        return OperationStatus.CANCELED if run.cancel_requested and status not in TERMINAL else status


AnyOperation = Operation | RefreshOperation


@dataclass(frozen=True, slots=True)
class OperationFinder:
    """Finds operations by handle: statements of a session, and refresh runs of any table."""

    sessions: SessionManager
    runs: Runs
    cluster_info: ClusterInfo

    def find(self, session_handle: str, handle: str) -> AnyOperation:
        """Return the operation with *handle*. Raises SessionNotFound, OperationNotFound."""
        statement = self.sessions.get(session_handle).operation(handle)
        if statement is not None:
            return statement
        if self.runs.run(handle) is not None:
            return RefreshOperation(handle, self.runs, self.cluster_info)
        raise OperationNotFound(
            f"Operation {handle} is not known in session {session_handle}; it was closed or never existed.",
            operation=handle,
        )

    def cancel(self, session_handle: str, handle: str, attempt: int | None) -> OperationStatus:
        """Cancel an operation and return its status. Raises IllegalStatus if it has already ended.

        *attempt* is the number of the caller's attempt at a refresh, or None if the caller does not number
        its attempts.
        """
        operation = self.find(session_handle, handle)
        if isinstance(operation, RefreshOperation):
            return operation.cancel(attempt)
        operation.cancel()
        return OperationStatus.CANCELED
