"""The statements of one transaction, with database errors translated to Freshtable's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Executable, Table, func, select
from sqlalchemy.dialects import postgresql, sqlite

from mt_core.clock import Clock
from mt_core.errors import FactUnreadable
from mt_core.registry.failures import translated
from mt_core.registry.rows import fact_of
from mt_core.registry.schema import (
    CATALOGS,
    CONNECTOR_TABLES,
    FUNCTIONS,
    GATEWAYS,
    JOBS,
    NEXT_CHANGE,
    RUNS,
    TABLES,
    TOMBSTONES,
)
from mt_core.tables.registry import Change

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Executes the statements of one transaction on the registry *name*.

    If *clock* is None, the database's clock is used.
    """

    connection: Connection
    name: str
    clock: Clock | None
    # Lists that collect the errors of unreadable rows, one per block, innermost last; if there is none, the
    # errors are raised.
    unreadable: list[list[FactUnreadable]] = field(default_factory=list)
    # What the transaction has written, in order.
    changes: list[Change] = field(default_factory=list)

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
        """Insert *row* and return True, or return False if a unique index prevents it.

        The transaction remains usable in both cases.
        """
        return self.execute(_INSERTS[self.connection.dialect.name, into], row).rowcount > 0

    def facts(self, kind: type[F], statement: Executable, values: Mapping[str, Any] | None = None) -> list[F]:
        """Return the facts in the rows that *statement* selects."""
        facts = []
        for position, row in enumerate(self.execute(statement, values).mappings()):
            try:
                facts.append(fact_of(kind, row))
            except FactUnreadable as error:
                if not self.unreadable:
                    raise
                error.position = position
                self.unreadable[-1].append(error)
        return facts

    @contextmanager
    def past_unreadable(self) -> Iterator[list[FactUnreadable]]:
        """Skip unreadable rows in the block and collect their errors in the list that the block receives."""
        self.unreadable.append([])
        try:
            yield self.unreadable[-1]
        finally:
            self.unreadable.pop()

    def fact(self, kind: type[F], statement: Executable, values: Mapping[str, Any] | None = None) -> F | None:
        """Return the fact in the only row that *statement* selects, or None if it selects none."""
        facts = self.facts(kind, statement, values)
        return facts[0] if facts else None


_SQLITE_NOW = select(func.strftime("%Y-%m-%dT%H:%M:%fZ", "now"))


def _inserting(insert: Callable[..., Any], table: Table) -> Executable:
    statement = insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    inserting: Executable = statement.values(changed=NEXT_CHANGE) if "changed" in table.c else statement
    return inserting


_INSERTS = {
    (dialect, table): _inserting(insert, table)
    for dialect, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
    for table in (TABLES, RUNS, JOBS, TOMBSTONES, CATALOGS, CONNECTOR_TABLES, FUNCTIONS, GATEWAYS)
}
