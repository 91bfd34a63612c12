"""The executor: takes a statement's text to the session, to the materialized tables, or to Spark."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from mt_core.clock import Clock
from mt_core.errors import Canceled, EngineUnavailable, MtError, QueryFailed, RefreshFailed, SqlSyntaxError, Unsupported
from mt_core.model.run import DONE, RefreshRun, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.rowset import OK, Column, RowSet
from mt_core.sessions.catalog_statements import CatalogStatements
from mt_core.sessions.completion import complete
from mt_core.sessions.deadlines import TIMEOUT_KEY, Deadlines, limit_of, session_limit
from mt_core.sessions.jobs import JobLedger
from mt_core.sessions.kinds import CHANGES, is_configuring, statement_type
from mt_core.sessions.listings import Asking
from mt_core.sessions.names import StatementNames
from mt_core.sessions.operation import (
    TERMINAL,
    Operation,
    OperationKind,
    OperationResult,
    OperationStatus,
    ResultKind,
    Work,
)
from mt_core.sessions.ports import SessionContext, StatementEngine, StatementResult
from mt_core.sessions.refreshes import STATUS_OF, ClusterInfo, queue_message, refresh_result
from mt_core.sessions.secrets import masked
from mt_core.sessions.session import Session, Turn
from mt_core.sessions.statement_sets import Batch, Collected, collect
from mt_core.sql.catalog import CatalogStatement, CreateConnectorTable
from mt_core.sql.catalog_reader import is_about_jobs
from mt_core.sql.parser import parse
from mt_core.sql.statements import DescribeTable, RefreshTable, ResetProperty, SetProperty, Statement, qualify
from mt_core.tables.commands import CommandContext, CommandOutcome, Runs, TableCommands
from mt_core.tables.ports import Progress
from mt_core.tokens import split_statements

log = logging.getLogger(__name__)
T = TypeVar("T")

POLL_S = 1.0
DONE_RESULT = OperationResult(rows=OK, result_kind=ResultKind.SUCCESS)
JOB_COLUMNS = (Column(name="job id"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPorts:
    """What the executor works with. `cluster_info` says where jobs run."""

    engine: StatementEngine
    commands: TableCommands
    runs: Runs
    clock: Clock
    cluster_info: ClusterInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One statement to perform, in the session as it stands when the statement's turn comes."""

    session: Session
    operation: Operation
    properties: Mapping[str, str]

    def context(self) -> SessionContext:
        return self.session.context(self.properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRefresh:
    """A run that an operation waits for, and what asked for it on which table."""

    run_id: str
    table: TableIdentifier
    statement: Statement
    outcome: CommandOutcome


class StatementExecutor:
    """Performs statements in a bounded pool of threads, those of one session one after the other.

    While an operation only waits for a refresh run, the next statement of its session may begin.
    """

    def __init__(self, ports: StatementPorts, *, max_workers: int = 32, engine_timeout_s: float = 600.0) -> None:
        self._ports, self._engine_timeout_s = ports, engine_timeout_s
        self._deadlines = Deadlines(ports.clock)
        self.names = StatementNames(ports.engine)
        self._jobs = JobLedger(ports.clock)
        self._catalogs = CatalogStatements(ports.engine, self._jobs)
        self._pool = ThreadPoolExecutor(max_workers=max_workers, thread_name_prefix="statement")

    def submit(
        self,
        session: Session,
        statement: str,
        execution_config: Mapping[str, str] | None = None,
        *,
        timeout_ms: int = 0,
    ) -> Operation:
        """Begin a statement and return its operation, RUNNING or terminal; *execution_config* holds for it alone.

        After *timeout_ms*, or the session's `execution.timeout` if that is shorter, the operation is TIMEOUT; 0 is no limit.
        """
        operation = Operation(str(uuid.uuid4()), statement, self._ports.clock.now(), planned_job_id=uuid.uuid4().hex)
        session.add(operation)
        operation.advance(OperationStatus.PENDING)
        operation.advance(OperationStatus.RUNNING)
        properties = session.properties | dict(execution_config or {})
        limit = _guarded(operation, lambda: limit_of(properties, timeout_ms))
        if limit:
            self._deadlines.watch(operation, limit)
        task = Task(session=session, operation=operation, properties=execution_config or {})
        if is_about_jobs(statement):
            # Out of turn: what it stops may have the turn.
            self._submit(lambda: self._perform_out_of_turn(task))
        else:
            session.take_turn(lambda: self._perform(task), self._submit)
        return operation

    def configure(self, session: Session, statement: str, *, timeout_ms: int = 0) -> None:
        """Perform a statement that sets the session up, and wait for it; raises its error, or Unsupported for any other."""
        text = single_statement(statement)
        if not is_configuring(text):
            raise Unsupported(
                f"Unsupported statement for configuring session: {statement_type(text).replace('_', ' ') or text}; allowed "
                "are SET, RESET, USE, LOAD and UNLOAD MODULE, ADD JAR, and CREATE, ALTER and DROP. Send it as a statement."
            )
        operation = self.submit(session, statement, timeout_ms=timeout_ms)
        try:
            while not operation.wait(POLL_S):
                pass
            if operation.error is not None:
                raise operation.error
            if operation.status is not OperationStatus.FINISHED:
                raise Canceled(f"Operation {operation.handle}, which configured the session, is {operation.status}.")
        finally:
            session.close_operation(operation.handle)

    def complete(self, session: Session, text: str, position: int) -> list[str]:
        """Return what can stand at *position* of *text*: keywords, and names as far as Spark runs."""
        return complete(text, position, self.names.of(session))

    def close(self) -> None:
        """Take no more statements; those at work end with their sessions."""
        self._deadlines.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, turn: Turn) -> None:
        try:
            self._pool.submit(turn)
        except RuntimeError as cause:
            raise EngineUnavailable("The gateway is shutting down and takes no more statements.") from cause

    def _perform(self, task: Task) -> None:
        try:
            pending = _guarded(task.operation, lambda: self._begin(task))
        finally:
            task.session.give_back(self._submit)
        if pending is not None:
            _guarded(task.operation, lambda: self._await_refresh(task.operation, pending))

    def _perform_out_of_turn(self, task: Task) -> None:
        _guarded(task.operation, lambda: self._begin(task))

    def _begin(self, task: Task) -> PendingRefresh | None:
        """Perform a statement; returns the run that its operation has to wait for, if any."""
        if task.operation.status in TERMINAL:
            return None
        text = single_statement(task.operation.statement)
        match collect(task.session, text):
            case Collected() | Batch(statements=()):
                task.operation.finish(DONE_RESULT)
            case Batch(statements=members):
                self._run_in_spark(task, members, changing=True)
            case None:
                return self._begin_single(task, text)
        return None

    def _begin_single(self, task: Task, text: str) -> PendingRefresh | None:
        match parse(text):
            case None | CreateConnectorTable():
                self._run_in_spark(task, (text,), changing=statement_type(text) in CHANGES)
            case SetProperty() as statement:
                task.operation.finish(_set_property(task.session, statement))
            case ResetProperty(key=key):
                task.session.reset_property(key)
                task.operation.finish(DONE_RESULT)
            case CatalogStatement() as asked:
                self._ask_catalogs(task, lambda asking: self._catalogs.execute(asked, asking))
            case statement:
                return self._run_command(task, statement, text)
        return None

    def _ask_catalogs(self, task: Task, answer: Callable[[Asking], OperationResult]) -> None:
        operation, job_id = task.operation, task.operation.planned_job_id
        stop = functools.partial(self._ports.engine.cancel, job_id)
        operation.begin(Work(kind=OperationKind.SPARK, message="asking the catalogs", job_id=job_id, stop=stop))
        if not is_about_jobs(operation.statement):
            self._await_engine(operation)
        operation.finish(answer(Asking(session=task.session, context=task.context(), job_id=job_id)))

    def _run_command(self, task: Task, statement: Statement, text: str) -> PendingRefresh | None:
        operation, engine = task.operation, self._ports.engine
        operation.begin(Work(kind=OperationKind.TABLE, message="working on the table"))
        self._await_engine(operation)
        session = task.context()
        context = CommandContext(
            catalog=engine.current_catalog(session),
            namespace=engine.current_namespace(session),
            properties=session.properties,
        )
        outcome = self._ports.commands.execute(statement, context)
        if outcome.passthrough and isinstance(statement, DescribeTable):
            self._ask_catalogs(task, lambda asking: self._catalogs.describe(statement, asking))
        elif outcome.passthrough:
            self._run_in_spark(task, (text,), changing=False)
        elif outcome.wait_for is not None:
            table = outcome.created or _table_of(statement, context)
            return PendingRefresh(run_id=outcome.wait_for, table=table, statement=statement, outcome=outcome)
        else:
            operation.finish(_command_result(outcome))
        return None

    def _run_in_spark(self, task: Task, texts: Sequence[str], *, changing: bool) -> None:
        """Run statements one after the other as one job; what is *changing* data answers the job's id."""
        operation, engine, job_id = task.operation, self._ports.engine, task.operation.planned_job_id
        kind = OperationKind.JOB if changing else OperationKind.SPARK
        operation.begin(Work(kind=kind, message="waiting for Spark"))
        self._await_engine(operation)
        running = Work(
            kind=kind,
            message="running",
            job_id=job_id,
            stop=lambda: engine.cancel(job_id),
            measure=lambda: _tasks(engine.progress(job_id)),
        )
        operation.begin(running)
        texts, single = [self._catalogs.in_spark(text, task.context()) for text in texts], len(texts) == 1
        with self._jobs.running(operation, texts[0], engine.cancel):
            found = engine.execute(task.context(), texts[0], job_id=job_id) if single else self._run_set(task, texts)
        operation.finish(_spark_result(found, job_id, changing=changing))

    def _run_set(self, task: Task, texts: Sequence[str]) -> StatementResult:
        """Run the statements of a set; raises QueryFailed naming the one that failed. Closing the session does not end it."""
        operation, context = task.operation, task.context()
        for number, text in enumerate(texts, 1):
            if operation.status in (OperationStatus.CANCELED, OperationStatus.TIMEOUT):
                raise Canceled(f"Operation {operation.handle} is {operation.status}.")
            operation.tell(f"running statement {number} of {len(texts)}")
            try:
                self._ports.engine.execute(context, text, job_id=operation.planned_job_id)
            except QueryFailed as cause:
                raise QueryFailed(
                    f"Statement {number} of {len(texts)} of the statement set failed, those before it are done: {cause}",
                    error_class=cause.error_class,
                ) from cause
        return StatementResult(is_query=False, rows=None)

    def _await_engine(self, operation: Operation) -> None:
        waited_s = 0.0
        while operation.status not in TERMINAL and not self._ports.engine.wait_ready(POLL_S):
            operation.tell("waiting for Spark to start")
            waited_s += POLL_S
            if waited_s >= self._engine_timeout_s:
                raise EngineUnavailable(
                    f"Spark did not start within {self._engine_timeout_s:.0f} s; see the gateway's log, then try again."
                )

    def _await_refresh(self, operation: Operation, pending: PendingRefresh) -> None:
        runs, run_id = self._ports.runs, pending.run_id
        work = Work(
            kind=OperationKind.REFRESH,
            message="waiting for the refresh",
            stop=lambda: runs.cancel_run(run_id),
            measure=lambda: _tasks(runs.progress(run_id)),
        )
        try:
            operation.begin(work)
        except Canceled:
            if operation.status is OperationStatus.CANCELED:
                runs.cancel_run(run_id)
            return
        while operation.status not in TERMINAL:
            run = runs.wait_run(run_id, POLL_S)
            if STATUS_OF[run.status] in TERMINAL:
                operation.finish(self._refresh_result(run, pending))
                return
            operation.tell(queue_message(run))

    def _refresh_result(self, run: RefreshRun, pending: PendingRefresh) -> OperationResult:
        """Return what the statement shows after its run; raises RefreshFailed."""
        if run.status not in DONE:
            raise RefreshFailed(_failure(run, pending))
        if isinstance(pending.statement, RefreshTable):
            return refresh_result(run, self._ports.cluster_info())
        return _command_result(pending.outcome)


