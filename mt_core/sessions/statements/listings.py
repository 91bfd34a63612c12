"""Listings: what SHOW answers, in Flink's columns, from what Spark's catalogs hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mt_core.errors import DefinitionInvalid, EngineError, QueryFailed
from mt_core.identifiers import display_name, quote, sql_name, string_literal
from mt_core.rowset import BIGINT, BOOLEAN, Column, LogicalType, RowSet
from mt_core.sessions.operations.jobs import Job, Jobs
from mt_core.sessions.ports import ResultRows, SessionContext, StatementEngine
from mt_core.sessions.properties.property_values import session_zone
from mt_core.sessions.session import Session
from mt_core.sql.catalog import Shown, ShowObjects, ShowPartitions
from mt_core.sql.statements import qualify
from mt_core.tables.settings import ZONE_KEY

MOST = 1_000_000
_NO_PARTITIONS = "PARTITION_MANAGEMENT_IS_UNSUPPORTED"
_NO_NAMESPACE = re.compile(r"NoSuchNamespaceException: Namespace does not exist: ?(.*)")
_STARTED_AT = LogicalType(root="TIMESTAMP_WITH_LOCAL_TIME_ZONE", extras={"precision": 6})
_AFFECTED = Column(name="affected rows", type=BIGINT)
_JOB_COLUMNS = (
    Column(name="job id"),
    Column(name="job name"),
    Column(name="status"),
    Column(name="start time", type=_STARTED_AT),
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
    """The session of a statement about catalogs, its context for this statement, and the id of Spark's work for it."""

    session: Session
    context: SessionContext
    job_id: str


class Listings:
    """Answers SHOW."""

    def __init__(self, engine: StatementEngine, jobs: Jobs) -> None:
        self._engine, self._jobs = engine, jobs

    def show(self, statement: ShowObjects, request: CatalogRequest) -> RowSet:
        """Return the names that match the pattern, in order."""
        if statement.kind is Shown.JOBS:
            return job_rows(self._jobs.jobs(), request)
        if statement.kind is Shown.FULL_MODULES:
            return RowSet(
                columns=(Column(name="module name"), Column(name="used", type=BOOLEAN)), rows=[["core", True]]
            )
        names = self._names(statement, request)
        return names_only(_COLUMN_NAMES[statement.kind], [name for name in names if _shown(statement, name)])

    def partitions(self, statement: ShowPartitions, request: CatalogRequest) -> RowSet:
        """Return one row `column=value/…` for each partition that agrees with the spec."""
        table = sql_name(statement.name)
        try:
            names = self._first_column(f"SHOW PARTITIONS {table}{_spec(statement.partition)}", request)
        except QueryFailed as error:
            if _NO_PARTITIONS not in (error.error_class or ""):
                raise
            names = self._iceberg_partitions(statement, request)
        return names_only("partition name", sorted(names))

    # ------------------------------------------------------------------------------------------------------- internal

    def _names(self, statement: ShowObjects, request: CatalogRequest) -> Sequence[str]:
        match statement.kind:
            case Shown.CATALOGS:
                return sorted(self._engine.catalogs(request.context))
            case Shown.CURRENT_CATALOG:
                return [self._engine.current_catalog(request.context)]
            case Shown.CURRENT_DATABASE:
                return [display_name(self._engine.current_namespace(request.context))]
            case Shown.JARS:
                return request.session.jars
            case Shown.MODULES:
                return ["core"]
            case Shown.MODELS:
                return []
            case _:
                return self._in_namespace(statement, request)

    def _in_namespace(self, statement: ShowObjects, request: CatalogRequest) -> Sequence[str]:
        name, within = statement.name, f" IN {sql_name(statement.name)}" if statement.name else ""
        match statement.kind:
            case Shown.DATABASES:
                catalog = name or (self._engine.current_catalog(request.context),)
                return sorted(self._first_column(f"SHOW NAMESPACES IN {sql_name(catalog)}", request))
            case Shown.TABLES:
                tables = self._run(f"SHOW TABLES{within}", request)
                if tables is None:
                    return []
                return sorted({*_column("tableName", tables), *self._engine.views(request.context, name or ())})
            case Shown.VIEWS:
                return sorted(set(self._views(within, request)))
            case _:
                return sorted(set(self._last_column(f"SHOW {statement.kind}{within}", request)))

    def _views(self, within: str, request: CatalogRequest) -> Sequence[str]:
        try:
            views = self._run(f"SHOW VIEWS{within}", request)
            return [] if views is None else _column("viewName", views)
        except QueryFailed as error:
            # A catalog without views has none.
            if "VIEWS" not in error.message and "views" not in error.message:
                raise
            return []

    def _iceberg_partitions(self, statement: ShowPartitions, request: CatalogRequest) -> list[str]:
        """Iceberg shows partitions in a table of metadata: one struct of the partition's values each."""
        name = ".".join(statement.name)
        engine, context = self._engine, request.context
        table = qualify(statement.name, engine.current_catalog(context), engine.current_namespace(context))
        try:
            rows = self._rows(f"SELECT DISTINCT partition FROM {sql_name((*table.parts, 'partitions'))}", request)
        except QueryFailed as cause:
            raise DefinitionInvalid(
                f"Table {name} is not partitioned; SHOW CREATE TABLE {name} shows how it is made."
            ) from cause
        values = [row[0] or {} for row in rows]
        wanted = statement.partition
        matching = [value for value in values if all(str(value.get(key)) == wanted[key] for key in wanted)]
        return ["/".join(f"{key}={text}" for key, text in value.items()) for value in matching]

    def _first_column(self, sql: str, request: CatalogRequest) -> list[str]:
        return [str(row[0]) for row in self._rows(sql, request)]

    def _last_column(self, sql: str, request: CatalogRequest) -> list[str]:
        return [str(row[-1]) for row in self._rows(sql, request)]

    def _rows(self, sql: str, request: CatalogRequest) -> list[list[Any]]:
        rows = self._run(sql, request)
        return rows.page(0, MOST) if rows is not None else []

    def _run(self, sql: str, request: CatalogRequest) -> ResultRows | None:
        try:
            return self._engine.execute(request.context, sql, job_id=request.job_id).rows
        except EngineError as error:
            missing = _NO_NAMESPACE.search(error.message)
            if missing is None:
                raise
            if not missing[1]:
                # A catalog whose storage Spark creates with its first namespace.
                return None
            raise DefinitionInvalid(
                f"Database {missing[1]} does not exist; SHOW DATABASES lists those there are."
            ) from error


