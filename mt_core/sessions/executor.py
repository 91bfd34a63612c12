"""The executor: hands a statement to its session, to the materialized tables, or to Spark."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from mt_core.base.rowset import Column, RowSet
from mt_core.base.secrets import masked
from mt_core.clock import Clock
from mt_core.errors import Canceled, EngineUnavailable, MtError, Unsupported
from mt_core.jobs.installed import HOOKS_KEY
from mt_core.jobs.store import JobStore
from mt_core.model.job import Job
from mt_core.sessions.catalog.catalog_statements import CatalogStatements
from mt_core.sessions.catalog.connector_table_changes import ConnectorTableChanges
from mt_core.sessions.catalog.connector_table_statements import ConnectorTableStatements
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.catalog.function_commands import FunctionCommands
from mt_core.sessions.catalog.names import SessionNames
from mt_core.sessions.operations.deadlines import Deadlines, limit_of
from mt_core.sessions.operations.jobs import Jobs, target_of
from mt_core.sessions.operations.operation import (
    DONE,
    POLL_S,
    TERMINAL,
    Operation,
    OperationKind,
    OperationResult,
    OperationStatus,
    Work,
    content,
)
from mt_core.sessions.ports import PlanFiles, Runs, StatementEngine, TableCommands
from mt_core.sessions.properties.property_values import check_set
from mt_core.sessions.refreshes import ClusterInfo
from mt_core.sessions.session import Session
from mt_core.sessions.statements.listings import CatalogRequest
from mt_core.sessions.statements.refresh_wait import PendingRefresh, RefreshWait, outcome_result
from mt_core.sessions.statements.spark_work import SparkWork, Task
from mt_core.sessions.statements.statement_sets import collect
from mt_core.sessions.statements.table_creations import TableCreationHook, TableCreations
from mt_core.sessions.streaming.mode import StreamingMode
from mt_core.sessions.streaming.plan_statements import PlanStatements
from mt_core.sessions.streaming.streaming_statements import StreamingStatements, Streams
from mt_core.sessions.temporary_objects import TemporaryObject, after, check_writable, concerns_temporary
from mt_core.sql.catalog import CatalogStatement, SparkStatement, StopJob
from mt_core.sql.hints import check_hints
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement
from mt_core.sql.plans import PlanStatement
from mt_core.sql.statement_types import INSERT
from mt_core.sql.statements import DescribeTable, ResetProperty, SetProperty, Statement, qualify
from mt_core.tables.table_commands import CommandContext

log = logging.getLogger(__name__)
_JOB_STATEMENTS = 16
_LONGEST_QUICK = 1000
_PROPERTIES = (Column(name="key"), Column(name="value"))
# Threads start as they are needed; a wait beyond these begins when another has ended.
_MOST_WAITS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPorts:
    """The engine, stores and clock; `cluster_info` says where jobs run, `streams` who runs detached ones, `plans` has files."""

    engine: StatementEngine
    commands: TableCommands
    runs: Runs
    clock: Clock
    cluster_info: ClusterInfo
    catalogs: CreatedCatalogs
    jobs: JobStore
    connector_tables: ConnectorTables
    functions: CreatedFunctions
    streams: Streams | None = None
    plans: PlanFiles | None = None


class StatementExecutor:
    """Performs statements in a bounded pool of threads, those of one session one after the other.

    While an operation only waits for a refresh run, the next statement of its session may begin.
    """

    def __init__(self, ports: StatementPorts, *, max_workers: int = 64, engine_timeout_s: float = 600.0) -> None:
        self._ports = ports
        self._deadlines = Deadlines(ports.clock)
        streams = ports.streams
        self.jobs = Jobs(ports.clock, ports.runs, ports.jobs, streams=streams.owner if streams is not None else None)
        self._connector_tables = ConnectorTableStatements(engine=ports.engine, tables=ports.connector_tables)
        self._system_functions: list[str] = []
        functions = FunctionCommands(ports.engine, ports.functions)
        self._catalogs = CatalogStatements(ports.engine, self.jobs, ports.catalogs, self._connector_tables, functions)
        creations = TableCreations(ports.engine, ports.jobs, engine_timeout_s=engine_timeout_s)
        ports.jobs.hooks.provide(TableCreationHook(creations))
        self._spark = SparkWork(
            engine=ports.engine, jobs=self.jobs, creations=creations, engine_timeout_s=engine_timeout_s
        )
        self._streaming = (
            StreamingStatements(
                streams=streams, engine=ports.engine, spark=self._spark, store=ports.jobs, clock=ports.clock
            )
            if streams is not None
            else None
        )
        self._mode = StreamingMode(engine=ports.engine, spark=self._spark, detached=self._streaming)
        self._plans = PlanStatements(
            files=ports.plans,
            engine=ports.engine,
            spark=self._spark,
            detached=self._streaming,
            run_batch=partial(self._run_batch, changing=True),
        )
        self._changes = ConnectorTableChanges(statements=self._connector_tables)
        self._refreshes = RefreshWait(runs=ports.runs, cluster_info=ports.cluster_info)
        self._pool = ThreadPoolExecutor(max_workers=max_workers, thread_name_prefix="statement")
        # Pools of their own: running statements must not block those that stop them, nor waits for a refresh the running ones.
        self._job_statements = ThreadPoolExecutor(max_workers=_JOB_STATEMENTS, thread_name_prefix="job-statement")
        self._waits = ThreadPoolExecutor(max_workers=_MOST_WAITS, thread_name_prefix="refresh-wait")

    # ----------------------------------------------------------------------------------------------------- for clients

    def submit(
        self,
        session: Session,
        statement: str,
        execution_config: Mapping[str, str] | None = None,
        *,
        timeout_ms: int = 0,
        caller: str = "",
    ) -> Operation:
        """Begin a statement of *caller* and return its operation, RUNNING or terminal; *execution_config* applies to it alone.

        After *timeout_ms*, or the session's `execution.timeout` if that is shorter, the operation is TIMEOUT; 0 is no limit.
        """
        read, config = ReadStatement(statement), execution_config or {}
        operation = Operation(
            str(uuid.uuid4()), read, self._ports.clock.now(), planned_job_id=uuid.uuid4().hex, caller=caller
        )
        session.add(operation)
        operation.advance(OperationStatus.PENDING)
        operation.advance(OperationStatus.RUNNING)
        if caller:
            # Its type alone: the text may have secrets in it.
            log.info("statement begun", extra={"action": "statement_begun", "by": caller, "statement": read.type})
        with _failing(operation):
            for key, value in config.items():
                check_set(key, value)
            self.check_hooks(config)
            limit = limit_of({**session.properties, **config}, timeout_ms)
            if limit:
                self._deadlines.watch(operation, limit)
        task = Task(session=session, operation=operation, properties=config)
        if Trait.OUT_OF_TURN in read.traits:
            # The statement that it stops may have the turn.
            _start(self._job_statements, partial(self._perform, task))
        elif is_quick(read, self._ports.engine) and session.take_turn_now(operation):
            self._perform(task)
        else:
            session.take_turn(operation, partial(_start, self._pool, partial(self._perform, task)))
        return operation

    def configure(self, session: Session, statement: str, *, timeout_ms: int = 0, caller: str = "") -> None:
        """Perform a statement that sets the session up, and wait for it; raises its error, or Unsupported for any other."""
        read = ReadStatement(statement)
        if Trait.CONFIGURES not in read.traits:
            raise Unsupported(
                f"Unsupported statement for configuring session: {read.type.replace('_', ' ') or read.text}; allowed "
                "are SET, RESET, USE, LOAD and UNLOAD MODULE, ADD JAR, and CREATE, ALTER and DROP. Send it as a statement."
            )
        operation = self.submit(session, statement, timeout_ms=timeout_ms, caller=caller)
        try:
            while not operation.wait(POLL_S):
                # Its client waits for the answer.
                session.use(self._ports.clock)
            if operation.error is not None:
                raise operation.error
            if operation.status is not OperationStatus.FINISHED:
                raise Canceled(f"Operation {operation.handle}, which configured the session, is {operation.status}.")
        finally:
            session.close_operation(operation.handle)

    def check_hooks(self, properties: Mapping[str, str]) -> None:
        """Raise RequestInvalid if `job.hooks` in *properties* names a hook that cannot be used."""
        self._ports.jobs.hooks.check(properties.get(HOOKS_KEY, ""))

    def names(self, session: Session) -> SessionNames:
        """Return the names that *session* can see."""
        return SessionNames(self._ports.engine, session, self._ports.functions, self._system_functions)

    def close(self) -> None:
        """Refuse further statements; those that run end when their sessions close."""
        self._deadlines.close()
        for pool in (self._pool, self._job_statements, self._waits):
            pool.shutdown(wait=False, cancel_futures=True)

    # -------------------------------------------------------------------------------------------------- in its turn

    def _perform(self, task: Task) -> None:
        """Perform a statement and end its turn; then its operation waits for the refresh that it began, if any."""
        operation = task.operation
        pending: PendingRefresh | None = None
        try:
            # Else a change of data that goes on in a closed session would find the names of a new one.
            with _failing(operation), self._ports.engine.keeping(task.session.handle):
                pending = self._begin(task)
                self._note_temporary(task)
        finally:
            task.session.end_turn(operation)
        if pending is None:
            return
        with _failing(operation):
            if self._refreshes.begin(operation, pending):
                _start(self._waits, partial(self._wait, operation, pending))

    def _wait(self, operation: Operation, pending: PendingRefresh) -> None:
        with _failing(operation):
            self._refreshes.wait(operation, pending)

    def _begin(self, task: Task) -> PendingRefresh | None:
        """Perform a statement; returns the run that its operation has to wait for, if any."""
        operation, session, read = task.operation, task.session, task.operation.statement
        if operation.status in TERMINAL:
            return None
        check_hints(read.type, read.text, read.hints)
        members = collect(session, read)
        if members:
            self._run(task, members, changing=True)
            return None
        if members is not None:
            operation.finish(DONE)
            return None
        match read.fact:
            case None | SparkStatement():
                self._run(task, (read,), changing=Trait.CHANGE in read.traits)
            case SetProperty() | ResetProperty() as change:
                operation.finish(self._set_up(session, change))
            case StopJob() as stop if self._streaming is not None and _is_stream(self.jobs.job(stop.job_id)):
                operation.finish(self._streaming.stop(task, stop))
            case CatalogStatement() as statement:
                self._run_catalog_statement(task, statement)
            case command:
                return self._run_command(task, command)
        return None

    def _run(self, task: Task, statements: Sequence[ReadStatement], *, changing: bool) -> None:
        """Run statements as streams if the session is in streaming mode and they read streams, else as batch."""
        if len(statements) == 1 and self._answer_on_connector_table(task, statements[0]):
            return
        if not self._mode.run(task, statements):
            self._run_batch(task, statements, changing=changing)

    def _run_batch(self, task: Task, statements: Sequence[ReadStatement], *, changing: bool) -> None:
        keeping = [self._changes.keeping(each, task.context()) for each in statements]
        _check_targets(task.temporary(), statements)
        self._spark.run(task, statements, changing=changing, keep=lambda: [keep() for keep in keeping])

    def _run_catalog_statement(self, task: Task, statement: CatalogStatement) -> None:
        if isinstance(statement, PlanStatement):
            self._plans.run(task, statement)
        else:
            self._ask_catalogs(task, partial(self._catalogs.execute, statement))

    def _note_temporary(self, task: Task) -> None:
        """Remember what a statement that has succeeded did to the temporary objects of its session."""
        session, read = task.session, task.operation.statement
        if concerns_temporary(read):
            session.temporary = after(session.temporary, read, self._ports.engine.session_state(task.context()))

    def _answer_on_connector_table(self, task: Task, read: ReadStatement) -> bool:
        """Perform a statement about a table with a connector, and return whether it is one."""
        if not self._connector_tables.concern(read):
            return False
        answer = self._connector_tables.answer(read, self._begin_request(task))
        if answer is not None:
            task.operation.finish(answer)
        return answer is not None

    def _ask_catalogs(self, task: Task, answer: Callable[[CatalogRequest], OperationResult]) -> None:
        request = self._begin_request(task)
        task.operation.finish(answer(request))

    def _begin_request(self, task: Task) -> CatalogRequest:
        operation, job_id = task.operation, task.operation.planned_job_id
        stop = partial(self._ports.engine.cancel, job_id)
        operation.begin(Work(kind=OperationKind.SPARK, message="asking the catalogs", job_id=job_id, stop=stop))
        if Trait.WITHOUT_ENGINE not in operation.statement.traits:
            self._spark.await_engine(operation)
        return CatalogRequest(session=task.session, context=task.context(), job_id=job_id)

    def _set_up(self, session: Session, change: SetProperty | ResetProperty) -> OperationResult:
        """Set, show or reset properties of *session*; raises what `check_set` and `check_hooks` raise."""
        match change:
            case SetProperty(key=str(key), value=str(value)):
                check_set(key, value)
                self.check_hooks({key: value})
                session.overrides = {**session.overrides, key: value}
            case SetProperty(key=key):
                properties = masked(session.view().properties).items()
                shown = [[each, text] for each, text in properties if key in (None, each)]
                return content(RowSet(columns=_PROPERTIES, rows=shown))
            case ResetProperty(key=key):
                session.reset(key)
        return DONE

    def _run_command(self, task: Task, statement: Statement) -> PendingRefresh | None:
        operation, engine, job_id = task.operation, self._ports.engine, task.operation.planned_job_id
        operation.begin(Work(kind=OperationKind.TABLE, message="working on the table"))
        self._spark.await_engine(operation)
        if Trait.JOB in operation.statement.traits:
            running = Work(
                kind=OperationKind.SPARK,
                message="running",
                job_id=job_id,
                stop=lambda: engine.cancel(job_id),
                measure=lambda: engine.progress(job_id),
            )
            operation.begin(running)
        session = task.context()
        state = engine.session_state(session)
        context = CommandContext(
            catalog=state.catalog,
            namespace=state.namespace,
            properties=session.properties,
            caller=operation.caller,
            zone=state.zone,
            temporary_relations=state.relations,
            temporary_functions=state.functions,
            has_variable=partial(engine.has_variable, session),
            job_id=job_id,
        )
        with self.jobs.running(operation, (operation.statement,), engine.cancel, session=task.session.handle):
            outcome = self._ports.commands.execute(statement, context)
        if outcome.passthrough and isinstance(statement, DescribeTable):
            self._ask_catalogs(task, partial(self._catalogs.describe, statement))
        elif outcome.passthrough:
            self._spark.run(task, (operation.statement,), changing=False)
        elif outcome.wait_for is not None:
            name = getattr(statement, "name", None)
            table = outcome.created or (qualify(name, context.catalog, context.namespace) if name else None)
            if table is None:
                raise MtError(f"{type(statement).__name__} names no table, but began the refresh of one.")
            return PendingRefresh(run_id=outcome.wait_for, table=table, statement=statement, outcome=outcome)
        else:
            operation.finish(outcome_result(outcome))
        return None


def _check_targets(temporary: Sequence[TemporaryObject], statements: Sequence[ReadStatement]) -> None:
    """Raise Unsupported for an INSERT into what only streams can write."""
    for each in statements:
        # The name is near the beginning of an INSERT; of another statement it could take all of the text to find none.
        if temporary and each.type == INSERT:
            check_writable(temporary, target_of(each))


def is_quick(statement: ReadStatement, engine: StatementEngine) -> bool:
    """Return whether to perform *statement* costs less than to hand it to another thread; not if it has to wait for Spark."""
    if Trait.QUICK not in statement.traits or len(statement.sent) > _LONGEST_QUICK:
        return False
    try:
        return Trait.WITHOUT_ENGINE in statement.traits or engine.wait_ready(0)
    except EngineUnavailable:
        return False


def _start(pool: ThreadPoolExecutor, step: Callable[[], object]) -> None:
    """Run *step* in a thread of *pool*; raises EngineUnavailable when the gateway shuts down."""
    try:
        pool.submit(step)
    except RuntimeError as cause:
        raise EngineUnavailable("The gateway is shutting down and takes no more statements.") from cause


@contextmanager
def _failing(operation: Operation) -> Iterator[None]:
    """End the block at an error, of any kind, which becomes the operation's."""
    try:
        yield
    except MtError as error:
        operation.fail(error)
    except Exception as error:
        log.exception("statement failed", extra={"action": "statement_failed", "operation": operation.handle})
        wrapped = MtError(
            f"Operation {operation.handle} met an error inside the gateway, {type(error).__name__}: {error}; "
            "the gateway's log has the details."
        )
        wrapped.__cause__ = error
        operation.fail(wrapped)


def _is_stream(job: Job) -> bool:
    """Whether a job is a stream of its own; that of a materialized table is stopped with its table."""
    return job.definition is not None and job.definition.keeps is None