def _spark_result(found: StatementResult, job_id: str, *, changing: bool) -> OperationResult:
    if found.rows is not None:
        return OperationResult(
            rows=found.rows,
            result_kind=ResultKind.SUCCESS_WITH_CONTENT,
            is_query=found.is_query,
            job_id=job_id if found.is_query or changing else None,
        )
    if not changing:
        return DONE_RESULT
    rows = RowSet(columns=JOB_COLUMNS, rows=[[job_id]])
    return OperationResult(rows=rows, result_kind=ResultKind.SUCCESS_WITH_CONTENT, job_id=job_id)


def single_statement(text: str) -> str:
    """Return the one statement in *text*; raises SqlSyntaxError when there are none or several.

    Comments before it stay, so that the line and column of an error are those of the text that was sent.
    """
    statements = split_statements(text)
    if not statements:
        raise SqlSyntaxError('SQL parse failed. Encountered "<EOF>": the statement is empty.')
    if len(statements) > 1:
        raise SqlSyntaxError(f"Only a single statement can be submitted at a time, but there are {len(statements)}.")
    start, end = statements[0].start, statements[0].start + len(statements[0].text)
    return text[start:end] if ";" in text[:start] else text[:end]


def _guarded(operation: Operation, step: Callable[[], T]) -> T | None:
    """Return what *step* gives, or None after its error became the operation's."""
    try:
        return step()
    except MtError as error:
        operation.fail(error)
    except Exception as error:
        log.exception("statement failed", extra={"action": "statement_failed", "operation": operation.handle})
        operation.fail(_unexpected(operation, error))
    return None


