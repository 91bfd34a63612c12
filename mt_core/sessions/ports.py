"""Ports of sessions: the engine that runs SQL text, and the manager of materialized tables and its runs.

Sessions do not depend on Spark. This module declares what they need from it as protocols, which
`mt_core.spark` and the fakes of the tests implement. The engine's protocols are split by use: `SqlEngine`
runs text, `CatalogEngine` looks up names, `CreationEngine` and `FunctionEngine` create objects. Each caller
declares only the protocol that it uses; `StatementEngine` combines them. The engine identifies a session only
by its id. Results are pulled: `ResultRows` buffers a bounded number of rows until pages are fetched. A client
that stops fetching therefore pauses its query and does not fill the gateway's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from mt_core.base.identifiers import Namespace
from mt_core.base.rowset import Column, PageForm, RowKind
from mt_core.errors import MtError
from mt_core.model.function import CreatedFunction
from mt_core.model.progress import Progress
from mt_core.model.reservation import Reservation
from mt_core.model.run import RefreshRun
from mt_core.model.stream import StreamMember
from mt_core.model.table import Column as StoredColumn
from mt_core.plans.compiled import Topology
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.statements import TableStatement
from mt_core.tables.table_commands import CommandContext, CommandOutcome, RefreshRequest
from mt_core.tables.views.continuous_job import ContinuousJob
from mt_core.tables.views.run_view import RunView


class ResultRows(Protocol):
    """The rows of a statement, which any thread can read until they are closed, even while the query runs."""

    @property
    def columns(self) -> Sequence[Column]: ...

    @property
    def running(self) -> bool:
        """Whether the query may still produce rows."""

    @property
    def endless(self) -> bool:
        """Whether the result is unbounded, so that rows may arrive until it is closed."""

    @property
    def changelog(self) -> bool:
        """Whether rows may retract earlier rows."""

    def available(self, start: int, size: int, timeout_s: float) -> int:
        """Wait until row *start* is available or the query has ended, for up to *timeout_s* seconds.

        Returns the number of rows, up to *size*, that the next page can contain.
        """

    def page(self, start: int, size: int) -> list[list[Any]]:
        """Return *size* rows in JSON form, starting at row *start*, or fewer at the end of the result.

        Blocks until the rows are available. Raises the error of the query if it failed before it produced
        them.
        """

    def kinds(self, start: int, size: int) -> list[RowKind]:
        """Return the row kind of each row that `page` returns."""

    def encoded(self, start: int, size: int, form: PageForm) -> bytes | memoryview | None:
        """Return rows and their kinds encoded in *form*, or None if these rows have no encoded form."""

    def release(self, before: int) -> None:
        """Release the rows before row *before*, which will not be read again."""

    def on_end(self, callback: Callable[[MtError | None], None]) -> None:
        """Call *callback* with the error of the query, or None, when it ends.

        If it has ended, call it now.
        """

    def abort(self, error: MtError) -> None:
        """Stop the query if it is running. Reading further rows raises *error*."""

    def close(self) -> None:
        """Stop the query if it is running, and release the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """The result of a statement. `rows` is None for a statement without a result set.

    `affected_rows` is the number of rows inserted, updated and deleted, `rows_read` the number of rows that
    the scans read. Both are None if unknown.
    """

    is_query: bool
    rows: ResultRows | None
    affected_rows: int | None = None
    rows_read: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """A session as the engine sees it: its id, and the properties that override the defaults."""

    session_id: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session's state in the engine: current namespace, time zone, and lower-case temporary names."""

    catalog: str
    namespace: Namespace
    zone: str
    relations: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table or view: its columns, and the names of its primary key columns, if any."""

    columns: Sequence[Column]
    keys: Sequence[str] = ()


class SqlEngine(Protocol):
    """Runs SQL text in isolated sessions.

    Methods raise EngineUnavailable while the engine starts and after it is lost.
    """

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until statements can run, for up to *timeout_s* seconds; return whether they can.

        Raises EngineUnavailable with the cause if the engine failed or lost its cluster.
        """

    def execute(
        self, context: SessionContext, sql: str, *, job_id: str, reservation: Reservation | None = None
    ) -> StatementResult:
        """Run one statement and block until its first rows are available.

        If *reservation* is given, a table is created as it specifies. Raises QueryFailed with line and
        position, and Canceled after `cancel(job_id)`.
        """

    def session_state(self, context: SessionContext) -> SessionState: ...

    def cancel(self, job_id: str) -> None: ...

    def progress(self, job_id: str) -> Progress | None: ...


