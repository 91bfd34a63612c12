"""The table manager: executes every statement about materialized tables.

It routes each statement to a function of `commands`, `refresh`, `verification` or `views`, which contain the
rules, and adds what all statements share. Names are resolved against the session. Missing tables and other
relations are refused. Positions in a query are counted from the start of the statement. Every change is
logged with its author. Concurrency is not controlled here: commands on one table are serialized by its intent
in the registry, because other gateways may also be running commands on it.
"""

from __future__ import annotations

import logging

from mt_core.base.identifiers import display_name
from mt_core.base.rowset import Column, RowSet
from mt_core.errors import MtError, NotMaterializedTable, QueryFailed, TableNotFound
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.sql import statements as sql
from mt_core.tables.commands.alter import (
    alter_options,
    alter_query,
    create_or_alter,
    set_freshness,
    set_refresh_mode,
    set_schedule,
)
from mt_core.tables.commands.create import create
from mt_core.tables.commands.drop import drop_with_readers
from mt_core.tables.commands.explain_create import explain_create
from mt_core.tables.commands.lifecycle import resume, suspend
from mt_core.tables.definition.show_create import show_create
from mt_core.tables.refresh.explain import plan_refresh
from mt_core.tables.refresh.requests import RefreshRequests, refuse_initializing
from mt_core.tables.refresh.streaming_only import refuse_refresh
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices
from mt_core.tables.table_commands import CommandContext, CommandOutcome
from mt_core.tables.verification.verification import Verification
from mt_core.tables.views.lineage_rows import lineage_rows
from mt_core.tables.views.reports import Reports

log = logging.getLogger(__name__)
_Named = (
    sql.CreateMaterializedTable
    | sql.DropTable
    | sql.SuspendTable
    | sql.ResumeTable
    | sql.RefreshTable
    | sql.SetFreshness
    | sql.SetSchedule
    | sql.SetRefreshMode
    | sql.AlterOptions
    | sql.AlterQuery
    | sql.ShowCreateTable
    | sql.DescribeTable
    | sql.ShowRefreshes
    | sql.ShowLineage
    | sql.ExplainRefresh
    | sql.VerifyTable
    | sql.ExplainCreate
)
_CHANGES = (
    sql.CreateMaterializedTable,
    sql.DropTable,
    sql.SuspendTable,
    sql.ResumeTable,
    sql.RefreshTable,
    sql.SetFreshness,
    sql.SetSchedule,
    sql.SetRefreshMode,
    sql.AlterOptions,
    sql.AlterQuery,
)


