"""An operation: the execution of one statement, with its status and its result (FLIP-91).

Clients, the executor, deadlines and the closing of sessions all end operations concurrently. Every change of
status therefore goes through `advance()`, which checks `TRANSITIONS` under a lock. The first change to a
terminal status wins, and a result that arrives later is released. An operation becomes FINISHED when its
first rows are available, as in Flink. Its query may then still run (`querying`), and until the query ends the
operation can be cancelled or time out.

`Work` says who does the work and therefore what to stop. Closing stops a query, but not a change of data or a
refresh, which outlive their session. Cancelling stops all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from mt_core.base.request_id import request_id
from mt_core.base.rowset import OK, PageForm, RowSet
from mt_core.errors import Canceled, IllegalStatus, MtError
from mt_core.model.progress import Progress
from mt_core.model.run import RefreshRun
from mt_core.sessions.operations.result_pages import Page, ResultPages
from mt_core.sessions.ports import ResultRows
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement

# How long a thread waits before it checks whether its operation has ended.
POLL_S = 1.0


class OperationStatus(StrEnum):
    """The status of an operation (FLIP-91)."""

    INITIALIZED = "INITIALIZED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    CLOSED = "CLOSED"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"


_ENDS = frozenset(
    {OperationStatus.CANCELED, OperationStatus.CLOSED, OperationStatus.TIMEOUT, OperationStatus.ERROR}
)
_ONLY_CLOSED = frozenset({OperationStatus.CLOSED})

TRANSITIONS: Mapping[OperationStatus, frozenset[OperationStatus]] = {
    OperationStatus.INITIALIZED: _ENDS | {OperationStatus.PENDING},
    OperationStatus.PENDING: _ENDS | {OperationStatus.RUNNING},
    OperationStatus.RUNNING: _ENDS | {OperationStatus.FINISHED},
    # A query keeps running while its first rows are read. Until it ends, it can be cancelled or time out.
    OperationStatus.FINISHED: _ONLY_CLOSED | {OperationStatus.CANCELED, OperationStatus.TIMEOUT},
    OperationStatus.CANCELED: _ONLY_CLOSED,
    OperationStatus.TIMEOUT: _ONLY_CLOSED,
    OperationStatus.ERROR: _ONLY_CLOSED,
    OperationStatus.CLOSED: frozenset(),
}
TERMINAL = _ENDS | {OperationStatus.FINISHED}


class OperationKind(StrEnum):
    """Who does the work: the session, the manager of materialized tables, a refresh run, or Spark.

    JOB is work in Spark that changes data. Like a refresh, it outlives its session.
    """

    SESSION = "SESSION"
    TABLE = "TABLE"
    REFRESH = "REFRESH"
    SPARK = "SPARK"
    JOB = "JOB"


class ResultKind(StrEnum):
    """Whether a statement has a result set (FLIP-91)."""

    SUCCESS = "SUCCESS"
    SUCCESS_WITH_CONTENT = "SUCCESS_WITH_CONTENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """The result of a finished operation.

    `job_id` (32 hex digits) is None if no job ran. `run` is the refresh run that the operation waited for, if
    any. `affected_rows` is the number of rows written, or None if unknown.
    """

    rows: ResultRows
    result_kind: ResultKind
    is_query: bool = False
    job_id: str | None = None
    warnings: tuple[str, ...] = ()
    run: RefreshRun | None = None
    affected_rows: int | None = None


DONE = OperationResult(rows=OK, result_kind=ResultKind.SUCCESS)


def content(rows: RowSet, warnings: tuple[str, ...] = ()) -> OperationResult:
    """Return the result of a statement that shows *rows* and runs no job."""
    return OperationResult(rows=rows, result_kind=ResultKind.SUCCESS_WITH_CONTENT, warnings=warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationProgress:
    """The progress of an operation: the engine's task counts, and a description of the current step."""

    tasks: Progress
    message: str