class CreationEngine(SqlEngine, Protocol):
    """Creates tables from queries, and cleans up after tables that were not published."""

    def reserve(self, context: SessionContext, sql: str, *, job_id: str) -> Reservation | None:
        """Return what a CREATE or REPLACE TABLE AS may leave behind if it fails, without running it.

        The result is None for any other statement and for a table that already exists. Raises QueryFailed,
        TableNotFound.
        """

    def settle(self, reservation: Reservation) -> bool:
        """Return whether the ended job published its table. If not, remove everything that it left behind.

        Idempotent, also across processes.
        """


class CatalogEngine(SqlEngine, Protocol):
    """Looks up catalogs, tables and their columns, and the columns of queries, as a session sees them."""

    def catalogs(self, context: SessionContext) -> Mapping[str, Mapping[str, str]]:
        """Return the options of each catalog that the session can see. `type` is a kind or a class name."""

    def relation(self, context: SessionContext, name: Sequence[str]) -> Relation:
        """Return a table or view without running a job. Raises QueryFailed if it does not exist."""

    def relations(self, context: SessionContext, namespace: Sequence[str]) -> Sequence[str]:
        """Return the tables and views of *namespace* and the temporary views, in any order.

        An empty *namespace* means the current one. No job runs. Raises QueryFailed or EngineError if the
        namespace does not exist.
        """

    def query_columns(self, context: SessionContext, query: str) -> Sequence[StoredColumn]:
        """Return the result columns of a query without running it. Raises QueryFailed."""

    def check_assignable(
        self, context: SessionContext, produced: StoredColumn, declared: StoredColumn
    ) -> None:
        """Raise DefinitionInvalid unless *produced* can be stored in *declared* without a CAST."""

    def load_connector(self, context: SessionContext, connector: str) -> None:
        """Load the classes of *connector*. Raises ConfigError that says how to install missing classes."""

    def open_catalog(self, name: str, settings: Mapping[str, str]) -> None:
        """Check that a catalog with *settings* opens; sessions do not see it.

        Raises QueryFailed or EngineError.
        """


class FunctionEngine(SqlEngine, Protocol):
    """Checks and creates functions."""

    def check_function(
        self, context: SessionContext, function: CreatedFunction, *, job_id: str
    ) -> CreatedFunction:
        """Return *function* as it will be stored: with copied files, resolved types and its namespace.

        `cancel(job_id)` ends the process that loads a Python module. Raises DefinitionInvalid with the reason
        if the function cannot be called.
        """

    def create_temporary_function(
        self, context: SessionContext, function: CreatedFunction, *, job_id: str
    ) -> CreatedFunction:
        """Create or replace *function* in this session only.

        Return it in the form that `check_function` returns.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSpace:
    """The bytes of results that clients have not fetched yet, in memory and in files, and their limits.

    The limit of memory is that of all results, the limit of files that of each result.
    """

    memory: int = 0
    disk: int = 0
    memory_limit: int = 0
    disk_limit: int = 0


class StatementEngine(CreationEngine, CatalogEngine, FunctionEngine, Protocol):
    """Everything that statements need from the engine, including plans, streams, jars and session state."""

    def result_space(self) -> ResultSpace:
        """Return the space that results use now. Never waits."""

    def has_variable(self, context: SessionContext, name: str) -> bool:
        """Return whether DECLARE VARIABLE has declared *name* in the session. Case does not matter."""

    def explain(self, context: SessionContext, sql: str, mode: str) -> str:
        """Return the plan of a statement without running it. Raises QueryFailed.

        *mode* is a mode of EXPLAIN, or json.
        """

    def topology(self, context: SessionContext, texts: Sequence[str]) -> Topology:
        """Return the operators of batch INSERT statements without running them. Raises QueryFailed."""

    def reads_stream(self, context: SessionContext, query: StreamMember) -> bool:
        """Return whether a SELECT or INSERT reads a table as a stream, without running it.

        Raises QueryFailed, Unsupported. Errors in an INSERT that reads a stream may be raised only when it is
        run or explained.
        """

    def explain_streams(
        self, context: SessionContext, queries: Sequence[StreamMember], temporary: Sequence[str], mode: str
    ) -> str:
        """Return the start positions, state, changelog modes and plans of streams, without running them.

        *temporary* are the statements that create the temporary objects of the session. Raises the errors
        that running the streams would raise.
        """

    def follow(self, context: SessionContext, query: StreamMember, *, job_id: str) -> ResultRows:
        """Return the rows of a SELECT that reads streams. They end when closed, or after `cancel(job_id)`.

        Raises Unsupported, with an alternative, for a query that would have to retract rows.
        """

    def create_unbounded(self, context: SessionContext, table: CreateConnectorTable) -> None:
        """Create a temporary unbounded table in the session. Raises QueryFailed if its name is taken."""

    def add_jar(self, context: SessionContext, path: str) -> str:
        """Load the classes of a jar and return its full path. Raises DefinitionInvalid if it is missing."""

    def jar_copies(self, context: SessionContext, paths: Sequence[str]) -> Sequence[str]:
        """Return the immutable copies of *paths* that were made when the session added the jars."""

    def keeping(self, session_id: str) -> AbstractContextManager[None]:
        """Keep the session's state (USE, temporary views …) in the block, even if it is closed."""

    def close_session(self, session_id: str) -> None:
        """Discard the session's state, once no `keeping` block retains it."""


