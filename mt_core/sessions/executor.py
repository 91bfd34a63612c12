"""The executor: performs the statements of sessions, each in its turn, in thread pools.

Clients expect the statements of one session to run in order, because SET and USE affect the statements after
them. Statements of different sessions run in parallel. Each session therefore has a *turn* that one operation
holds at a time, and a statement occupies a thread only while it holds the turn.

Three pools prevent deadlocks. STOP JOB and similar statements run outside the turn in their own pool, because
the statement that they stop may hold the turn and a thread. Waiting for a refresh run uses a third pool, so
that long refreshes do not occupy the threads of other statements. A statement releases its turn before it
waits for a refresh. A quick statement of an idle session runs in the caller's thread, which saves a thread
switch.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from mt_core.base.request_id import working_for
from mt_core.clock import Clock
from mt_core.errors import Canceled, EngineUnavailable, MtError, Unsupported
from mt_core.jobs.installed import InstalledHooks
from mt_core.sessions.operations.deadlines import Deadlines, limit_of
from mt_core.sessions.operations.operation import POLL_S, TERMINAL, Operation, OperationStatus
from mt_core.sessions.ports import ResultSpace, StatementEngine
from mt_core.sessions.properties.property_values import check_set
from mt_core.sessions.session import Session
from mt_core.sessions.statements.handlers import StatementHandlers
from mt_core.sessions.statements.refresh_wait import PendingRefresh, RefreshWait
from mt_core.sessions.statements.spark_work import Task
from mt_core.sessions.temporary_objects import after, concerns_temporary
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement

log = logging.getLogger(__name__)
_JOB_STATEMENTS = 16
_LONGEST_QUICK = 1000
# Threads start on demand up to this limit. Further waits are queued until another wait ends.
_MOST_WAITS = 1000


class StatementExecutor:
    """Performs statements in a bounded thread pool, one at a time for each session.

    While an operation only waits for a refresh run, the next statement of its session may begin. `on_end`, if
    any, is called when a statement ends: with the statement, its status, and the seconds since it was
    submitted. It must return at once and must not raise.
    """

    def __init__(
        self,
        *,
        handlers: StatementHandlers,
        engine: StatementEngine,
        hooks: InstalledHooks,
        refreshes: RefreshWait,
        clock: Clock,
        max_workers: int,
    ) -> None:
        self._handlers, self._engine, self._hooks, self._refreshes, self._clock = (
            handlers,
            engine,
            hooks,
            refreshes,
            clock,
        )
        self.on_end: Callable[[ReadStatement, OperationStatus, float], object] | None = None
        self._deadlines = Deadlines(clock)
        self._pool = ThreadPoolExecutor(max_workers=max_workers, thread_name_prefix="statement")
        # Separate pools: running statements must not block the statements that stop them, and waiting for
        # refreshes must not block running statements.
        self._job_statements = ThreadPoolExecutor(
            max_workers=_JOB_STATEMENTS, thread_name_prefix="job-statement"
        )
        self._waits = ThreadPoolExecutor(max_workers=_MOST_WAITS, thread_name_prefix="refresh-wait")

    # -------------------------------------------------------------------------------------------- for clients

    def submit(
        self,
        session: Session,
        statement: str,
        execution_config: Mapping[str, str] | None = None,
        *,
        timeout_ms: int = 0,
        caller: str = "",
    ) -> Operation:
        """Start a statement of *caller* and return its operation, which is RUNNING or terminal.

        *execution_config* applies only to this statement. The operation becomes TIMEOUT after *timeout_ms* or
        the session's `execution.timeout`, whichever is shorter; 0 means no limit.
        """
        read, config = ReadStatement(statement), execution_config or {}
        operation = Operation(
            str(uuid.uuid4()),
            read,
            self._clock.now(),
            planned_job_id=uuid.uuid4().hex,
            caller=caller,
            on_end=None if self.on_end is None else partial(self._note_end, read, self._clock.elapsed()),
        )
        session.add(operation)
        operation.advance(OperationStatus.PENDING)
        operation.advance(OperationStatus.RUNNING)
        if caller:
            # Log only the type, because the text may contain secrets.
            log.info(
                "statement begun", extra={"action": "statement_begun", "by": caller, "statement": read.type}
            )
        with _carrying_out(operation):
            for key, value in config.items():
                check_set(key, value)
            self._hooks.check(config)
            limit = limit_of({**session.properties, **config}, timeout_ms)
            if limit:
                self._deadlines.watch(operation, limit)
        task = Task(session=session, operation=operation, properties=config)
        if Trait.OUT_OF_TURN in read.traits:
            # The statement to be stopped may hold the turn.
            _start(self._job_statements, partial(self._perform, task))
        elif is_quick(read, self._engine) and session.take_turn_now(operation):
            self._perform(task)
        else:
            session.take_turn(operation, partial(_start, self._pool, partial(self._perform, task)))
        return operation

    def configure(self, session: Session, statement: str, *, timeout_ms: int = 0, caller: str = "") -> None:
        """Perform a statement that configures the session, and wait for it to end.

        Waits for up to *timeout_ms* or the session's `execution.timeout` (0: no limit). Raises the error of
        the statement, Canceled if it did not finish, or Unsupported if it does not configure a session.
        """
        read = ReadStatement(statement)
        if Trait.CONFIGURES not in read.traits:
            raise Unsupported(
                "Unsupported statement for configuring session: "
                f"{read.type.replace('_', ' ') or read.text}; allowed are SET, RESET, USE, "
                "LOAD and UNLOAD MODULE, ADD JAR, and CREATE, ALTER and DROP. Send it as a statement."
            )
        operation = self.submit(session, statement, timeout_ms=timeout_ms, caller=caller)
        try:
            while not operation.wait(POLL_S):
                # The client is waiting, so its session must not expire.
                session.use(self._clock)
            if operation.error is not None:
                raise operation.error
            if operation.status is not OperationStatus.FINISHED:
                raise Canceled(
                    f"Operation {operation.handle}, which configured the session, is {operation.status}."
                )
        finally:
            session.close_operation(operation.handle)

    def result_space(self) -> ResultSpace:
        """Return the space that results of statements use now. Never waits."""
        return self._engine.result_space()

    def close(self) -> None:
        """Refuse further statements. Running statements end when their sessions close."""
        self._deadlines.close()
        for pool in (self._pool, self._job_statements, self._waits):
            pool.shutdown(wait=False, cancel_futures=True)

    # -------------------------------------------------------------------------------------------- in its turn

    def _perform(self, task: Task) -> None:
        """Perform a statement and end its turn, then wait for the refresh that it started, if any."""
        operation = task.operation
        pending: PendingRefresh | None = None
        try:
            # A change of data may outlive its session, and must still see the names of that session.
            with _carrying_out(operation), self._engine.keeping(task.session.handle):
                if operation.status not in TERMINAL:
                    pending = self._handlers.perform(task)
                    self._note_temporary(task)
        finally:
            task.session.end_turn(operation)
        if pending is None:
            return
        with _carrying_out(operation):
            if self._refreshes.begin(operation, pending):
                _start(self._waits, partial(self._wait, operation, pending))

    def _wait(self, operation: Operation, pending: PendingRefresh) -> None:
        with _carrying_out(operation):
            self._refreshes.wait(operation, pending)

    def _note_end(self, statement: ReadStatement, began: timedelta, status: OperationStatus) -> None:
        if self.on_end is not None:
            self.on_end(statement, status, (self._clock.elapsed() - began).total_seconds())

    def _note_temporary(self, task: Task) -> None:
        """Update the session's list of temporary objects after a statement succeeded."""
        session, read = task.session, task.operation.statement
        if concerns_temporary(read):
            session.temporary = after(session.temporary, read, self._engine.session_state(task.context()))


