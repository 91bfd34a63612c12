"""Statements about the contents of catalogs and about jars, with results in Flink's columns."""

from __future__ import annotations

from typing import Any

from mt_core.base.identifiers import quote, sql_name
from mt_core.base.rowset import Column, RowSet
from mt_core.errors import TableNotFound
from mt_core.sessions.catalog.connector_table_statements import ConnectorTableStatements
from mt_core.sessions.catalog.connector_table_text import show_create
from mt_core.sessions.catalog.function_commands import FunctionCommands
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.operations.operation import DONE, OperationResult, content
from mt_core.sessions.ports import StatementEngine
from mt_core.sessions.statements.catalog_requests import Answers
from mt_core.sessions.statements.listings import INFO, CatalogRequest, Listings, names_only
from mt_core.sessions.statements.statement_sets import members_of
from mt_core.sessions.statements.translation import in_spark
from mt_core.sessions.streaming.mode import may_stream, stream_members
from mt_core.sessions.temporary_objects import texts
from mt_core.sql import catalog as sql
from mt_core.sql.flink.types import type_text
from mt_core.sql.hints import check_hints
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statements import DescribeTable, Name
from mt_core.tables.views.table_rows import DESCRIBE_COLUMNS

_MOST = 1_000_000
_FUNCTIONS = frozenset({sql.Shown.FUNCTIONS, sql.Shown.USER_FUNCTIONS})

# For streams, the engine itself shows the changelog mode of each operator.
_BATCH_CHANGES = "== Changelog Mode ==\nchangelogMode=[I] of all operators: a batch only adds rows"