def _unexpected(operation: Operation, error: Exception) -> MtError:
    wrapped = MtError(
        f"Operation {operation.handle} met an error inside the gateway, {type(error).__name__}: {error}; "
        "the gateway's log has the details."
    )
    wrapped.__cause__ = error
    return wrapped


def _set_property(session: Session, statement: SetProperty) -> OperationResult:
    if statement.key is not None and statement.value is not None:
        if statement.key == TIMEOUT_KEY:
            session_limit(statement.value)
        session.set_property(statement.key, statement.value)
        return DONE_RESULT
    shown = masked(session.properties)
    if statement.key is not None:
        shown = {key: value for key, value in shown.items() if key == statement.key}
    rows = RowSet(columns=(Column(name="key"), Column(name="value")), rows=[[key, shown[key]] for key in shown])
    return OperationResult(rows=rows, result_kind=ResultKind.SUCCESS_WITH_CONTENT)


def _command_result(outcome: CommandOutcome) -> OperationResult:
    if outcome.rows is None:
        return OperationResult(rows=OK, result_kind=ResultKind.SUCCESS, warnings=outcome.warnings)
    return OperationResult(rows=outcome.rows, result_kind=ResultKind.SUCCESS_WITH_CONTENT, warnings=outcome.warnings)


def _failure(run: RefreshRun, pending: PendingRefresh) -> str:
    ended = "was cancelled" if run.status is RunStatus.CANCELED else f"failed: {run.error or 'no reason was given'}"
    table = pending.table
    if pending.outcome.created is not None:
        return (
            f"Materialized table {table} was created, its first refresh {ended}; "
            f"correct it and ALTER MATERIALIZED TABLE {table} REFRESH, or DROP it."
        )
    return f"The refresh of materialized table {table} {ended}"


def _table_of(statement: Statement, context: CommandContext) -> TableIdentifier:
    name = getattr(statement, "name", None)
    if not name:
        raise MtError(f"{type(statement).__name__} names no table, but a refresh of one was begun.")
    return qualify(name, context.catalog, context.namespace)


def _tasks(progress: Progress | None) -> tuple[int, int] | None:
    return None if progress is None else (progress.done, progress.total)