class PlanFiles(Protocol):
    """Files of compiled plans by URI.

    A relative path is in the folder of its session, which is deleted with the session. Methods raise
    ConfigError or Unsupported, with an alternative, for an unsupported URI, and EngineError if the store
    fails.
    """

    def exists(self, session_id: str, uri: str) -> bool: ...

    def read(self, session_id: str, uri: str) -> str:
        """Return the current text of a file. Raises PlanNotFound."""

    def write(self, session_id: str, uri: str, text: str, *, replace: bool) -> None:
        """Write a file atomically. Raises PlanExists if it exists and *replace* is not set."""


class TableCommands(Protocol):
    """Executes statements about materialized tables."""

    def execute(self, statement: TableStatement, context: CommandContext) -> CommandOutcome:
        """Execute *statement*. Raises MtError with nothing changed, or with all changes undone."""


class Runs(Protocol):
    """Refresh runs as their requesters see them.

    A COALESCED run has the status and the result of the run that covers it.
    """

    def request_refresh(self, request: RefreshRequest) -> RefreshRun:
        """Queue *request*, or attach it to a run that covers it, and commit.

        Raises TableNotFound, TableGone, TableInitializing, RequestInvalid.
        """

    def run(self, run_id: str) -> RefreshRun | None: ...

    def wait_run(self, run_id: str, timeout_s: float) -> RefreshRun:
        """Return the run once it is terminal, or after *timeout_s* seconds. Raises OperationNotFound."""

    def cancel_run(self, run_id: str, attempt: int | None = None) -> RefreshRun:
        """Withdraw one requester from the run, unless its latest attempt is later than *attempt*.

        Returns the run as its requester sees it. Raises OperationNotFound.
        """

    def progress(self, run_id: str) -> Progress | None: ...

    def running_jobs(self) -> Sequence[RunView]:
        """Return the jobs of RUNNING runs, except CONTINUOUS ones, in the order of their requests."""

    def continuous_jobs(self) -> Sequence[ContinuousJob]:
        """Return the jobs of all continuously refreshed tables."""

    def stop_continuous(self, job: ContinuousJob) -> None:
        """Suspend the table of *job*. Raises IllegalStatus, TableBusy, TableNotFound."""

    def last_version(self, job: ContinuousJob) -> str:
        """Return the last snapshot that *job*, now stopped, published.

        Raises TableBusy while its last batch runs.
        """

    def job(self, job_id: str) -> RunView | None:
        """Return the job of an open run or of one of the last 1000 runs, or None for any other id."""