class TableManager:
    """Executes the statements about materialized tables.

    Thread-safe: the commands on a table are serialized by its intent.
    """

    def __init__(self, services: TableServices) -> None:
        self._services = services
        self.requests = RefreshRequests(
            services, suspend=lambda identifier, by: suspend(services, identifier, by=by)
        )
        self._reports = Reports(services)

    def execute(self, statement: sql.TableStatement, context: CommandContext) -> CommandOutcome:
        """Execute *statement*; if it raises MtError, nothing has changed or everything has been undone."""
        try:
            outcome = self._execute(statement, context)
        except QueryFailed as cause:
            raise in_statement(cause, statement) from cause
        if isinstance(statement, _CHANGES):
            table = str(sql.qualify(statement.name, context.catalog, context.namespace))
            facts = {
                "action": "table_changed",
                "by": context.by,
                "statement": type(statement).__name__,
                "table": table,
            }
            log.info("%s of %s", facts["statement"], table, extra=facts)
        return outcome

    def _execute(self, statement: sql.TableStatement, context: CommandContext) -> CommandOutcome:
        match statement:
            case sql.ShowMaterializedTables():
                return CommandOutcome(rows=self._reports.show_tables(statement, context))
            case sql.ShowRefreshes(name=None):
                return CommandOutcome(rows=self._reports.show_refreshes(statement))
            case sql.ShowLineage(name=None):
                return self._lineage(statement, None)
            case _:
                return self._on_name(
                    statement, sql.qualify(statement.name or (), context.catalog, context.namespace), context
                )

    def _on_name(
        self, statement: _Named, identifier: TableIdentifier, context: CommandContext
    ) -> CommandOutcome:
        """Execute a statement that names a table; for some statements, the table does not have to exist."""
        services = self._services
        table = in_transaction(services.registry, lambda tx: tx.tables.named(identifier))
        match statement:
            case sql.CreateMaterializedTable(or_alter=True) if table is not None:
                return create_or_alter(services, statement, table, context)
            case sql.CreateMaterializedTable():
                return create(services, statement, identifier, context)
            case sql.ExplainCreate(statement=explained):
                text, warnings = explain_create(services, explained, identifier, context)
                return CommandOutcome(rows=_text_rows(text), warnings=warnings)
            case sql.DescribeTable() if table is None:
                return CommandOutcome(passthrough=True)
            case sql.DropTable():
                if table is None:
                    self._refuse_other_relation(identifier)
                return drop_with_readers(services, identifier, statement)
            case _ if table is not None:
                return self._on_table(statement, table, context)
            case _:
                self._refuse_other_relation(identifier)
                raise TableNotFound(
                    f"Materialized table {identifier} does not exist; SHOW MATERIALIZED TABLES IN "
                    f"{display_name(identifier.parts[:-1])} lists the existing ones.",
                    table=str(identifier),
                )

    def _on_table(
        self, statement: _Named, table: MaterializedTable, context: CommandContext
    ) -> CommandOutcome:
        """Execute a statement about an existing materialized table."""
        services, identifier, by = self._services, table.identifier, context.by
        match statement:
            case sql.SuspendTable():
                return suspend(services, identifier, by=by)
            case sql.ResumeTable(options=options):
                return resume(services, identifier, options, by=by, requested_by=context.caller or None)
            case sql.RefreshTable(partitions=partitions):
                run = self.requests.request_manual(
                    identifier, partitions, {}, requested_by=context.caller or None
                )
                return CommandOutcome(wait_for=run.run_id)
            case sql.SetFreshness(freshness=freshness):
                return set_freshness(services, identifier, freshness, context)
            case sql.SetSchedule():
                return set_schedule(services, identifier, statement)
            case sql.SetRefreshMode(mode=mode):
                return set_refresh_mode(services, identifier, mode)
            case sql.AlterOptions(options=options, removed=removed):
                return alter_options(services, identifier, options=options, removed=removed)
            case sql.AlterQuery(query=query):
                return alter_query(services, identifier, query, context)
            case _:
                return self._shown(statement, table, context)

    def _verify(self, table: MaterializedTable, percent: float, context: CommandContext) -> CommandOutcome:
        refuse_initializing(table)
        refuse_refresh(table, "VERIFY")
        verified = Verification(
            services=self._services,
            table=table,
            job_id=context.job_id,
            percent=percent,
            requested_by=context.caller or None,
        ).run()
        return CommandOutcome(rows=verified.differences, warnings=verified.warnings)

    def _shown(self, statement: _Named, table: MaterializedTable, context: CommandContext) -> CommandOutcome:
        match statement:
            case sql.VerifyTable(percent=percent):
                return self._verify(table, percent, context)
            case sql.DescribeTable(extended=extended):
                return CommandOutcome(rows=self._reports.describe(table.identifier, extended=extended))
            case sql.ShowRefreshes():
                return CommandOutcome(rows=self._reports.show_refreshes(statement, table.table_id))
            case sql.ShowLineage():
                return self._lineage(statement, table.identifier)
            case sql.ShowCreateTable(or_alter=or_alter):
                text = show_create(table, or_alter=or_alter)
            case sql.ExplainRefresh(partitions=partitions):
                text = str(plan_refresh(self._services, table.identifier, partitions))
            case _:
                raise MtError(f"{type(statement).__name__} shows nothing of a materialized table.")
        return CommandOutcome(rows=_text_rows(text))

    def _lineage(self, statement: sql.ShowLineage, table: TableIdentifier | None) -> CommandOutcome:
        overview = self._services.overview
        overview.catch_up()
        now = overview.now()
        return CommandOutcome(rows=lineage_rows(overview.facts(now), now, statement, table))

    def _refuse_other_relation(self, identifier: TableIdentifier) -> None:
        if self._services.engine.catalogs.relation_exists(identifier):
            raise NotMaterializedTable(
                f"{identifier} is not a materialized table, so it does not support this statement; "
                "use the statement for tables and views.",
                table=str(identifier),
            )


def _text_rows(text: str) -> RowSet:
    return RowSet(columns=(Column(name="result"),), rows=[[text]])


def in_statement(error: QueryFailed, statement: sql.TableStatement) -> QueryFailed:
    """Return *error* with its position counted from the start of *statement* instead of its query."""
    match statement:
        case sql.ExplainCreate(statement=create_statement):
            return in_statement(error, create_statement)
        case sql.CreateMaterializedTable() | sql.AlterQuery():
            first_line, first_column = statement.query_line, statement.query_column
        case _:
            return error
    if error.line is None or error.position is None:
        return error
    line = error.line + first_line - 1
    position = error.position + (first_column - 1 if error.line == 1 else 0)
    return error.reworded(error.message, line=line, position=position)