class CatalogStatements:
    """Performs a session's statements about catalogs, tables and jars."""

    def __init__(
        self,
        engine: StatementEngine,
        jobs: Jobs,
        connector_tables: ConnectorTableStatements,
        functions: FunctionCommands,
    ) -> None:
        self._engine, self._connector_tables, self._functions = engine, connector_tables, functions
        self._listings = Listings(
            engine, jobs, is_table=lambda name, context: connector_tables.find(name, context) is not None
        )

    @property
    def answers(self) -> Answers:
        """The function that performs each statement. It raises QueryFailed or DefinitionInvalid."""
        return {
            sql.ShowObjects: self._show,
            sql.ShowPartitions: lambda statement, request: content(
                self._listings.partitions(statement, request)
            ),
            sql.ShowColumns: lambda statement, request: content(
                self._columns(statement.name, request, statement.pattern)
            ),
            sql.ShowCreateRelation: self._show_create,
            sql.DescribeDatabase: self._describe_database,
            sql.Explain: lambda statement, request: content(
                names_only("result", [self._explain(statement, request)])
            ),
            sql.AddJar: self._add_jar,
            sql.DropTemporaryView: self._drop_temporary,
        }

    def describe(self, statement: DescribeTable, request: CatalogRequest) -> OperationResult:
        """Answer DESCRIBE of any relation, in Flink's columns.

        EXTENDED adds Spark's details as pairs of name and value.
        """
        columns = self._columns(statement.name, request)
        if not statement.extended:
            return content(columns)
        rows = self._rows(f"DESCRIBE TABLE EXTENDED {sql_name(statement.name)}", request)
        blank: list[Any] = [None] * (len(columns.columns) - 2)
        start = next(
            (index for index, row in enumerate(rows) if not row[0] or row[0].startswith("#")), len(rows)
        )
        return content(
            RowSet(
                columns=columns.columns,
                rows=[*columns.rows, *([row[0], row[1], *blank] for row in rows[start:])],
            )
        )

    def _show(self, statement: sql.ShowObjects, request: CatalogRequest) -> OperationResult:
        lists_functions = statement.kind in _FUNCTIONS and statement.name is None
        more = self._functions.names(request) if lists_functions else ()
        return content(self._listings.show(statement, request, more))

    def _show_create(self, statement: sql.ShowCreateRelation, request: CatalogRequest) -> OperationResult:
        table = self._connector_tables.find(statement.name, request.context)
        if table is not None:
            text = show_create(table)
        else:
            text = str(self._rows(f"SHOW CREATE TABLE {sql_name(statement.name)}", request)[0][0])
        return content(names_only("result", [text]))

    def _describe_database(self, statement: sql.DescribeDatabase, request: CatalogRequest) -> OperationResult:
        words = "DESCRIBE NAMESPACE EXTENDED" if statement.extended else "DESCRIBE NAMESPACE"
        rows = self._rows(f"{words} {sql_name(statement.name)}", request)
        return content(RowSet(columns=INFO, rows=[row[:2] for row in rows]))

    def _explain(self, statement: sql.Explain, request: CatalogRequest) -> str:
        """Return the plan of a statement, or of each member of a statement set, one below the other."""
        engine, context, explained = self._engine, request.context, ReadStatement(statement.statement)
        mode = statement.mode
        members = members_of(explained)
        statements = [explained] if members is None else members
        for each in statements:
            check_hints(each.type, each.text, each.hints)
        properties = {**request.session.properties, **context.properties}
        if may_stream(properties, statements) and (streams := stream_members(engine, context, statements)):
            temporary = texts(request.session.temporary, engine.session_state(context))
            return engine.explain_streams(context, streams, temporary, mode.value)
        plans = [
            engine.explain(context, in_spark(each, engine, context)[0], mode.value) for each in statements
        ]
        if statement.changes and mode is not sql.ExplainMode.JSON:
            plans = [f"{_BATCH_CHANGES}\n\n{plan}" for plan in plans]
        if members is None:
            return plans[0]
        return "\n\n".join(f"== Statement {number} ==\n{plan}" for number, plan in enumerate(plans, 1))

    def _add_jar(self, statement: sql.AddJar, request: CatalogRequest) -> OperationResult:
        jars = (*request.session.jars, self._engine.add_jar(request.context, statement.path))
        request.session.jars = tuple(dict.fromkeys(jars))
        return DONE

    def _drop_temporary(self, statement: sql.DropTemporaryView, request: CatalogRequest) -> OperationResult:
        views = self._rows("SHOW VIEWS IN spark_catalog.default", request)
        if any(row[1].lower() == statement.name.lower() and row[2] for row in views):
            self._rows(f"DROP VIEW {quote(statement.name)}", request)
        elif not statement.if_exists:
            raise TableNotFound(
                f"There is no temporary table or view {statement.name} in this session; "
                "SHOW VIEWS lists the views; DROP TABLE or DROP VIEW drops permanent ones."
            )
        return DONE

    def _columns(self, name: Name, request: CatalogRequest, pattern: sql.Pattern | None = None) -> RowSet:
        relation, table = (
            self._engine.relation(request.context, name),
            self._connector_tables.find(name, request.context),
        )
        keys, watermark = (table.keys, table.watermark) if table is not None else (relation.keys, None)
        late = (
            {watermark.column.lower(): table.watermark_text()}
            if table is not None and watermark is not None
            else {}
        )
        matching = [column for column in relation.columns if pattern is None or pattern.matches(column.name)]
        key = f"PRI({', '.join(keys)})"
        rows: list[list[Any]] = []
        for column in matching:
            shown_key = key if column.name in keys else None
            text = type_text(column.type.to_json())
            rows.append(
                [column.name, text, column.type.nullable, shown_key, None, late.get(column.name.lower())]
            )
        if not any(column.comment for column in matching):
            return RowSet(columns=DESCRIBE_COLUMNS, rows=rows)
        commented = [[*row, column.comment] for row, column in zip(rows, matching, strict=True)]
        return RowSet(columns=(*DESCRIBE_COLUMNS, Column(name="comment")), rows=commented)

    def _rows(self, text: str, request: CatalogRequest) -> list[list[Any]]:
        rows = self._engine.execute(request.context, text, job_id=request.job_id).rows
        return rows.page(0, _MOST) if rows is not None else []
