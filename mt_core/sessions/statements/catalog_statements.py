"""Catalog statements: those about catalogs, tables, jobs and jars, answered in Flink's shapes."""

from __future__ import annotations

from typing import Any

from mt_core.errors import DefinitionInvalid, MtError, QueryFailed, TableNotFound
from mt_core.identifiers import quote, sql_name
from mt_core.rowset import Column, RowSet
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.operations.operation import DONE, OperationResult, content
from mt_core.sessions.ports import SessionContext, StatementEngine
from mt_core.sessions.statements.catalog_commands import CatalogCommands
from mt_core.sessions.statements.listings import CatalogRequest, Listings, described_job, names_only
from mt_core.sessions.statements.statement_sets import members_of
from mt_core.sql import catalog as sql
from mt_core.sql.flink.types import type_text
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statements import DescribeTable, Name
from mt_core.tables.created_catalogs import CreatedCatalogs
from mt_core.tables.views.reports import DESCRIBE_COLUMNS

_INFO = (Column(name="info name"), Column(name="info value"))
_MOST = 1_000_000
_ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


class CatalogStatements:
    """Performs statements about catalogs, tables, jobs and jars in the session that asks."""

    def __init__(self, engine: StatementEngine, jobs: Jobs, shared: CreatedCatalogs) -> None:
        self._engine, self._jobs = engine, jobs
        self._listings, self._commands = Listings(engine, jobs), CatalogCommands(engine, shared)

    def execute(self, statement: sql.CatalogStatement, request: CatalogRequest) -> OperationResult:
        """Perform *statement*; raises QueryFailed, DefinitionInvalid, OperationNotFound or IllegalStatus."""
        match statement:
            case sql.ShowObjects():
                return content(self._listings.show(statement, request))
            case sql.ShowPartitions():
                return content(self._listings.partitions(statement, request))
            case sql.ShowColumns(name=name, pattern=pattern):
                return content(self._columns(name, request, pattern))
            case sql.Explain(mode=mode, statement=text):
                return _text(self._explain(text, mode, request))
            case sql.ShowCreateRelation(name=name):
                return _text(str(self._rows(f"SHOW CREATE TABLE {sql_name(name)}", request)[0][0]))
            case sql.DescribeDatabase(name=name, extended=extended):
                return self._describe_database(name, request, extended=extended)
            case sql.DescribeJob(job_id=job_id):
                return content(described_job(self._jobs.job(job_id), request))
            case _:
                return self._change(statement, request)

    def describe(self, statement: DescribeTable, request: CatalogRequest) -> OperationResult:
        """DESCRIBE of any table or view in Flink's columns; EXTENDED adds Spark's further facts, as names and values."""
        columns = self._columns(statement.name, request)
        if not statement.extended:
            return content(columns)
        rows = self._rows(f"DESCRIBE TABLE EXTENDED {sql_name(statement.name)}", request)
        blank: list[Any] = [None] * (len(columns.columns) - 2)
        start = next((index for index, row in enumerate(rows) if not row[0] or row[0].startswith("#")), len(rows))
        return content(
            RowSet(columns=columns.columns, rows=[*columns.rows, *([row[0], row[1], *blank] for row in rows[start:])])
        )

    def in_spark(self, read: ReadStatement, context: SessionContext) -> tuple[str, ...]:
        """Return the texts for Spark: the translation of a statement of Flink's, the text itself of any other.

        Raises DefinitionInvalid for a table in a catalog which would make something else of it.
        """
        match read.fact:
            case sql.CreateConnectorTable(is_temporary=False) as table:
                self._check_catalog(table, context)
                return self._with_keys(table, context)
            case sql.SparkStatement(spark_sql=text):
                return (text,)
            case _:
                return (read.text,)

    # ------------------------------------------------------------------------------------------------------- internal

    def _with_keys(self, table: sql.CreateConnectorTable, context: SessionContext) -> tuple[str, ...]:
        """Iceberg calls a primary key identifier fields, and sets them on existing tables only."""
        if not table.keys or (table.if_not_exists and self._is_there(table.name, context)):
            return (table.spark_sql,)
        keys = ", ".join(map(quote, table.keys))
        return (table.spark_sql, f"ALTER TABLE {sql_name(table.name)} SET IDENTIFIER FIELDS {keys}")

    def _is_there(self, name: Name, context: SessionContext) -> bool:
        try:
            self._engine.columns(context, name)
        except QueryFailed:
            return False
        return True

    def _check_catalog(self, statement: sql.CreateConnectorTable, context: SessionContext) -> None:
        if statement.connector == "iceberg" or not (statement.connector or statement.keys):
            return
        known, name = self._engine.catalogs(context), statement.name
        catalog = name[0] if len(name) > 1 and name[0] in known else self._engine.current_catalog(context)
        holds_iceberg = known.get(catalog, {}).get("type") == _ICEBERG
        if statement.connector is None and not holds_iceberg:
            raise DefinitionInvalid(
                f"Table {'.'.join(name)}: catalog {catalog} has no place for a PRIMARY KEY; leave it out, or create the table "
                "in an Iceberg catalog such as lake."
            )
        if statement.connector is not None and holds_iceberg:
            raise DefinitionInvalid(
                f"Table {'.'.join(name)}: catalog {catalog} holds Iceberg tables only, and connector '{statement.connector}' is "
                f"something else; use CREATE TEMPORARY TABLE, or name it spark_catalog.default.{name[-1]}."
            )

    def _explain(self, text: str, mode: sql.ExplainMode, request: CatalogRequest) -> str:
        """Return the plan of a statement, or those of a set's members one below the other."""
        explained = ReadStatement(text)
        members = members_of(explained)
        if members is None:
            return self._engine.explain(request.context, self.in_spark(explained, request.context)[0], mode.value)
        plans = (
            self._engine.explain(request.context, self.in_spark(each, request.context)[0], mode.value)
            for each in members
        )
        return "\n\n".join(f"== Statement {number} ==\n{plan}" for number, plan in enumerate(plans, 1))

    def _drop_temporary(self, statement: sql.DropTemporaryView, request: CatalogRequest) -> None:
        views = self._rows("SHOW VIEWS IN spark_catalog.default", request)
        if any(row[1].lower() == statement.name.lower() and row[2] for row in views):
            self._rows(f"DROP VIEW {quote(statement.name)}", request)
        elif not statement.if_exists:
            raise TableNotFound(
                f"There is no temporary table or view {statement.name} in this session; SHOW VIEWS lists those there are, "
                "and DROP TABLE or DROP VIEW drops one that stays."
            )

    def _change(self, statement: sql.CatalogStatement, request: CatalogRequest) -> OperationResult:
        match statement:
            case sql.CatalogCommand():
                return self._commands.execute(statement, request)
            case sql.AddJar(path=path):
                request.session.add_jar(self._engine.add_jar(request.context, path))
            case sql.DropTemporaryView():
                self._drop_temporary(statement, request)
            case sql.StopJob(job_id=job_id):
                self._jobs.stop(job_id)
            case _:
                raise MtError(f"{type(statement).__name__} is not a statement about catalogs.")
        return DONE

    def _columns(self, name: Name, request: CatalogRequest, pattern: sql.Pattern | None = None) -> RowSet:
        matching = [
            column
            for column in self._engine.columns(request.context, name)
            if pattern is None or pattern.matches(column.name)
        ]
        keys = self._engine.keys(request.context, name)
        key = f"PRI({', '.join(keys)})"
        rows: list[list[Any]] = [
            [column.name, type_text(column.type.to_json()), column.type.nullable, key if column.name in keys else None]
            + [None] * 2
            for column in matching
        ]
        if not any(column.comment for column in matching):
            return RowSet(columns=DESCRIBE_COLUMNS, rows=rows)
        commented = [[*row, column.comment] for row, column in zip(rows, matching, strict=True)]
        return RowSet(columns=(*DESCRIBE_COLUMNS, Column(name="comment")), rows=commented)

    def _describe_database(self, name: Name, request: CatalogRequest, *, extended: bool) -> OperationResult:
        rows = self._rows(f"DESCRIBE NAMESPACE {'EXTENDED ' if extended else ''}{sql_name(name)}", request)
        return content(RowSet(columns=_INFO, rows=[row[:2] for row in rows]))

    def _rows(self, text: str, request: CatalogRequest) -> list[list[Any]]:
        rows = self._engine.execute(request.context, text, job_id=request.job_id).rows
        return rows.page(0, _MOST) if rows is not None else []


def _text(text: str) -> OperationResult:
    return content(names_only("result", [text]))