def _column(name: str, rows: ResultRows) -> list[str]:
    index = next((at for at, column in enumerate(rows.columns) if column.name == name), 0)
    return [str(row[index]) for row in rows.page(0, MOST)]


def names_only(column: str, names: Sequence[str]) -> RowSet:
    """Return a result of one column of names."""
    return RowSet(columns=(Column(name=column),), rows=[[name] for name in names])


def job_rows(jobs: Sequence[Job], request: CatalogRequest) -> RowSet:
    """Return jobs with their start as the session's wall clock shows it."""
    shown = _clock_of(request.session)
    return RowSet(
        columns=_JOB_COLUMNS,
        rows=[[job.job_id, job.name, job.status.value, shown(job.started_at)] for job in jobs],
    )


def described_job(job: Job, request: CatalogRequest) -> RowSet:
    """Return one job as `job_rows` does, with the rows it has written."""
    rows = job_rows([job], request)
    return RowSet(columns=(*rows.columns, _AFFECTED), rows=[[*rows.rows[0], job.affected_rows]])


def _clock_of(session: Session) -> Callable[[datetime], str]:
    zone = session_zone(session.properties.get(ZONE_KEY, "UTC"))

    def shown(instant: datetime) -> str:
        local = instant.astimezone(zone)
        # The wall clock with a Z that does not mean UTC, as all such values of Flink's REST API.
        return f"{local:%Y-%m-%dT%H:%M:%S}.{local.microsecond // 1000:03}Z"

    return shown


def _shown(statement: ShowObjects, name: str) -> bool:
    return statement.pattern is None or statement.pattern.matches(name)


def _spec(partition: Mapping[str, str]) -> str:
    if not partition:
        return ""
    pairs = (f"{quote(key)} = {string_literal(value)}" for key, value in partition.items())
    return f" PARTITION ({', '.join(pairs)})"
