"""Changes of tables with a connector, which Spark's session catalog would forget when Spark ends: they are kept in the registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from mt_core.errors import EngineUnavailable, QueryFailed
from mt_core.identifiers import quote, sql_name
from mt_core.model.connector_table import ConnectorTable
from mt_core.sessions.ports import SessionContext, StatementEngine
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.parser import ReadStatement, parse_name
from mt_core.tables.connector_tables import ConnectorTables

_SESSION_CATALOG = "spark_catalog"
_NOT_THERE = "TABLE_OR_VIEW_NOT_FOUND"
_CHANGES = frozenset({"ALTER_TABLE", "DROP_TABLE", "DROP_DATABASE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTableChanges:
    """Keeps what statements do to such tables."""

    engine: StatementEngine
    tables: ConnectorTables

    @contextmanager
    def following(self, read: ReadStatement, context: SessionContext) -> Iterator[None]:
        """Keep what *read* did to the tables once the block, which runs it, has succeeded; raises RegistryError then."""
        fact = read.fact
        if isinstance(fact, CreateConnectorTable):
            is_kept = fact.connector not in (None, "iceberg") and not fact.is_temporary
            was_there = is_kept and fact.if_not_exists and self._is_there(fact.name, context)
            yield
            if is_kept and not was_there:
                self._keep(fact, context)
            return
        yield
        if read.type in _CHANGES:
            self._look_again(context)

    def _keep(self, fact: CreateConnectorTable, context: SessionContext) -> None:
        name = self._full_name(fact.name, context)
        columns = fact.column_list or self._columns(context, name)
        if name[0] == _SESSION_CATALOG and columns:
            self.tables.put(
                ConnectorTable(name=sql_name(name), columns=tuple(columns), clauses=fact.clauses, keys=fact.keys)
            )

    def _look_again(self, context: SessionContext) -> None:
        """Forget the tables that are gone, and take the columns of the others as they are."""
        for table in self.tables.all().values():
            try:
                columns = self._columns(context, parse_name(table.name))
            except QueryFailed as cause:
                if cause.error_class == _NOT_THERE:
                    self.tables.delete(table.name)
                continue
            if [*map(_name_of, columns)] != [*map(_name_of, table.columns)]:
                self.tables.put(replace(table, columns=tuple(columns)))

    def _is_there(self, name: Sequence[str], context: SessionContext) -> bool:
        try:
            self._columns(context, name)
        except (QueryFailed, EngineUnavailable):
            # While Spark starts, its session catalog has nothing else than what is kept.
            return sql_name(name) in self.tables.all()
        return True

    def _columns(self, context: SessionContext, name: Sequence[str]) -> Sequence[str]:
        """Return the columns of a table as CREATE TABLE lists them; raises QueryFailed if there is no such table."""
        columns = self.engine.query_columns(context, f"TABLE {sql_name(name)}")
        return [f"{quote(column.name)} {column.type}" for column in columns]

    def _full_name(self, name: Sequence[str], context: SessionContext) -> tuple[str, ...]:
        if len(name) > 1 and name[0] in self.engine.catalogs(context):
            return tuple(name)
        state = self.engine.session_state(context)
        return (state.catalog, *(state.namespace if len(name) == 1 else ()), *name)


def _name_of(column: str) -> str:
    return TokenCursor(column).identifier("a column").lower()
