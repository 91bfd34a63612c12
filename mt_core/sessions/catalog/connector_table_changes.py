"""Changes that Spark makes to connector tables in its in-memory catalog, recorded in the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mt_core.base.identifiers import display_name, sql_name
from mt_core.errors import EngineUnavailable, QueryFailed, RegistryError, SqlSyntaxError
from mt_core.model.connector_table import SPARK_CATALOG, ConnectorTable
from mt_core.sessions.catalog.connector_table_statements import (
    NOT_THERE,
    ConnectorTableStatements,
    is_registered,
)
from mt_core.sessions.ports import SessionContext
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.parser import ReadStatement

_CHANGES = frozenset({"ALTER_TABLE", "DROP_TABLE", "DROP_DATABASE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTableChanges:
    """Records changes of connector tables in the registry, so that they survive a restart of Spark."""

    statements: ConnectorTableStatements

    def recorder(self, read: ReadStatement, context: SessionContext) -> Callable[[], None]:
        """Return a callback that records the changes of *read*. Call it after *read* has succeeded.

        The callback raises RegistryError.
        """
        fact = read.fact
        if isinstance(fact, CreateConnectorTable) and is_registered(fact):
            was_there = fact.if_not_exists and self._is_there(fact, context)
            return _nothing if was_there else lambda: self._store(fact, context)
        if read.type not in _CHANGES:
            return _nothing
        dropped = _dropped_database(read) if read.type == "DROP_DATABASE" else None
        full = None if dropped is None else self.statements.full_database(dropped, context)
        return lambda: self._update(full, context)

    def _store(self, fact: CreateConnectorTable, context: SessionContext) -> None:
        name = self.statements.full_name(fact.name, context)
        if name[0] != SPARK_CATALOG:
            return
        table = ConnectorTable(
            name=sql_name(name),
            columns=self.statements.columns(context, sql_name(name)),
            clauses=fact.clauses,
            keys=fact.all_keys,
            connector=fact.connector or "",
            options=fact.options,
            comment=fact.comment,
            partition_keys=fact.partition_keys,
        )
        try:
            self.statements.tables.put(table)
        except RegistryError as cause:
            raise RegistryError(
                f"Table {display_name(name)} was created, but the registry could not store it: "
                f"{cause} It will be lost when Spark restarts; DROP TABLE it, and create it again."
            ) from cause

    def _update(self, dropped: Sequence[str] | None, context: SessionContext) -> None:
        """Delete dropped tables, including those of a *dropped* database, and update the other tables."""
        tables = self.statements.tables
        for table in tables.all().values():
            if (
                dropped is not None
                and table.parts[0] != SPARK_CATALOG
                and table.parts[: len(dropped)] == dropped
            ):
                self.statements.forget(table, context)
                continue
            if table.parts[0] != SPARK_CATALOG or table.query or table.spark_name:
                continue
            try:
                columns = self.statements.columns(context, table.name)
            except QueryFailed as cause:
                if cause.error_class == NOT_THERE:
                    tables.delete(table.name)
                continue
            if [*map(_name_of, columns)] != [*map(_name_of, table.columns)]:
                tables.put(replace(table, columns=columns))

    def _is_there(self, fact: CreateConnectorTable, context: SessionContext) -> bool:
        name = self.statements.full_name(fact.name, context)
        try:
            self.statements.columns(context, sql_name(name))
        except (QueryFailed, EngineUnavailable):
            # Until Spark has started, its session catalog contains exactly the registered tables.
            return self.statements.tables.find(name) is not None
        return True


def _dropped_database(read: ReadStatement) -> tuple[str, ...] | None:
    """Return the name after DROP DATABASE, or None if it is not a valid name."""
    with suppress(SqlSyntaxError):
        cursor = TokenCursor(read.text)
        cursor.take(), cursor.take()
        cursor.accept("IF", "EXISTS")
        return cursor.name("the name of a database")
    return None


def _nothing() -> None:
    """Do nothing, because the statement changes no connector table."""


def _name_of(column: str) -> str:
    return TokenCursor(column).identifier("a column").lower()
