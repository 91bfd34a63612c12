"""What sessions need from outside: an engine that runs SQL text, and the manager of materialized tables
with its runs.
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
    """The rows of a statement, which any thread can read until they are closed,
    also while the query still produces more.
    """

    @property
    def columns(self) -> Sequence[Column]: ...

    @property
    def running(self) -> bool:
        """Whether the query can still produce rows."""

    @property
    def endless(self) -> bool:
        """Whether rows may come until the result is closed, however many were there."""

    @property
    def changelog(self) -> bool:
        """Whether rows may take away others that were given before."""

    def available(self, start: int, size: int, timeout_s: float) -> int:
        """Wait until row *start* is available or the rows end before it;
        return how many of *size* rows are available as a page.
        """

    def page(self, start: int, size: int) -> list[list[Any]]:
        """Return up to *size* rows from row *start* in JSON form; fewer only at the end.

        Waits for them; raises the error of a query that failed before it produced them.
        """

    def kinds(self, start: int, size: int) -> list[RowKind]:
        """Return how each of the rows that `page` returns changes the result."""

    def encoded(self, start: int, size: int, form: PageForm) -> bytes | memoryview | None:
        """Return what `page` and `kinds` return, encoded; None if the rows have no encoded form."""

    def release(self, before: int) -> None:
        """Release the rows before row *before*, which no page needs any more."""

    def on_end(self, callback: Callable[[MtError | None], None]) -> None:
        """Call *callback* once, when the query has ended, with its error or None;
        at once if it has ended already.
        """

    def abort(self, error: MtError) -> None:
        """Stop the query if it runs; to read further rows raises *error*."""

    def close(self) -> None:
        """Stop the query if it runs, and release the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """The result of a statement; `is_query` for SELECT and the like, `rows` None for a statement
    that only has an effect.

    `affected_rows` are those that a change inserted, updated and deleted, `rows_read` those
    that its scans gave, None where that is not known.
    """

    is_query: bool
    rows: ResultRows | None
    affected_rows: int | None = None
    rows_read: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """A session as the engine needs it: its id, and the properties that differ from the defaults."""

    session_id: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session's own state in the engine: where its names are looked up, the time zone of its queries,
    and its temporary names, in lower case."""

    catalog: str
    namespace: Namespace
    zone: str
    relations: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table or view: its columns, and the names of those of its primary key (none: it has no key)."""

    columns: Sequence[Column]
    keys: Sequence[str] = ()


