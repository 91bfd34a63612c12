"""Refresh runs as operations: a run id is an operation handle under any live session, also after a restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mt_core.errors import IllegalStatus, MtError, OperationNotFound, QueryBroken, RefreshFailed
from mt_core.model.run import DONE, RefreshRun, RunStatus
from mt_core.rowset import BIGINT, STRING_MAP, Column, PageForm, RowSet
from mt_core.sessions.operations.operation import (
    TERMINAL,
    Operation,
    OperationProgress,
    OperationResult,
    OperationStatus,
    OperationView,
    ResultKind,
)
from mt_core.sessions.operations.result_pages import EncodedPage, Page, ResultPages
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.table_commands import Runs

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
    """Return the result of a refresh: one row of job id and cluster info, as in Flink, with partitions and rows."""
    job_id = run.job_id or run.run_id.replace("-", "")
    rows = RowSet(columns=REFRESH_COLUMNS, rows=[[job_id, dict(cluster_info), str(run.scope), run.rows]])
    return OperationResult(rows=rows, result_kind=ResultKind.SUCCESS_WITH_CONTENT, run=run)


def queue_message(run: RefreshRun) -> str:
    """Return the progress message of an open run."""
    return "refreshing" if run.status is RunStatus.RUNNING else "waiting for its turn"


class RefreshOperation:
    """A run as an operation. It has no state: every call reads the ledger."""

    def __init__(self, handle: str, runs: Runs, cluster_info: ClusterInfo) -> None:
        self.handle = handle
        self._runs, self._cluster_info = runs, cluster_info

    @property
    def status(self) -> OperationStatus:
        return STATUS_OF[self._run().status]

    @property
    def error(self) -> MtError | None:
        run = self._run()
        if run.status is not RunStatus.FAILED:
            return None
        failure = QueryBroken if run.broken else RefreshFailed
        return failure(f"Refresh {self.handle} failed: {run.error or 'its worker gave no reason.'}")

    @property
    def result(self) -> OperationResult | None:
        run = self._run()
        return refresh_result(run, self._cluster_info()) if run.status in DONE else None

    def wait(self, timeout_s: float) -> bool:
        """Wait until the run is terminal; returns whether it is."""
        return STATUS_OF[self._runs.wait_run(self.handle, timeout_s).status] in TERMINAL

    def wait_page(self, token: int, timeout_s: float) -> bool:
        """Wait until the run is terminal; returns whether it is: then its one row is there."""
        return self.wait(timeout_s)

    def fetch(self, token: int, size: int | None = None) -> Page:
        """Return page *token*; raises IllegalStatus unless FINISHED, RequestInvalid for a token out of turn."""
        return self._pages(token).fetch(token, size)

    def fetch_encoded(self, token: int, size: int | None, form: PageForm) -> EncodedPage:
        """Return page *token* like `fetch`."""
        return self._pages(token).fetch_encoded(token, size, form)

    def _pages(self, token: int) -> ResultPages:
        result = self.result
        if result is None:
            raise IllegalStatus(f"Operation {self.handle} is {self.status}: it has no result to fetch.")
        pages = ResultPages(result.rows)
        if token > 0:
            pages.fetch(0)
        return pages

    def cancel(self) -> None:
        """Withdraw the requester from the run; raises IllegalStatus when the run has ended."""
        self.cancel_attempt(None)

    def cancel_attempt(self, attempt: int | None) -> OperationStatus:
        """Withdraw one attempt of the requester, and return the status; after the run's end this changes nothing.

        Raises IllegalStatus when the run has ended, unless an attempt is given.
        """
        status = self.status
        if status in TERMINAL and attempt is None:
            raise IllegalStatus(f"Operation {self.handle} is {status} and cannot become {OperationStatus.CANCELED}.")
        run = self._runs.cancel_run(self.handle, attempt)
        left = STATUS_OF[run.status]
        return OperationStatus.CANCELED if run.cancel_requested and left not in TERMINAL else left

    def progress(self) -> OperationProgress | None:
        """Return the progress of the run; None when it has ended."""
        run = self._run()
        if STATUS_OF[run.status] in TERMINAL:
            return None
        return OperationProgress.of(self._runs.progress(self.handle), queue_message(run))

    def _run(self) -> RefreshRun:
        run = self._runs.run(self.handle)
        if run is None:
            raise OperationNotFound(
                f"Operation {self.handle} is not known; it was closed or never existed.", operation=self.handle
            )
        return run


class OperationFinder:
    """Finds an operation by its handles, whether a statement of the session or a refresh run of any table."""

    def __init__(self, sessions: SessionManager, runs: Runs, cluster_info: ClusterInfo) -> None:
        self._sessions, self._runs, self._cluster_info = sessions, runs, cluster_info

    def find(self, session_handle: str, handle: str) -> OperationView:
        """Return the operation; raises SessionNotFound, OperationNotFound."""
        session = self._sessions.get(session_handle)
        try:
            return session.operation(handle)
        except OperationNotFound:
            if self._runs.run(handle) is None:
                raise
        return RefreshOperation(handle, self._runs, self._cluster_info)

    def statement(self, session_handle: str, handle: str) -> Operation | None:
        """Return the operation if it is a statement of the session, without reading the ledger; raises SessionNotFound."""
        return self._sessions.get(session_handle).open_operation(handle)

    def cancel(self, session_handle: str, handle: str, attempt: int | None) -> OperationStatus:
        """End an operation and return its status; *attempt* numbers the caller's attempts at a refresh (None: it has none).

        Raises IllegalStatus when it has ended.
        """
        operation = self.find(session_handle, handle)
        if isinstance(operation, RefreshOperation):
            return operation.cancel_attempt(attempt)
        operation.cancel()
        return OperationStatus.CANCELED

    def close(self, session_handle: str, handle: str) -> None:
        """Close a statement; harmless for a refresh, which stays in the ledger, and for an operation that is closed already."""
        self._sessions.get(session_handle).close_operation(handle)
