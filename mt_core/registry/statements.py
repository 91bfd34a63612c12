"""Statements of one transaction, with the database's failures as errors of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Executable, Table, func, select
from sqlalchemy.dialects import postgresql, sqlite

from mt_core.clock import Clock
from mt_core.registry.failures import translated
from mt_core.registry.rows import fact_of
from mt_core.registry.schema import CATALOGS, CONNECTOR_TABLES, FUNCTIONS, GATEWAYS, JOBS, RUNS, TABLES, TOMBSTONES

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """What every facet of a transaction executes on registry *name*; *clock* None means the database's own."""

    connection: Connection
    name: str
    clock: Clock | None

    def now(self) -> datetime:
        if self.clock is not None:
            return self.clock.now()
        if self.connection.dialect.name == "sqlite":
            return datetime.fromisoformat(self.execute(_SQLITE_NOW).scalar_one())
        now: datetime = self.execute(select(func.clock_timestamp())).scalar_one()
        return now.astimezone(UTC)

    def execute(self, statement: Executable, values: Mapping[str, Any] | None = None) -> CursorResult[Any]:
        with translated(self.name):
            return self.connection.execute(statement, values)

    def insert(self, into: Table, row: dict[str, Any]) -> bool:
        """Add *row* and return True; when a unique index refuses it, return False, and the transaction continues."""
        return self.execute(_INSERTS[self.connection.dialect.name, into], row).rowcount > 0

    def facts(self, kind: type[F], statement: Executable, values: Mapping[str, Any] | None = None) -> list[F]:
        """Return the facts in the rows that *statement* selects."""
        return [fact_of(kind, row) for row in self.execute(statement, values).mappings()]

    def fact(self, kind: type[F], statement: Executable, values: Mapping[str, Any] | None = None) -> F | None:
        """Return the fact in the only row that *statement* selects, or None when it selects no row."""
        row = self.execute(statement, values).mappings().one_or_none()
        return None if row is None else fact_of(kind, row)


_SQLITE_NOW = select(func.strftime("%Y-%m-%dT%H:%M:%fZ", "now"))
_INSERTS = {
    (dialect, table): insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    for dialect, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
    for table in (TABLES, RUNS, JOBS, TOMBSTONES, CATALOGS, CONNECTOR_TABLES, FUNCTIONS, GATEWAYS)
}