NO_TASKS = Progress(done=0, total=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of an operation, with callbacks that stop it and measure its progress."""

    kind: OperationKind
    message: str
    job_id: str | None = None
    stop: Callable[[], object] | None = None
    measure: Callable[[], Progress | None] | None = None
    statements: int = 1


class Operation:
    """The execution of one statement. Thread-safe.

    `planned_job_id` is the id of its job, if it starts one. `caller` is the name of the request's token (""
    if no token is required), and `request_id` the id of the request that began it. *on_end* is called once,
    with the first terminal status. Only this class assigns `status`, `work`, `result` (None until FINISHED)
    and `error` (set for ERROR and TIMEOUT).
    """

    def __init__(
        self,
        handle: str,
        statement: ReadStatement,
        created_at: datetime,
        *,
        planned_job_id: str = "",
        caller: str = "",
        on_end: Callable[[OperationStatus], object] | None = None,
    ) -> None:
        self.handle, self.statement, self.created_at = handle, statement, created_at
        self.planned_job_id, self.caller, self.request_id = planned_job_id, caller, request_id()
        self.status = OperationStatus.INITIALIZED
        self.work = Work(kind=OperationKind.SESSION, message="waiting for its turn")
        self.result: OperationResult | None = None
        self.error: MtError | None = None
        self._pages: ResultPages | None = None
        self._rows_error: MtError | None = None
        self._on_end = on_end
        self._changed = threading.Condition()

    @property
    def querying(self) -> bool:
        """Whether this operation is FINISHED while its query still produces rows."""
        result = self.result
        return self.status is OperationStatus.FINISHED and result is not None and result.rows.running

    @property
    def cancelled(self) -> bool:
        """Whether the statement was cancelled or timed out.

        False if it was closed, because its work may continue.
        """
        return self.status in (OperationStatus.CANCELED, OperationStatus.TIMEOUT)

    @property
    def is_query(self) -> bool:
        """Whether the statement only returns rows to its client and changes nothing."""
        return Trait.JOB in self.statement.traits and Trait.CHANGE not in self.statement.traits

    @property
    def outlives_session(self) -> bool:
        """Whether the work continues after the session closes: a refresh, or a change that has begun."""
        work = self.work
        return work.kind is OperationKind.REFRESH or (
            work.kind is OperationKind.JOB and work.job_id is not None
        )

    # --------------------------------------------------------------------------------------- for the executor

    def advance(self, target: OperationStatus) -> OperationStatus:
        """Change the status to *target* and return the previous status.

        Raises IllegalStatus for a transition that is not in `TRANSITIONS`.
        """
        with self._changed:
            before = self.status
            if target not in TRANSITIONS[before]:
                raise _illegal(self.handle, before, target)
            self.status = target
            self._changed.notify_all()
        if self._on_end is not None and target in TERMINAL and before not in TERMINAL:
            self._on_end(target)
        return before

    def begin(self, work: Work) -> None:
        """Set the current work. Raises Canceled if the operation has ended."""
        with self._changed:
            if self.status in TERMINAL:
                raise Canceled(f"Operation {self.handle} is {self.status}.")
            self.work = work

    def report(self, message: str) -> None:
        """Set the progress message."""
        with self._changed:
            self.work = replace(self.work, message=message)

    def finish(self, result: OperationResult) -> None:
        """Become FINISHED with *result*, or release *result* if the operation has already ended."""
        with self._changed:
            late = self.status in TERMINAL
            if not late:
                self.result, self._pages = result, ResultPages(result.rows)
                self.advance(OperationStatus.FINISHED)
        if late:
            result.rows.close()
        else:
            result.rows.on_end(self._note_end)

    def _note_end(self, error: MtError | None) -> None:
        """Record the error of the query, so that a fetch after the operation is closed can still raise it."""
        with self._changed:
            if self.status is OperationStatus.FINISHED:
                self._rows_error = error

    def fail(self, error: MtError) -> None:
        """Become ERROR with *error*, unless the operation has already ended."""
        with self._changed:
            if self.status not in TERMINAL:
                self.error = error
                self.advance(OperationStatus.ERROR)

    def time_out(self, error: MtError) -> None:
        """Become TIMEOUT with *error* and stop the work, unless the work has ended."""
        with self._changed:
            if self.status in TERMINAL and not self.querying:
                return
            self.error = error
            self.advance(OperationStatus.TIMEOUT)
        self._stop(error)

    # -------------------------------------------------------------------------------------------- for clients

    def wait(self, timeout_s: float) -> bool:
        """Wait until the operation is terminal, for up to *timeout_s*; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.status in TERMINAL, timeout_s)

    def wait_page(self, token: int, timeout_s: float) -> bool:
        """Wait for up to *timeout_s* until page *token* can be fetched; return whether it can.

        A page can be fetched when it has rows, is the last one, or has failed.
        """
        if not self.wait(timeout_s):
            return False
        pages = self._pages
        return pages is None or self.status is not OperationStatus.FINISHED or pages.wait(token, timeout_s)

    def fetch(self, token: int, size: int | None = None, form: PageForm | None = None) -> Page:
        """Return page *token*. A new page has up to *size* rows, and is empty if none are available yet.

        If *form* is given, rows that support it are encoded. Raises IllegalStatus unless the operation is
        FINISHED, and RequestInvalid for an invalid token. Raises the error of the query once the rows before
        the error have been read.
        """
        pages, status = self._pages, self.status
        if pages is None or status is not OperationStatus.FINISHED:
            if self._rows_error is not None:
                raise self._rows_error
            raise IllegalStatus(f"Operation {self.handle} is {status}: it has no result to fetch.")
        return pages.fetch(token, size, form)

    def progress(self) -> OperationProgress | None:
        """Return the progress of the work, or None once the work has ended."""
        work = self.work
        if self.status in TERMINAL:
            return None
        tasks = work.measure() if work.measure is not None else None
        return OperationProgress(tasks=tasks or NO_TASKS, message=work.message)

    def cancel(self) -> None:
        """Become CANCELED and stop the work, including a FINISHED query that still produces rows.

        Raises IllegalStatus if the work has ended.
        """
        with self._changed:
            if self.status is OperationStatus.FINISHED and not self.querying:
                raise _illegal(self.handle, self.status, OperationStatus.CANCELED)
            self.advance(OperationStatus.CANCELED)
        self._stop(Canceled(f"Operation {self.handle} was cancelled."))

    def close(self) -> None:
        """Become CLOSED and release the result.

        This stops a query, but not a refresh or a job. Idempotent.
        """
        with self._changed:
            if self.status is OperationStatus.CLOSED:
                return
            before = self.advance(OperationStatus.CLOSED)
        if before not in TERMINAL and self.work.kind is OperationKind.SPARK and self.work.stop is not None:
            self.work.stop()
        if self.result is not None:
            self.result.rows.close()

    def _stop(self, error: MtError) -> None:
        """Stop the work. If a query already has a result, stop it by closing its rows."""
        if self.result is not None:
            self.result.rows.abort(error)
            self.result.rows.close()
        elif self.work.stop is not None:
            self.work.stop()


def _illegal(handle: str, before: OperationStatus, target: OperationStatus) -> IllegalStatus:
    return IllegalStatus(f"Operation {handle} is {before} and cannot become {target}.")
