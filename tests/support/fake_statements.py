"""FakeStatementEngine: prepared answers to SQL texts, in place of Spark."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from mt_core.base.rowset import INT, Column, RowSet
from mt_core.errors import (
    Canceled,
    DefinitionInvalid,
    EngineError,
    EngineUnavailable,
    MtError,
    QueryFailed,
    TableNotFound,
)
from mt_core.model.function import CreatedFunction
from mt_core.model.progress import Progress
from mt_core.model.reservation import Atomicity, Reservation
from mt_core.model.stream import StreamMember
from mt_core.model.table import Column as StoredColumn
from mt_core.plans.compiled import Topology
from mt_core.plans.operators import Operator
from mt_core.sessions.ports import (
    Relation,
    ResultRows,
    ResultSpace,
    SessionContext,
    SessionState,
    StatementResult,
)
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.connectors.catalog_options import configured_catalogs

WAIT_S = 60.0
LAKE = {"type": "org.apache.iceberg.spark.SparkCatalog", "catalog-type": "jdbc", "jdbc.password": "hidden"}

_DECLARE = "DECLARE VARIABLE "
_DROP_FUNCTION = re.compile(r"DROP TEMPORARY FUNCTION (IF EXISTS )?`(?P<name>\w+)`")
_USE = re.compile(r"USE (?P<catalog>\w+)\.(?P<namespace>\w+)")
_CREATION = re.compile(
    r"(?P<verb>CREATE TABLE( IF NOT EXISTS)?|CREATE OR REPLACE TABLE|REPLACE TABLE) `?(?P<table>\w+)`? .*AS ",
    re.S,
)

ONE_ROW = StatementResult(is_query=True, rows=RowSet(columns=(Column(name="a", type=INT),), rows=[[1]]))
NO_ROWS = StatementResult(is_query=False, rows=None)


class Hold:
    """A statement that runs until the test ends or cancels it."""

    def __init__(self) -> None:
        self.entered, self.ended = threading.Event(), threading.Event()

    def wait_entered(self) -> None:
        """Wait until the statement is running."""
        assert self.entered.wait(WAIT_S), "the statement was never executed"

    def release(self) -> None:
        """End the statement."""
        self.ended.set()


class FakeStatementEngine:
    """Answers `SELECT 1` with one row and `USE …` without rows. Tests add to `answers`.

    Records each statement and its session in `executed`. Every session sees the `shared_catalogs`.
    Thread-safe.
    """

    def __init__(self, answers: Mapping[str, StatementResult | Exception] | None = None) -> None:
        self.answers: dict[str, StatementResult | Exception] = {"SELECT 1": ONE_ROW, **(answers or {})}
        self.executed: list[tuple[SessionContext, str]] = []
        self.canceled: list[str] = []
        self.closed_sessions: list[str] = []
        # The current namespace of each existing session that has changed it, and the sessions that are kept
        # although they are closed.
        self._namespaces: dict[str, tuple[str, str]] = {}
        self._kept, self._closing = Counter[str](), set[str]()
        self.tables: dict[str, Sequence[Column]] = {}
        self.temporary_relations: frozenset[str] = frozenset()
        self.relations_of: dict[tuple[str, ...], Sequence[str]] = {("lake", "default"): ()}
        self.shared_catalogs: Callable[[], Mapping[str, Mapping[str, str]]] = dict
        self.opened_catalogs: list[tuple[str, Mapping[str, str]]] = []
        self.broken_catalogs: set[str] = set()
        self.missing_jars: set[str] = set()
        self.broken_functions: set[str] = set()
        self.temporary_functions: frozenset[str] = frozenset()
        # Pairs of a session and the name of one of its variables.
        self.variables = set[tuple[str, str]]()
        # The tables created from queries, with the job that last published each of them, and what has been
        # settled.
        self.published: dict[tuple[str, ...], str] = {}
        self.settled: list[Reservation] = []
        self.columns_of_queries: dict[str, Sequence[StoredColumn]] = {}
        self.unbounded: dict[tuple[str, str], CreateConnectorTable] = {}
        self.loaded_connectors: list[str] = []
        # The columns that a change writes if it runs as batch.
        self.columns_of_batches: tuple[tuple[str, str], ...] = (("a", "int"),)
        # The statements that read streams. Those that are a SELECT have rows.
        self.streams: dict[str, ResultRows | Exception] = {}
        self.analysed: list[StreamMember] = []
        self.tasks: Progress | None = None
        self.failure: EngineUnavailable | None = None
        self.ready = threading.Event()
        self.ready.set()
        self._holds: dict[str, Hold] = {}
        self._at_work: dict[str, Hold] = {}

    def hold(self, sql: str) -> Hold:
        """Make the next execution of *sql* wait for the test."""
        self._holds[sql] = Hold()
        return self._holds[sql]

    def result_space(self) -> ResultSpace:
        return ResultSpace(memory=10, disk=20, memory_limit=100, disk_limit=200)

    def wait_ready(self, timeout_s: float) -> bool:
        if self.failure is not None:
            raise self.failure
        return self.ready.wait(timeout_s)

    def execute(
        self, context: SessionContext, sql: str, *, job_id: str, reservation: Reservation | None = None
    ) -> StatementResult:
        self.executed.append((context, sql))
        hold = self._holds.pop(sql, None)
        if hold is not None:
            self._wait(hold, job_id)
        if (use := _USE.fullmatch(sql)) is not None:
            self._namespaces[context.session_id] = (use["catalog"], use["namespace"])
        if (drop := _DROP_FUNCTION.fullmatch(sql)) is not None:
            self.temporary_functions -= {drop["name"]}
            return NO_ROWS
        if sql.startswith(_DECLARE):
            self.variables.add((context.session_id, sql.removeprefix(_DECLARE).split()[0].lower()))
            return NO_ROWS
        if sql not in self.answers and sql.upper().startswith(("USE ", "SET CATALOG ", "-- C\nUSE ")):
            return NO_ROWS
        answer = self.answers.get(sql, QueryFailed(f"[PARSE_SYNTAX_ERROR] Syntax error at or near {sql!r}."))
        if isinstance(answer, Exception):
            raise answer
        if reservation is not None:
            self.published[reservation.table] = reservation.job_id
        return answer

    def reserve(self, context: SessionContext, sql: str, *, job_id: str) -> Reservation | None:
        creation = _CREATION.match(sql)
        if creation is None:
            return None
        table = ("lake", "default", creation["table"])
        if creation["verb"].startswith("CREATE TABLE") and table in self.published:
            return None
        if creation["verb"] == "REPLACE TABLE" and table not in self.published:
            raise TableNotFound(
                f"REPLACE TABLE {'.'.join(table)}: there is no such table.", table=".".join(table)
            )
        return Reservation(job_id=job_id, table=table, atomicity=Atomicity.ATOMIC, folder=f"/lake/{job_id}")

    def settle(self, reservation: Reservation) -> bool:
        self.settled.append(reservation)
        return self.published.get(reservation.table) == reservation.job_id

    def query_columns(self, context: SessionContext, query: str) -> Sequence[StoredColumn]:
        if query.strip() not in self.columns_of_queries:
            raise QueryFailed(f"[PARSE_SYNTAX_ERROR] Syntax error at or near {query!r}.")
        return self.columns_of_queries[query.strip()]

    def check_assignable(
        self, context: SessionContext, produced: StoredColumn, declared: StoredColumn
    ) -> None:
        if produced.type == "string" and declared.type.lower() != "string":
            raise DefinitionInvalid(
                f"Column {declared.name} is declared {declared.type}, its query gives string."
            )

    def session_state(self, context: SessionContext) -> SessionState:
        catalog, namespace = self._namespaces.get(context.session_id, ("lake", "default"))
        return SessionState(
            catalog=catalog,
            namespace=(namespace,),
            zone=context.properties.get("table.local-time-zone", "UTC"),
            relations=self.temporary_relations,
            functions=self.temporary_functions,
        )

    def has_variable(self, context: SessionContext, name: str) -> bool:
        return (context.session_id, name.lower()) in self.variables

    def catalogs(self, context: SessionContext) -> Mapping[str, Mapping[str, str]]:
        shared = {
            key: value for settings in self.shared_catalogs().values() for key, value in settings.items()
        }
        return {
            "spark_catalog": {"type": "in-memory"},
            "lake": LAKE,
            **configured_catalogs({**shared, **context.properties}),
        }

    def relations(self, context: SessionContext, namespace: Sequence[str]) -> Sequence[str]:
        if tuple(namespace) not in self.relations_of:
            raise EngineError(f"NoSuchNamespaceException: Namespace does not exist: {'.'.join(namespace)}")
        return self.relations_of[tuple(namespace)]

    def relation(self, context: SessionContext, name: Sequence[str]) -> Relation:
        if ".".join(name) not in self.tables:
            text = f"[TABLE_OR_VIEW_NOT_FOUND] The table or view {'.'.join(name)} cannot be found."
            raise QueryFailed(text, error_class="TABLE_OR_VIEW_NOT_FOUND")
        return Relation(columns=self.tables[".".join(name)])

    def explain(self, context: SessionContext, sql: str, mode: str) -> str:
        return f"{mode} plan of {sql}"

    def topology(self, context: SessionContext, texts: Sequence[str]) -> Topology:
        operators = [
            Operator(type="batch-exec-sink_1", description=text.strip(), output=self.columns_of_batches)
            for text in texts
        ]
        return Topology(spark_version="4.1.0", operators=tuple(operators))

    def reads_stream(self, context: SessionContext, query: StreamMember) -> bool:
        self.analysed.append(query)
        # A statement of a plan is preceded by blanks.
        return query.text.strip() in {text.strip() for text in self.streams}

    def explain_streams(
        self, context: SessionContext, queries: Sequence[StreamMember], temporary: Sequence[str], mode: str
    ) -> str:
        return "\n\n".join(
            f"{mode} stream of {query.text} with {len(temporary)} temporary" for query in queries
        )

    def follow(self, context: SessionContext, query: StreamMember, *, job_id: str) -> ResultRows:
        self.executed.append((context, query.text))
        answer = self.streams[query.text]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def create_unbounded(self, context: SessionContext, table: CreateConnectorTable) -> None:
        key = (context.session_id, table.name[0])
        if key in self.unbounded and not table.or_replace:
            raise QueryFailed(
                f"[TEMP_TABLE_OR_VIEW_ALREADY_EXISTS] There is a temporary view {table.name[0]} already."
            )
        self.unbounded[key] = table

    def load_connector(self, context: SessionContext, connector: str) -> None:
        self.loaded_connectors.append(connector)

    def add_jar(self, context: SessionContext, path: str) -> str:
        if path in self.missing_jars:
            raise DefinitionInvalid(f"There is no jar {path}.")
        return f"/jars/{path}"

    def check_function(
        self, context: SessionContext, function: CreatedFunction, *, job_id: str
    ) -> CreatedFunction:
        if function.name in self.broken_functions:
            raise QueryFailed(f"[UNRESOLVED_COLUMN] {function.body} cannot be resolved.")
        state = self.session_state(context)
        files = tuple(replace(file, content=f"hash of {file.uri}") for file in function.files)
        returns = function.returns or "INT"
        return replace(
            function, files=files, returns=returns, catalog=state.catalog, namespace=state.namespace
        )

    def create_temporary_function(
        self, context: SessionContext, function: CreatedFunction, *, job_id: str
    ) -> CreatedFunction:
        kept = self.check_function(context, function, job_id=job_id)
        self.temporary_functions |= {function.name}
        return kept

    def jar_copies(self, context: SessionContext, paths: Sequence[str]) -> Sequence[str]:
        return [f"/copies/{path}" for path in paths]

    def open_catalog(self, name: str, settings: Mapping[str, str]) -> None:
        if f"spark.sql.catalog.{name}" not in settings or name in self.broken_catalogs:
            raise QueryFailed(f"Cannot find catalog plugin class for catalog '{name}' of {dict(settings)}.")
        self.opened_catalogs.append((name, settings))

    @contextmanager
    def keeping(self, session_id: str) -> Iterator[None]:
        self._kept[session_id] += 1
        try:
            yield
        finally:
            self._kept[session_id] -= 1
            if session_id in self._closing:
                self._forget(session_id)

    def close_session(self, session_id: str) -> None:
        self.closed_sessions.append(session_id)
        self._forget(session_id)

    def _forget(self, session_id: str) -> None:
        if self._kept[session_id]:
            self._closing.add(session_id)
        else:
            self._closing.discard(session_id)
            self._namespaces.pop(session_id, None)

    def cancel(self, job_id: str) -> None:
        self.canceled.append(job_id)
        if job_id in self._at_work:
            self._at_work[job_id].release()

    def progress(self, job_id: str) -> Progress | None:
        return self.tasks

    def _wait(self, hold: Hold, job_id: str) -> None:
        self._at_work[job_id] = hold
        hold.entered.set()
        if not hold.ended.wait(WAIT_S):
            raise MtError(f"The test never released job {job_id}.")
        if job_id in self.canceled:
            raise Canceled(f"Job {job_id} was cancelled.")