def is_quick(statement: ReadStatement, engine: StatementEngine) -> bool:
    """Return whether performing *statement* costs less than handing it to another thread.

    A statement that would have to wait for Spark is never quick.
    """
    if Trait.QUICK not in statement.traits or len(statement.sent) > _LONGEST_QUICK:
        return False
    try:
        return Trait.WITHOUT_ENGINE in statement.traits or engine.wait_ready(0)
    except EngineUnavailable:
        return False


def _start(pool: ThreadPoolExecutor, step: Callable[[], object]) -> None:
    """Run *step* in *pool*. Raises EngineUnavailable while the gateway shuts down."""
    try:
        pool.submit(step)
    except RuntimeError as cause:
        raise EngineUnavailable("The gateway is shutting down and accepts no more statements.") from cause


@contextmanager
def _carrying_out(operation: Operation) -> Iterator[None]:
    """Work for the operation's request, and end the operation with status ERROR if the block fails."""
    with working_for(operation.request_id):
        try:
            yield
        except MtError as error:
            operation.fail(error)
        except Exception as error:
            facts = {"action": "statement_failed", "operation": operation.handle}
            log.exception("statement failed", extra=facts)
            wrapped = MtError(
                f"Operation {operation.handle} failed with an internal error, {type(error).__name__}: "
                f"{error}; the gateway's log has the details."
            )
            wrapped.__cause__ = error
            operation.fail(wrapped)
