"""The statement engine on Spark, which runs the statements of the gateway's sessions.

Every gateway session has a Spark session of its own in one shared driver. Settings, temporary views and the
current namespace are therefore isolated, while catalogs and executors are shared. A statement runs inside
three wrappers, in this order: the session with its properties applied (`SparkSessions.use`), the tag of its
job, which is used to display, cancel and count it (`run_tagged`), and the protection of materialized tables
(`run_protected`). Commands have run when `execute` returns, and their rows are local. Queries have only
started, and their rows are read by `fetch`. A CREATE TABLE … AS is reserved before it runs, so that another
process can undo it (`settle`) if this process is killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark

from mt_core.base.identifiers import display_name, sql_name
from mt_core.base.rowset import RowSet
from mt_core.errors import DefinitionInvalid, MtError, Unsupported
from mt_core.model.function import CreatedFunction
from mt_core.model.progress import Progress
from mt_core.model.reservation import Atomicity, Reservation
from mt_core.model.stream import StreamMember
from mt_core.model.table import Column as SparkColumn
from mt_core.plans.compiled import Topology
from mt_core.sessions.ports import (
    Relation,
    ResultRows,
    ResultSpace,
    SessionContext,
    SessionState,
    StatementEngine,
    StatementResult,
)
from mt_core.spark.catalogs.catalog_sync import Settings
from mt_core.spark.catalogs.columns import check_assignable, columns_of
from mt_core.spark.catalogs.plugins import close_plugins
from mt_core.spark.catalogs.storage_catalogs import ICEBERG_INTERNAL
from mt_core.spark.connectors.connector_jars import load_kafka
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource, no_connectors
from mt_core.spark.connectors.temporary import create_unbounded
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.ctas.table_creations import explained, placed, reserve, settle
from mt_core.spark.driver.conf import INTERACTIVE_POOL, SESSION_CATALOG
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import (
    active_session,
    java_dataset,
    scala_items,
    scala_sequence,
    state_of,
    static_member,
)
from mt_core.spark.files.gateway_files import local_path
from mt_core.spark.files.jar_copies import JarCopies
from mt_core.spark.files.remote_files import fetch_jar
from mt_core.spark.queries.relations import identifier_fields
from mt_core.spark.queries.views import Names
from mt_core.spark.results.arrow import ResultForm
from mt_core.spark.results.batches import QueryJob
from mt_core.spark.results.local_rows import command_rows, row_batches
from mt_core.spark.results.row_stream import fetch
from mt_core.spark.results.spool import Spools
from mt_core.spark.results.types import result_columns
from mt_core.spark.statements.affected_rows import affected_rows
from mt_core.spark.statements.missing_topics import naming_topics
from mt_core.spark.statements.protection import NoTables, TableDirectory, check_protected, run_protected
from mt_core.spark.statements.sessions import SparkSessions
from mt_core.spark.statements.topic_inserts import insert_records
from mt_core.spark.streams.explained import explained_streams
from mt_core.spark.streams.operators.operator_nodes import batch_operators
from mt_core.spark.streams.query import read_query
from mt_core.spark.streams.selects import follow, reads_stream
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.connectors.catalog_options import configured_catalogs
from mt_core.sql.connectors.kinds import TOPICS
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import INSERT
from mt_core.tables.definition.table_definition import SPARK_ZONE_KEY, check_names

DESCRIPTION_LENGTH = 200
JSON_MODE = "json"
# Values of these types need no encoding in the result of a command.
_SIMPLE = (spark.StringType, spark.BooleanType, spark.IntegerType, spark.LongType)
# This plug-in does not connect before its first use.
_JDBC_CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
_IN_MEMORY = {"type": "in-memory"}


class SparkStatements(StatementEngine):
    """Runs the statements of gateway sessions. Each has a Spark session of its own in a shared driver."""

    def __init__(
        self,
        spark: SparkContexts,
        spools: Spools | None = None,
        *,
        tables: TableDirectory | None = None,
        connectors: ConnectorSource = no_connectors,
        jars: JarCopies | None = None,
    ) -> None:
        self._driver, self._sync = spark.driver, spark.sync
        self._spools, self._tables = spools or Spools(), tables or NoTables()
        self._connectors, self._jars = connectors, jars or JarCopies()
        self._sessions = SparkSessions(spark.driver, spark.sync)
        self._lock = threading.Lock()
        self._driver_catalogs: tuple[int, Settings] = (0, {})

    def wait_ready(self, timeout_s: float) -> bool:
        ready = self._driver.wait_ready(timeout_s)
        if not ready:
            self._driver.check_cluster()
        return ready

    def result_space(self) -> ResultSpace:
        return self._spools.space()

    def execute(
        self, context: SessionContext, sql: str, *, job_id: str, reservation: Reservation | None = None
    ) -> StatementResult:
        with self._sessions.use(context) as session:
            return self._run(session, sql, job_id, reservation)

    def _run(
        self, session: SparkSession, sql: str, job_id: str, reservation: Reservation | None
    ) -> StatementResult:
        job = QueryJob(job_id=job_id, pool=INTERACTIVE_POOL, description=sql[:DESCRIPTION_LENGTH])
        started_ms = time.time_ns() // 1_000_000
        with (
            self._driver.run_tagged(job.job_id, job.pool, job.description),
            naming_topics(session, sql, self._connectors),
        ):
            if (records := insert_records(session, sql, self._connectors)) is not None:
                return StatementResult(is_query=False, rows=None, affected_rows=records)
            # `run_protected` executes commands. Queries run when their rows are fetched.
            warnings: list[str] = []
            if reservation is None:
                warn = warnings.append
                frame = run_protected(session, sql, self._tables, connectors=self._connectors, warn=warn)
            else:
                adapt = partial(placed, session, reservation=reservation)
                frame = run_protected(session, sql, self._tables, adapt, self._connectors)
            if not frame.schema.fields:
                changed = affected_rows(frame, started_ms)
                read = None if changed is None else self._driver.rows_read(job_id)
                return StatementResult(
                    is_query=False, rows=None, affected_rows=changed, rows_read=read, warnings=tuple(warnings)
                )
            rows = command_rows(frame)
            if rows is not None and all(type(field.dataType) in _SIMPLE for field in frame.schema.fields):
                return StatementResult(is_query=False, rows=_local_result(frame, rows))
            return StatementResult(is_query=rows is None, rows=fetch(self._driver, frame, job, self._spools))

    def reserve(self, context: SessionContext, sql: str, *, job_id: str) -> Reservation | None:
        with self._session(context) as session:
            reservation = reserve(session, self._sync.apply(self._driver.session), sql, job_id)
            if reservation is not None:
                check_protected(session, sql, self._tables)
                if reservation.atomicity is Atomicity.ATOMIC:
                    self._check_names(session, sql, display_name(reservation.table))
            return reservation

    def _check_names(self, session: SparkSession, sql: str, table: str) -> None:
        """Raise DefinitionInvalid if a query column of *sql* has a name that Iceberg cannot write or read."""
        names: list[str] = []
        with suppress(MtError, *SPARK_ERRORS):  # The statement itself will report errors in its query.
            query = state_of(session).sqlParser().parsePlan(sql).query()
            query = ConnectorNames(session, self._connectors).adapted(query)
            names = list(java_dataset(session, query).schema().fieldNames())
        check_names(table, names)

    def settle(self, reservation: Reservation) -> bool:
        self._driver.wait_tasks(reservation.job_id)
        session = self._sync.apply(self._driver.session)
        with self._driver.translating(), active_session(session):
            return settle(session, reservation)

    def cancel(self, job_id: str) -> None:
        self._driver.cancel(job_id)

    def progress(self, job_id: str) -> Progress | None:
        return self._driver.progress(job_id)

    def topology(self, context: SessionContext, texts: Sequence[str]) -> Topology:
        with self._session(context) as session:
            operators = [batch_operators(self._unexecuted(session, text).analyzed()) for text in texts]
            return Topology(spark_version=str(session.version), operators=tuple(operators))

    def _unexecuted(self, session: SparkSession, sql: str) -> Any:
        """Return the analysed execution of a statement, without running the statement."""
        state = state_of(session)
        parsed = state.sqlParser().parsePlan(sql)
        if str(parsed.productPrefix()) == "UnresolvedExecuteImmediate":
            # Spark runs the inner statement during analysis.
            raise Unsupported("EXPLAIN EXECUTE IMMEDIATE is not supported; EXPLAIN the statement itself.")
        skip = static_member(session, "org.apache.spark.sql.execution.CommandExecutionMode.SKIP")
        execution = state.executePlan(ConnectorNames(session, self._connectors).adapted(parsed), skip())
        execution.assertAnalyzed()
        return execution

    def explain(self, context: SessionContext, sql: str, mode: str) -> str:
        with self._session(context) as session:
            plan = self._unexecuted(session, sql)
            if mode == JSON_MODE:
                return str(plan.executedPlan().prettyJson())
            explain_mode = static_member(session, "org.apache.spark.sql.execution.ExplainMode.fromString")
            return str(plan.explainString(explain_mode(mode))) + explained(session, sql)

    def query_columns(self, context: SessionContext, query: str) -> Sequence[SparkColumn]:
        with self._session(context) as session:
            return columns_of(session.sql(query)._jdf.schema())

    def check_assignable(self, context: SessionContext, produced: SparkColumn, declared: SparkColumn) -> None:
        with self._session(context) as session:
            check_assignable(session, produced, declared)

    # ---------------------------------------------------------------------------- sessions and their catalogs

    def session_state(self, context: SessionContext) -> SessionState:
        with self._session(context) as session:
            catalog = state_of(session).catalog()
            functions = catalog.listTemporaryFunctions()
            current_catalog, namespace = Names(session).current()
            return SessionState(
                catalog=current_catalog,
                namespace=namespace,
                zone=str(session.conf.get(SPARK_ZONE_KEY)),
                relations=frozenset(str(name).lower() for name in scala_items(catalog.getTempViewNames())),
                functions=frozenset(str(name.funcName()).lower() for name in scala_items(functions)),
            )

    def has_variable(self, context: SessionContext, name: str) -> bool:
        with self._session(context) as session:
            variables = state_of(session).catalogManager().tempVariableManager()
            return bool(variables.get(scala_sequence(session, [name.lower()])).isDefined())

    def keeping(self, session_id: str) -> AbstractContextManager[None]:
        return self._sessions.keeping(session_id)

    def close_session(self, session_id: str) -> None:
        self._sessions.close(session_id)

    def reads_stream(self, context: SessionContext, query: StreamMember) -> bool:
        with self._session(context) as session:
            read = read_query(session, query, self._connectors, context.properties)
            return reads_stream(read, of_insert=ReadStatement(query.text).type == INSERT)

    def explain_streams(
        self, context: SessionContext, queries: Sequence[StreamMember], temporary: Sequence[str], mode: str
    ) -> str:
        with self._session(context) as session:
            return explained_streams(session, queries, temporary, mode, self._connectors, context.properties)

    def follow(self, context: SessionContext, query: StreamMember, *, job_id: str) -> ResultRows:
        job = QueryJob(job_id=job_id, pool=INTERACTIVE_POOL, description=query.text[:DESCRIPTION_LENGTH])
        with self._session(context) as session:
            return follow(
                self._driver,
                read_query(session, query, self._connectors, context.properties),
                job,
                self._spools,
            )

    def create_unbounded(self, context: SessionContext, table: CreateConnectorTable) -> None:
        with self._session(context) as session:
            create_unbounded(self._driver, session, table)

    def load_connector(self, context: SessionContext, connector: str) -> None:
        if connector in TOPICS:
            with self._session(context) as session:
                load_kafka(self._driver, session)

    def add_jar(self, context: SessionContext, path: str) -> str:
        with self._session(context) as session:
            local = local_path(path)
            if local is not None:
                file = local.absolute()
                if not file.is_file():
                    raise DefinitionInvalid(
                        f"ADD JAR: there is no file {file} on the gateway's machine; "
                        "use the path of a jar there."
                    )
                path = str(file)
            copy = self._jars.add(path, partial(fetch_jar, session))
            self._driver.added_jars.add(session, copy)
            self._sessions.jars(context.session_id)[path] = copy
            return path

    def check_function(
        self, context: SessionContext, function: CreatedFunction, *, job_id: str
    ) -> CreatedFunction:
        with self._session(context) as session:
            catalog, namespace = Names(session).current()
            # Use a temporary session, because the user's session would show the function before it is stored.
            scratch = self._sync.apply(
                session.newSession(), except_for=configured_catalogs(context.properties)
            )
            with active_session(scratch):
                if Names(scratch).current() != (catalog, namespace):
                    scratch.sql(f"USE {sql_name((catalog, *namespace))}")
                placed = replace(function, catalog=catalog, namespace=namespace)
                try:
                    return self._driver.functions.checked(
                        scratch, placed, partial(self._driver.check_canceled, job_id)
                    )
                finally:
                    close_plugins(scratch, self._driver.session)

    def create_temporary_function(
        self, context: SessionContext, function: CreatedFunction, *, job_id: str
    ) -> CreatedFunction:
        checked = self.check_function(context, function, job_id=job_id)
        with self._session(context) as session:
            self._driver.functions.register(session, checked)
        return checked

    def jar_copies(self, context: SessionContext, paths: Sequence[str]) -> Sequence[str]:
        copies = self._sessions.jars(context.session_id)
        return [copies.get(path, path) for path in paths]

    def catalogs(self, context: SessionContext) -> Mapping[str, Mapping[str, str]]:
        generation, catalogs = self._driver_catalogs
        if generation != self._driver.generation:
            with self._lock, self._driver.translating():
                generation = self._driver.generation
                # Use the configuration of Spark, because the first session's also includes the created
                # catalogs.
                settings = dict(self._driver.session.sparkContext.getConf().getAll())
                catalogs = {
                    name: options
                    for name, options in configured_catalogs(settings).items()
                    if name not in ICEBERG_INTERNAL
                }
                self._driver_catalogs = generation, catalogs
        others = configured_catalogs({**self._sync.settings(), **context.properties})
        return {SESSION_CATALOG: _IN_MEMORY, **catalogs, **others}

    def open_catalog(self, name: str, settings: Mapping[str, str]) -> None:
        session = self._driver.new_session()
        with self._driver.translating(), active_session(session):
            for key, value in settings.items():
                session.conf.set(key, value)
            plugin = state_of(session).catalogManager().catalog(name)
            if str(plugin.getClass().getName()) == _JDBC_CATALOG:
                plugin.listNamespaces()
            close_plugins(session, self._driver.session)

    def relations(self, context: SessionContext, namespace: Sequence[str]) -> Sequence[str]:
        with self._session(context) as session:
            return Names(session).relations(namespace)

    def relation(self, context: SessionContext, name: Sequence[str]) -> Relation:
        with self._session(context) as session:
            frame = session.table(sql_name(name))
            return Relation(columns=result_columns(frame.schema), keys=identifier_fields(frame))

    @contextmanager
    def _session(self, context: SessionContext) -> Iterator[SparkSession]:
        with self._sessions.use(context) as session, self._driver.translating(), active_session(session):
            yield session


def _local_result(frame: DataFrame, rows: Any) -> ResultRows:
    """Return the rows of a command, which are in the driver. For many rows, Arrow would run a job."""
    form = ResultForm(frame.schema)
    batches = row_batches(frame, rows, form.schema)
    values = [list(row) for row in frame.collect()] if batches is None else form.rows(list(batches))
    return RowSet(columns=form.columns, rows=values)
