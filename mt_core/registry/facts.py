"""Kinds of facts that a transaction only lists, puts and deletes, such as tombstones, catalogs and leases of gateways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import Table, delete, select

from mt_core.registry.rows import row_of
from mt_core.registry.statements import Statements

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFacts(Generic[F]):
    """A `StoredFacts` in *table*, whose primary key is the fact's, ordered by *order* and then by the key."""

    statements: Statements
    kind: type[F]
    table: Table
    order: str | None = None

    def all(self) -> Sequence[F]:
        (key,) = self.table.primary_key
        order = [key] if self.order is None else [self.table.c[self.order], key]
        return self.statements.facts(self.kind, select(self.table).order_by(*order))

    def put(self, fact: F) -> None:
        (key,) = self.table.primary_key
        row = row_of(fact)
        self.delete(row[key.name])
        self.statements.insert(self.table, row)

    def delete(self, key: str) -> None:
        (column,) = self.table.primary_key
        self.statements.execute(delete(self.table).where(column == key))
