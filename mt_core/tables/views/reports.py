"""The results of SHOW and DESCRIBE for materialized tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mt_core.base.identifiers import Namespace, display_name
from mt_core.base.rowset import RowSet
from mt_core.errors import TableNotFound
from mt_core.model.table import TableIdentifier
from mt_core.sql.statements import ShowMaterializedTables, ShowRefreshes
from mt_core.tables.intents import get_table
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.lateness import State
from mt_core.tables.pages import UnreadableTable
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices
from mt_core.tables.table_commands import CommandContext
from mt_core.tables.views.run_rows import batch_rows, run_rows
from mt_core.tables.views.run_view import newest_continuous_runs, newest_runs
from mt_core.tables.views.table_details import TableDetails
from mt_core.tables.views.table_rows import ListedTable, column_rows, table_rows
from mt_core.tables.workflows.observer import WorkflowObserver

LEDGER_LIMIT = 20
_WILDCARDS = {"%": ".*", "_": "."}


class Reports:
    """Reads registry, scheduler and storage, and adopts pauses and resumes made in the scheduler."""

    def __init__(self, services: TableServices) -> None:
        self._services = services
        self._observer = WorkflowObserver(services)

    def show_tables(self, statement: ShowMaterializedTables, context: CommandContext) -> RowSet:
        """Return the rows of SHOW MATERIALIZED TABLES.

        The first one after the start of the gateway waits until the overview has been built.
        """
        place, overview = self._place(statement.namespace, context), self._services.overview

        overview.catch_up()
        rows = [row for row in overview.rows() if _is_listed(row.identifier, place, statement)]
        observed = self._observer.observe(rows, overview.now())
        # The scheduler may have reported a pause or resume, which the table has adopted.
        overview.catch_up()
        now = overview.now()
        tables = [table for table in overview.facts(now) if _is_listed(table.identifier, place, statement)]
        return table_rows(
            (
                ListedTable(facts=table, now=now, workflow=observed.get(table.table_id))
                if isinstance(table, TableFacts)
                else table
                for table in tables
                if not statement.late or _is_late(table)
            ),
            statement,
        )

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


def _is_late(table: TableFacts | UnreadableTable) -> bool:
    return isinstance(table, TableFacts) and table.state is State.LATE


def _is_listed(
    identifier: TableIdentifier, place: tuple[str, Namespace] | None, statement: ShowMaterializedTables
) -> bool:
    if place is not None and (identifier.catalog, identifier.namespace) != place:
        return False
    if statement.like is None:
        return True
    pattern = "".join(_WILDCARDS.get(letter, re.escape(letter)) for letter in statement.like)
    return bool(re.fullmatch(pattern, identifier.name, re.DOTALL)) is not statement.negated
