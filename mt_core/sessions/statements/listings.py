"""Listings: the results of SHOW and DESCRIBE JOB, in Flink's columns.

Clients written for Flink read these results by column name and order. Each listing therefore begins with
exactly Flink's columns, followed by Freshtable's own. The names come from Spark's catalogs, whose SHOW
commands differ by catalog implementation. Some catalogs do not support views or partitions, and some have no
namespace until the first table is created. For these, a listing is empty instead of failing. A connector
table that Spark implements as a view is listed as a table. Times are in the session's time zone, in the form
of Flink's REST API, which appends a Z to wall-clock time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mt_core.base.identifiers import display_name, quote, sql_name, string_literal
from mt_core.base.rowset import BIGINT, BOOLEAN, Column, LogicalType, RowSet
from mt_core.errors import DefinitionInvalid, EngineError, QueryFailed
from mt_core.model.job import Job, JobHook
from mt_core.model.stream import StreamState
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.ports import CatalogEngine, ResultRows, SessionContext
from mt_core.sessions.properties.property_values import session_zone
from mt_core.sessions.session import Session
from mt_core.sql.catalog import Shown, ShowObjects, ShowPartitions
from mt_core.sql.statements import Name, qualify
from mt_core.tables.settings import ZONE_KEY

MOST = 1_000_000
INFO = (Column(name="info name"), Column(name="info value"))
"""Flink's columns of DESCRIBE."""
_NO_PARTITIONS = "PARTITION_MANAGEMENT_IS_UNSUPPORTED"
_NO_NAMESPACE = re.compile(r"NoSuchNamespaceException: Namespace does not exist: ?(.*)")
_AT = LogicalType(root="TIMESTAMP_WITH_LOCAL_TIME_ZONE", extras={"precision": 6})
_JOB_COLUMNS = (
    # Flink's own columns.
    Column(name="job id"),
    Column(name="job name"),
    Column(name="status"),
    Column(name="start time", type=_AT),
    Column(name="kind"),
    Column(name="end time", type=_AT),
)
_DESCRIBED_COLUMNS = (
    Column(name="session"),
    Column(name="user"),
    Column(name="target"),
    Column(name="rows read", type=BIGINT),
    Column(name="affected rows", type=BIGINT),
    Column(name="checkpoint"),
    Column(name="restarts", type=BIGINT),
    Column(name="error"),
    Column(name="hooks"),
    Column(name="statement"),
    Column(name="offsets"),
    Column(name="savepoint path"),
    Column(name="states"),
)
_COLUMN_NAMES: Mapping[Shown, str] = {
    Shown.CATALOGS: "catalog name",
    Shown.DATABASES: "database name",
    Shown.TABLES: "table name",
    Shown.VIEWS: "view name",
    Shown.FUNCTIONS: "function name",
    Shown.USER_FUNCTIONS: "function name",
    Shown.PROCEDURES: "procedure name",
    Shown.MODELS: "model name",
    Shown.MODULES: "module name",
    Shown.CURRENT_CATALOG: "current catalog name",
    Shown.CURRENT_DATABASE: "current database name",
    Shown.JARS: "jars",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRequest:
    """The session of a catalog statement, its context for this statement, and the id of its Spark job."""

    session: Session
    context: SessionContext
    job_id: str


@dataclass(frozen=True, slots=True)
class Listings:
    """Performs SHOW. `is_table` tells whether a view implements a table, which SHOW VIEWS then omits."""

    engine: CatalogEngine
    jobs: Jobs
    is_table: Callable[[Name, SessionContext], bool]

    def show(self, statement: ShowObjects, request: CatalogRequest, more: Iterable[str] = ()) -> RowSet:
        """Return the sorted names that match the pattern. *more* are names that Spark does not list."""
        if statement.kind is Shown.JOBS:
            like = statement.pattern
            return job_rows(
                [job for job in self.jobs.jobs() if like is None or like.matches(job.name)], request
            )
        if statement.kind is Shown.FULL_MODULES:
            return RowSet(
                columns=(Column(name="module name"), Column(name="used", type=BOOLEAN)), rows=[["core", True]]
            )
        names, pattern = self._names(statement, request), statement.pattern
        names = sorted({*names, *more}) if more else names
        matching = [name for name in names if pattern is None or pattern.matches(name)]
        return names_only(_COLUMN_NAMES[statement.kind], matching)

    def partitions(self, statement: ShowPartitions, request: CatalogRequest) -> RowSet:
        """Return one row `column=value/…` for each partition that matches the given values."""
        pairs = [f"{quote(key)} = {string_literal(value)}" for key, value in statement.partition.items()]
        spec = f" PARTITION ({', '.join(pairs)})" if pairs else ""
        try:
            names = texts_of(self._run(f"SHOW PARTITIONS {sql_name(statement.name)}{spec}", request))
        except QueryFailed as error:
            if _NO_PARTITIONS not in (error.error_class or ""):
                raise
            names = self._iceberg_partitions(statement, request)
        return names_only("partition name", sorted(names))

    # ----------------------------------------------------------------------------------------------- internal

    def _names(self, statement: ShowObjects, request: CatalogRequest) -> Sequence[str]:
        context = request.context
        match statement.kind:
            case Shown.CURRENT_CATALOG:
                return [self.engine.session_state(context).catalog]
            case Shown.CURRENT_DATABASE:
                return [display_name(self.engine.session_state(context).namespace)]
            case Shown.JARS:
                return request.session.view().jars
            case Shown.MODULES:
                return ["core"]
            case Shown.MODELS:
                return []
            case Shown.CATALOGS:
                return sorted(self.engine.catalogs(context))
            case _:
                return sorted(set(self._names_in_spark(statement, request)))

    def _names_in_spark(self, statement: ShowObjects, request: CatalogRequest) -> Sequence[str]:
        """Return the names in Spark's catalogs, in any order."""
        within = f" IN {sql_name(statement.name)}" if statement.name else ""
        match statement.kind:
            case Shown.DATABASES:
                catalog = statement.name or (self.engine.session_state(request.context).catalog,)
                return texts_of(self._run(f"SHOW NAMESPACES IN {sql_name(catalog)}", request))
            case Shown.TABLES:
                with _in_namespace():
                    return self.engine.relations(request.context, statement.name or ())
                return ()
            case Shown.VIEWS:
                views, place = self._views(within, request), statement.name or ()
                return [name for name in views if not self.is_table((*place, name), request.context)]
            case _:
                return texts_of(self._run(f"SHOW {statement.kind}{within}", request), last=True)

    def _views(self, within: str, request: CatalogRequest) -> list[str]:
        try:
            return texts_of(self._run(f"SHOW VIEWS{within}", request), "viewName")
        except QueryFailed as error:
            # The catalog does not support views.
            if "VIEWS" not in error.message and "views" not in error.message:
                raise
            return []

    def _iceberg_partitions(self, statement: ShowPartitions, request: CatalogRequest) -> list[str]:
        """Return the partitions from Iceberg's metadata table, in which each is a struct of values."""
        name, state = ".".join(statement.name), self.engine.session_state(request.context)
        table = qualify(statement.name, state.catalog, state.namespace)
        try:
            rows = self._run(
                f"SELECT DISTINCT partition FROM {sql_name((*table.parts, 'partitions'))}", request
            )
            values = [row[0] or {} for row in rows.page(0, MOST)] if rows is not None else []
        except QueryFailed as cause:
            raise DefinitionInvalid(
                f"Table {name} is not partitioned; SHOW CREATE TABLE {name} shows its definition."
            ) from cause
        spec = statement.partition
        matching = [value for value in values if all(str(value.get(key)) == spec[key] for key in spec)]
        return ["/".join(f"{key}={text}" for key, text in value.items()) for value in matching]

    def _run(self, sql: str, request: CatalogRequest) -> ResultRows | None:
        with _in_namespace():
            return self.engine.execute(request.context, sql, job_id=request.job_id).rows
        return None


@contextmanager
def _in_namespace() -> Iterator[None]:
    """Raise DefinitionInvalid if the namespace that the block reads does not exist.

    If the catalog is still empty, suppress the error.
    """
    try:
        yield
    except EngineError as error:
        missing = _NO_NAMESPACE.search(error.message)
        if missing is None:
            raise
        # Some catalogs create their storage only with the first namespace.
        if missing[1]:
            raise DefinitionInvalid(
                f"Database {missing[1]} does not exist; SHOW DATABASES lists the databases."
            ) from error


def texts_of(rows: ResultRows | None, *columns: str, last: bool = False, most: int = MOST) -> list[str]:
    """Return one column as text and close the rows.

    It is the first column named in *columns*. If there is none, it is the *last* column or the first.
    """
    if rows is None:
        return []
    index = next((at for at, column in enumerate(rows.columns) if column.name in columns), -1 if last else 0)
    try:
        return [str(row[index]) for row in rows.page(0, most)]
    finally:
        rows.close()


def names_only(column: str, names: Sequence[str]) -> RowSet:
    """Return a result with a single column of names."""
    return RowSet(columns=(Column(name=column),), rows=[[name] for name in names])


def savepoint_row(savepoint: str) -> RowSet:
    """Return the result of STOP JOB … WITH SAVEPOINT."""
    return names_only("savepoint path", [savepoint])


def job_rows(jobs: Sequence[Job], request: CatalogRequest, *, described: bool = False) -> RowSet:
    """Return a row for each job, with times in the session's time zone.

    *described* adds the columns of DESCRIBE JOB.
    """
    zone = session_zone(request.session.properties.get(ZONE_KEY, "UTC"))

    def local(instant: datetime | None) -> str | None:
        if instant is None:
            return None
        at = instant.astimezone(zone)
        # Wall-clock time with a Z that does not mean UTC, as in Flink's REST API.
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"

    rows: list[list[Any]] = []
    for job in jobs:
        row = [
            job.job_id,
            job.name,
            job.status.value,
            local(job.started_at),
            job.kind,
            local(job.finished_at),
        ]
        more = [job.session or None, job.user or None, job.target, job.rows_read, job.rows_written]
        of_stream = job.stream or StreamState()
        stream = [job.statement or None, of_stream.offsets, of_stream.savepoint, of_stream.states]
        rows.append(
            [*row, *more, job.checkpoint, job.restarts, job.error, _hooks_of(job), *stream]
            if described
            else row
        )
    return RowSet(columns=(*_JOB_COLUMNS, *_DESCRIBED_COLUMNS) if described else _JOB_COLUMNS, rows=rows)


def _hooks_of(job: Job) -> str | None:
    """Return a description of the hooks of a job: which events are done, given up and not done."""

    def words(hook: JobHook) -> str:
        event = hook.next_event(job.status)
        parts = [*(f"{each} done" for each in hook.done), *(f"{each} given up" for each in hook.given_up)]
        if event is not None:
            parts.append(
                f"{event} not done" + (f" after {hook.failures} failed calls" if hook.failures else "")
            )
        return f"{hook.name}: {', '.join(parts)}" + (f" ({hook.error})" if hook.error else "")

    return "; ".join(map(words, job.hooks)) or None
