"""Statements of one transaction, with the database's failures as errors of ours."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable, Table, func, select
from sqlalchemy.dialects import postgresql, sqlite

from mt_core.clock import Clock
from mt_core.registry.failures import translated
from mt_core.registry.rows import instant_of
from mt_core.registry.schema import CATALOGS, GATEWAYS, RUNS, TABLES, TOMBSTONES


class Statements:
    """What every facet of a transaction executes; *clock* None means the database's own."""

    def __init__(self, connection: Connection, *, name: str, clock: Clock | None) -> None:
        self._connection = connection
        self._name = name
        self._clock = clock

    def now(self) -> datetime:
        if self._clock is not None:
            return self._clock.now()
        if self._connection.dialect.name == "sqlite":
            return instant_of(self.execute(_SQLITE_NOW).scalar_one())
        now: datetime = self.execute(select(func.clock_timestamp())).scalar_one()
        return now.astimezone(UTC)

    def execute(self, statement: Executable, values: Mapping[str, Any] | None = None) -> CursorResult[Any]:
        with translated(self._name):
            return self._connection.execute(statement, values)

    def insert(self, into: Table, row: dict[str, Any]) -> bool:
        """Add *row* and return True; when a unique index refuses it, return False, and the transaction continues."""
        return self.execute(_INSERTS[self._connection.dialect.name, into], row).rowcount > 0


_SQLITE_NOW = select(func.strftime("%Y-%m-%dT%H:%M:%fZ", "now"))
_INSERTS = {
    (dialect, table): insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    for dialect, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
    for table in (TABLES, RUNS, TOMBSTONES, CATALOGS, GATEWAYS)
}
