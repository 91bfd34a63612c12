"""The results of SHOW and DESCRIBE for materialized tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from mt_core.base.identifiers import Namespace, display_name
from mt_core.base.rowset import RowSet
from mt_core.errors import FactUnreadable, MtError, RegistryError, TableNotFound
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.sql.statements import ShowMaterializedTables, ShowRefreshes
from mt_core.tables.intents import get_table
from mt_core.tables.pages import TableRow, UnreadableTable, on_each_listed
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices
from mt_core.tables.table_commands import CommandContext
from mt_core.tables.views.data_as_of import DataAsOfReader
from mt_core.tables.views.read_ahead import ReadAhead
from mt_core.tables.views.run_rows import batch_rows, run_rows
from mt_core.tables.views.run_view import newest_continuous_runs, newest_runs
from mt_core.tables.views.table_rows import column_rows, table_rows
from mt_core.tables.views.table_view import TableDetails, TableView
from mt_core.tables.workflows.observer import ObservedWorkflow, WorkflowObserver

LEDGER_LIMIT = 20
_WILDCARDS = {"%": ".*", "_": "."}


class Reports:
    """Reads registry, scheduler and storage, and adopts pauses and resumes made in the scheduler."""

    def __init__(self, services: TableServices) -> None:
        self._services = services
        self._observer = WorkflowObserver(services)

    def show_tables(self, statement: ShowMaterializedTables, context: CommandContext) -> RowSet:
        """Return the rows of SHOW MATERIALIZED TABLES."""
        place = self._place(statement.namespace, context)

        def listed(_tx: Transaction, tables: Iterable[TableRow]) -> list[TableRow]:
            return [table for table in tables if _is_listed(table.identifier, place, statement)]

        registry = self._services.registry
        now = in_transaction(registry, lambda tx: tx.now())
        tables = [table for table in on_each_listed(registry, listed) if isinstance(table, MaterializedTable)]
        observed, fresh_at = self._observer.observe(tables, now), dict(self._services.fresh_at)

        def views(tx: Transaction, tables: Iterable[TableRow]) -> list[TableView | UnreadableTable]:
            rows = listed(tx, tables)
            facts = ReadAhead.of(tx, [table for table in rows if isinstance(table, MaterializedTable)])
            reader = DataAsOfReader(facts=facts, fresh_at=fresh_at)
            return [_view(reader, table, observed) for table in rows]

        return table_rows(on_each_listed(registry, views), statement)

    def _place(self, parts: Sequence[str] | None, context: CommandContext) -> tuple[str, Namespace] | None:
        """Return the catalog and namespace that *parts* name, or None for all.

        Raises TableNotFound if they do not exist.
        """
        if not parts:
            return None
        catalog, *levels = parts if len(parts) > 1 else (context.catalog, *parts)
        namespace = tuple(levels)
        if not self._services.engine.catalogs.namespace_exists(catalog, namespace):
            raise TableNotFound(
                f"Namespace {display_name((catalog, *namespace))} does not exist; "
                f"SHOW DATABASES IN {catalog} lists the existing ones."
            )
        return catalog, namespace

    def show_refreshes(self, statement: ShowRefreshes, table_id: str | None = None) -> RowSet:
        """Return the rows of SHOW REFRESHES for one table, or for all tables if *table_id* is None.

        Without a LIMIT in the statement, the newest `LEDGER_LIMIT` runs are shown.
        """
        limit = LEDGER_LIMIT if statement.limit is None else statement.limit
        registry = self._services.registry
        if statement.batches:
            return batch_rows(newest_continuous_runs(registry, table_id=table_id, limit=limit), limit)
        runs = newest_runs(registry, table_id=table_id, status=statement.status, limit=limit)
        return run_rows(runs, extended=statement.extended)

    def describe(self, identifier: TableIdentifier, *, extended: bool) -> RowSet:
        """Return the rows of DESCRIBE [EXTENDED]."""
        if not extended:
            return column_rows(self._services.intents.current(identifier), None)
        now, seen = in_transaction(self._services.registry, lambda tx: (tx.now(), get_table(tx, identifier)))
        observed = self._observer.observe([seen], now)
        table = self._services.intents.current(identifier)
        return column_rows(table, TableDetails.read(self._services, table, observed.get(table.table_id)))


def _view(
    reader: DataAsOfReader, table: TableRow, observed: Mapping[str, ObservedWorkflow]
) -> TableView | UnreadableTable:
    """Return the view of a table; an error in one view must not hide the others."""
    if isinstance(table, UnreadableTable):
        return table
    try:
        # Unreadable runs are omitted here; SHOW REFRESHES lists them.
        with reader.facts.tx.past_unreadable():
            return TableView.read(reader, table, observed.get(table.table_id))
    except MtError as error:
        if isinstance(error, RegistryError) and not isinstance(error, FactUnreadable):
            raise
        return UnreadableTable(identifier=table.identifier, error=error)


def _is_listed(
    identifier: TableIdentifier, place: tuple[str, Namespace] | None, statement: ShowMaterializedTables
) -> bool:
    if place is not None and (identifier.catalog, identifier.namespace) != place:
        return False
    if statement.like is None:
        return True
    pattern = "".join(_WILDCARDS.get(letter, re.escape(letter)) for letter in statement.like)
    return bool(re.fullmatch(pattern, identifier.name, re.DOTALL)) is not statement.negated
