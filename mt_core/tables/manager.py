"""The manager: every statement about materialized tables, and the work it does."""

from __future__ import annotations

import logging

from mt_core.errors import MtError, NotMaterializedTable, QueryFailed, TableNotFound
from mt_core.identifiers import display_name
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.rowset import Column, RowSet
from mt_core.sql import statements as sql
from mt_core.tables.commands.alter import alter_query, create_or_alter, set_freshness
from mt_core.tables.commands.create import create
from mt_core.tables.commands.drop import drop_with_readers
from mt_core.tables.commands.lifecycle import resume, suspend
from mt_core.tables.definition.positions import in_statement
from mt_core.tables.definition.show_create import show_create
from mt_core.tables.refresh.requests import RefreshRequests
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices
from mt_core.tables.table_commands import CommandContext, CommandOutcome
from mt_core.tables.views.refresh_reports import RefreshReports
from mt_core.tables.views.reports import Reports

log = logging.getLogger(__name__)
_CHANGES = (
    sql.CreateMaterializedTable,
    sql.DropTable,
    sql.SuspendTable,
    sql.ResumeTable,
    sql.RefreshTable,
    sql.SetFreshness,
    sql.AlterQuery,
)


class TableManager:
    """Implements `TableCommands`. Thread-safe: each command is serialised per table by its intent."""

    def __init__(self, services: TableServices) -> None:
        self._services = services
        self.requests = RefreshRequests(services)
        self.reports = Reports(services)
        self.refreshes = RefreshReports(services)

    def execute(self, statement: sql.Statement, context: CommandContext) -> CommandOutcome:
        try:
            outcome = self._execute(statement, context)
        except QueryFailed as cause:
            raise in_statement(cause, statement) from cause
        if isinstance(statement, _CHANGES):
            table = str(_identifier(statement.name, context))
            facts = {"action": "table_changed", "by": context.by, "statement": type(statement).__name__, "table": table}
            log.info("%s of %s", facts["statement"], table, extra=facts)
        return outcome

    def _execute(self, statement: sql.Statement, context: CommandContext) -> CommandOutcome:
        match statement:
            case sql.CreateMaterializedTable():
                return self._create(statement, context)
            case sql.ShowMaterializedTables():
                return CommandOutcome(rows=self.reports.show_tables(statement, context))
            case sql.ShowRefreshes(name=name, status=status, limit=limit):
                identifier = self._known(name, context) if name else None
                return CommandOutcome(rows=self.refreshes.show(identifier, status, limit))
            case sql.DescribeTable(name=name, extended=extended):
                return self._describe(_identifier(name, context), extended=extended)
            case sql.DropTable(name=name):
                return self._drop(_identifier(name, context), statement)
            case _:
                return self._on_table(statement, context)

    def _on_table(self, statement: sql.Statement, context: CommandContext) -> CommandOutcome:
        """Statements about one materialized table that must exist."""
        match statement:
            case sql.SuspendTable(name=name):
                return suspend(self._services, self._known(name, context), by=context.by)
            case sql.ResumeTable(name=name, options=options):
                identifier = self._known(name, context)
                return resume(self._services, identifier, options, by=context.by, requested_by=context.requested_by)
            case sql.RefreshTable(name=name, partitions=partitions):
                run = self.requests.request_manual(
                    self._known(name, context), partitions, {}, requested_by=context.requested_by
                )
                return CommandOutcome(wait_for=run.run_id)
            case sql.SetFreshness(name=name, freshness=freshness):
                return set_freshness(self._services, self._known(name, context), freshness, context)
            case sql.AlterQuery(name=name, query=query):
                return alter_query(self._services, self._known(name, context), query, context)
            case sql.ShowCreateTable(name=name, or_alter=or_alter):
                table = self._services.intents.current(self._known(name, context))
                return CommandOutcome(rows=_text(show_create(table, or_alter=or_alter)))
            case sql.ExplainRefresh(name=name, partitions=partitions):
                return CommandOutcome(rows=self.refreshes.explain(self._known(name, context), partitions))
            case _:
                raise MtError(f"{type(statement).__name__} is not a statement about materialized tables.")

    def _create(self, statement: sql.CreateMaterializedTable, context: CommandContext) -> CommandOutcome:
        identifier = _identifier(statement.name, context)
        existing = self._find(identifier) if statement.or_alter else None
        if existing is not None:
            return create_or_alter(self._services, statement, existing, context)
        return create(self._services, statement, identifier, context)

    def _describe(self, identifier: TableIdentifier, *, extended: bool) -> CommandOutcome:
        if self._find(identifier) is None:
            return CommandOutcome(passthrough=True)
        return CommandOutcome(rows=self.reports.describe(identifier, extended=extended))

    def _drop(self, identifier: TableIdentifier, statement: sql.DropTable) -> CommandOutcome:
        if self._find(identifier) is None and self._services.engine.relation_exists(identifier):
            raise _not_ours(identifier)
        return drop_with_readers(self._services, identifier, statement)

    def _find(self, identifier: TableIdentifier) -> MaterializedTable | None:
        return in_transaction(self._services.registry, lambda tx: tx.tables.named(identifier))

    def _known(self, name: tuple[str, ...], context: CommandContext) -> TableIdentifier:
        """Return the identifier of a materialized table; raises TableNotFound, or NotMaterializedTable for another relation."""
        identifier = _identifier(name, context)
        if self._find(identifier) is not None:
            return identifier
        if self._services.engine.relation_exists(identifier):
            raise _not_ours(identifier)
        raise TableNotFound(
            f"Materialized table {identifier} does not exist; SHOW MATERIALIZED TABLES IN "
            f"{display_name(identifier.parts[:-1])} lists those there are.",
            table=str(identifier),
        )


def _identifier(name: tuple[str, ...], context: CommandContext) -> TableIdentifier:
    return sql.qualify(name, context.catalog, context.namespace)


def _not_ours(identifier: TableIdentifier) -> NotMaterializedTable:
    return NotMaterializedTable(
        f"{identifier} is not a materialized table, so it does not support this statement; use the statement for tables "
        "and views.",
        table=str(identifier),
    )


def _text(text: str) -> RowSet:
    return RowSet(columns=(Column(name="result"),), rows=[[text]])