class SqlEngine(Protocol):
    """Runs SQL text in sessions that do not see each other.

    Raises EngineUnavailable while it starts and after it is lost.
    """

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until statements can run; raises EngineUnavailable with the cause if the engine failed,
        or lost its cluster.
        """

    def execute(
        self, context: SessionContext, sql: str, *, job_id: str, reservation: Reservation | None = None
    ) -> StatementResult:
        """Run one statement until its first rows are available; blocks.

        It keeps to its *reservation*, if it has one.

        Raises QueryFailed with line and position, Canceled after `cancel(job_id)`.
        """

    def session_state(self, context: SessionContext) -> SessionState: ...

    def cancel(self, job_id: str) -> None: ...

    def progress(self, job_id: str) -> Progress | None: ...


class CreationEngine(SqlEngine, Protocol):
    """Creates tables of queries, and removes what is left of those that were not published."""

    def reserve(self, context: SessionContext, sql: str, *, job_id: str) -> Reservation | None:
        """Return what a statement that creates or replaces a table of a query may leave behind; nothing runs.

        None for any other statement, and for one that has nothing to create.
        Raises QueryFailed, TableNotFound.
        """

    def settle(self, reservation: Reservation) -> bool:
        """Return whether the job, which has ended, published its table;
        remove all that it left if it has not.

        May be repeated, also by another process.
        """


class CatalogEngine(SqlEngine, Protocol):
    """Knows the catalogs of a session, and the columns of their tables and of queries."""

    def catalogs(self, context: SessionContext) -> Mapping[str, Mapping[str, str]]:
        """Return the catalogs that the session can see with their options;
        `type` is the kind or the class.
        """

    def relation(self, context: SessionContext, name: Sequence[str]) -> Relation:
        """Return a table or view, without running anything; raises QueryFailed if there is none."""

    def relations(self, context: SessionContext, namespace: Sequence[str]) -> Sequence[str]:
        """Return the tables and views of *namespace*, empty: of the current one, and the temporary views,
        in any order.

        Nothing runs. Raises QueryFailed or EngineError if there is no such namespace.
        """

    def query_columns(self, context: SessionContext, query: str) -> Sequence[StoredColumn]:
        """Return the columns that a query gives, without running it; raises QueryFailed."""

    def check_assignable(
        self, context: SessionContext, produced: StoredColumn, declared: StoredColumn
    ) -> None:
        """Raise DefinitionInvalid unless values of the one column can be stored in the other
        without a CAST.
        """

    def load_connector(self, context: SessionContext, connector: str) -> None:
        """Load the classes that tables with *connector* need; raises ConfigError with the way out
        where there are none.
        """

    def open_catalog(self, name: str, settings: Mapping[str, str]) -> None:
        """Open a catalog with *settings* as a test, which no session sees;
        raises QueryFailed or EngineError if that fails.
        """


class FunctionEngine(SqlEngine, Protocol):
    """Checks and creates functions."""

    def check_function(
        self, context: SessionContext, function: CreatedFunction, *, job_id: str
    ) -> CreatedFunction:
        """Return *function* as it is kept: with its files copied, its type,
        and where the names in its body are looked up.

        `cancel(job_id)` ends the process that loads a module of Python.

        Raises DefinitionInvalid for one that cannot be called, with the reason.
        """

    def create_temporary_function(
        self, context: SessionContext, function: CreatedFunction, *, job_id: str
    ) -> CreatedFunction:
        """Create *function* in the session alone, in place of one of its name,
        and return it as `check_function` does.
        """


class StatementEngine(CreationEngine, CatalogEngine, FunctionEngine, Protocol):
    """All that statements ask of the engine: also plans, streams, jars, and what sessions keep."""

    def has_variable(self, context: SessionContext, name: str) -> bool:
        """Return whether the session has a variable, of a DECLARE VARIABLE, with that name in upper
        or lower case.
        """

    def explain(self, context: SessionContext, sql: str, mode: str) -> str:
        """Return the plan of a statement without running it, in a mode of EXPLAIN or as json;
        raises QueryFailed.
        """

    def topology(self, context: SessionContext, texts: Sequence[str]) -> Topology:
        """Return the operators of changes of data that run as batch; nothing runs. Raises QueryFailed."""

    def reads_stream(self, context: SessionContext, query: StreamMember) -> bool:
        """Return whether a SELECT or an INSERT reads a table as a stream; nothing runs.

        Raises QueryFailed, Unsupported.

        The errors of an INSERT that does may come from what runs or explains it as a stream.
        """

    def explain_streams(
        self, context: SessionContext, queries: Sequence[StreamMember], temporary: Sequence[str], mode: str
    ) -> str:
        """Return where the sources of streams begin, what these keep, how their rows arrive,
        and the plan of each; nothing runs.

        *temporary* are the statements that create the temporary tables of the session.
        Raises what running them would.
        """

    def follow(self, context: SessionContext, query: StreamMember, *, job_id: str) -> ResultRows:
        """Return the rows of a SELECT that reads streams, which go on until they are closed,
        or `cancel(job_id)`.

        Raises Unsupported with the way out for a query whose rows would change once they are given.
        """

    def create_unbounded(self, context: SessionContext, table: CreateConnectorTable) -> None:
        """Create a temporary table whose rows are without end in the session;
        raises QueryFailed if its name is taken.
        """

    def add_jar(self, context: SessionContext, path: str) -> str:
        """Load the classes of a jar and return its full path; raises DefinitionInvalid
        if there is no such file.
        """

    def jar_copies(self, context: SessionContext, paths: Sequence[str]) -> Sequence[str]:
        """Return the copies of jars that the session has added, which stay as they are when
        the files are replaced.
        """

    def keeping(self, session_id: str) -> AbstractContextManager[None]:
        """Keep what statements gave a session, such as USE and temporary views, in the block,
        also if it is closed meanwhile.
        """

    def close_session(self, session_id: str) -> None:
        """Forget what statements gave a session, once nothing keeps it any more."""


class PlanFiles(Protocol):
    """Files of compiled plans by their URIs.

    A relative path is one of the folder of its session, which ends with it.

    Raises ConfigError and Unsupported, with the way out, for a URI that nothing reads,
    EngineError for a store that fails.
    """

    def exists(self, session_id: str, uri: str) -> bool: ...

    def read(self, session_id: str, uri: str) -> str:
        """Return the text of a file as it is now; raises PlanNotFound."""

    def write(self, session_id: str, uri: str, text: str, *, replace: bool) -> None:
        """Write a file as a whole; raises PlanExists if it is there and *replace* is not set."""


class TableCommands(Protocol):
    """Executes statements about materialized tables."""

    def execute(self, statement: TableStatement, context: CommandContext) -> CommandOutcome:
        """Raises MtError with nothing changed, or with everything undone."""


class Runs(Protocol):
    """Refresh runs as requesters see them: a COALESCED run shows the status and result of the run
    that covers it.
    """

    def request_refresh(self, request: RefreshRequest) -> RefreshRun:
        """Check *request*, queue or attach, commit; raises TableNotFound, TableGone, TableInitializing,
        RequestInvalid.
        """

    def run(self, run_id: str) -> RefreshRun | None: ...

    def wait_run(self, run_id: str, timeout_s: float) -> RefreshRun:
        """Return the run as soon as it is terminal, or as it is after *timeout_s*;
        raises OperationNotFound.
        """

    def cancel_run(self, run_id: str, attempt: int | None = None) -> RefreshRun:
        """Withdraw one requester, unless it has made a later attempt than *attempt*;
        return the run as requesters see it.
        """

    def progress(self, run_id: str) -> Progress | None: ...

    def running_jobs(self) -> Sequence[RunView]:
        """Return the jobs of the runs that are RUNNING, but for CONTINUOUS ones,
        in the order in which they were requested.
        """

    def continuous_jobs(self) -> Sequence[ContinuousJob]:
        """Return the jobs of the tables that are refreshed continuously."""

    def stop_continuous(self, job: ContinuousJob) -> None:
        """Suspend the table of *job*; raises IllegalStatus, TableBusy, TableNotFound."""

    def last_version(self, job: ContinuousJob) -> str:
        """Return the snapshot that a stopped *job* has published last;
        raises TableBusy while its last batch goes on.
        """

    def job(self, job_id: str) -> RunView | None:
        """Return the job of a run that is open or among the last thousand, None for any other id."""
