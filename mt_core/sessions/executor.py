"""The executor: takes a statement's text to the session, to the materialized tables, or to Spark."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from mt_core.clock import Clock
from mt_core.errors import Canceled, EngineUnavailable, MtError, RefreshFailed, SqlSyntaxError
from mt_core.model.run import DONE, RefreshRun, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.rowset import OK, Column, RowSet
from mt_core.sessions.operation import (
    TERMINAL,
    Operation,
    OperationKind,
    OperationResult,
    OperationStatus,
    ResultKind,
    Work,
)
from mt_core.sessions.ports import SessionContext, StatementEngine
from mt_core.sessions.refreshes import STATUS_OF, ClusterInfo, queue_message, refresh_result
from mt_core.sessions.secrets import masked
from mt_core.sessions.session import Session, Turn
from mt_core.sql.parser import parse
from mt_core.sql.statements import RefreshTable, ResetProperty, SetProperty, Statement, qualify
from mt_core.tables.commands import CommandContext, CommandOutcome, Runs, TableCommands
from mt_core.tables.ports import Progress
from mt_core.tokens import split_statements

log = logging.getLogger(__name__)
T = TypeVar("T")

POLL_S = 1.0
DONE_RESULT = OperationResult(rows=OK, result_kind=ResultKind.SUCCESS)


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
        self._pool = ThreadPoolExecutor(max_workers=max_workers, thread_name_prefix="statement")

    def submit(self, session: Session, statement: str, execution_config: Mapping[str, str] | None = None) -> Operation:
        """Begin a statement and return its operation, RUNNING or terminal; *execution_config* holds for it alone."""
        operation = Operation(str(uuid.uuid4()), statement, self._ports.clock.now())
        session.add(operation)
        operation.advance(OperationStatus.PENDING)
        operation.advance(OperationStatus.RUNNING)
        task = Task(session=session, operation=operation, properties=execution_config or {})
        session.take_turn(lambda: self._perform(task), self._submit)
        return operation

    def close(self) -> None:
        """Take no more statements; those at work end with their sessions."""
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

    def _begin(self, task: Task) -> PendingRefresh | None:
        """Perform a statement; returns the run that its operation has to wait for, if any."""
        if task.operation.status in TERMINAL:
            return None
        text = single_statement(task.operation.statement)
        match parse(text):
            case None:
                self._run_in_spark(task, text)
            case SetProperty() as statement:
                task.operation.finish(_set_property(task.session, statement))
            case ResetProperty(key=key):
                task.session.reset_property(key)
                task.operation.finish(DONE_RESULT)
            case statement:
                return self._run_command(task, statement, text)
        return None

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
        if outcome.passthrough:
            self._run_in_spark(task, text)
        elif outcome.wait_for is not None:
            table = outcome.created or _table_of(statement, context)
            return PendingRefresh(run_id=outcome.wait_for, table=table, statement=statement, outcome=outcome)
        else:
            operation.finish(_command_result(outcome))
        return None

    def _run_in_spark(self, task: Task, text: str) -> None:
        operation, engine, job_id = task.operation, self._ports.engine, uuid.uuid4().hex
        operation.begin(Work(kind=OperationKind.SPARK, message="waiting for Spark"))
        self._await_engine(operation)
        operation.begin(
            Work(
                kind=OperationKind.SPARK,
                message="running",
                job_id=job_id,
                stop=lambda: engine.cancel(job_id),
                measure=lambda: _tasks(engine.progress(job_id)),
            )
        )
        found = engine.execute(task.context(), text, job_id=job_id)
        if found.rows is None:
            operation.finish(DONE_RESULT)
            return
        operation.finish(
            OperationResult(
                rows=found.rows,
                result_kind=ResultKind.SUCCESS_WITH_CONTENT,
                is_query=found.is_query,
                job_id=job_id if found.is_query else None,
            )
        )

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
