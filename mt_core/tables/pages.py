"""Pages of tables, to visit all tables without one long transaction, which would block all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mt_core.errors import FactUnreadable, MtError
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.registry import Registry, Transaction, each_row, in_transaction

# A page takes about ten milliseconds, even with two further statements for each table.
PAGE = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableTable:
    """A table whose stored row cannot be read, and the reason."""

    identifier: TableIdentifier
    error: MtError

    @classmethod
    def of(cls, error: FactUnreadable) -> UnreadableTable:
        return cls(identifier=TableIdentifier.from_json(error.columns), error=error)


TableRow = MaterializedTable | UnreadableTable


def on_each_page(
    registry: Registry, work: Callable[[Transaction, list[MaterializedTable]], Iterable[T]]
) -> list[T]:
    """Call *work* with each page of tables, in the transaction that read the page; return all results.

    Tables are sorted by identifier. A table that is created, altered or dropped during the call is seen as of
    the transaction of its page, and never twice.
    """

    def readable(tx: Transaction, tables: Iterable[TableRow]) -> Iterable[T]:
        if unreadable := [table for table in tables if isinstance(table, UnreadableTable)]:
            raise unreadable[0].error
        return work(tx, [table for table in tables if isinstance(table, MaterializedTable)])

    return on_each_listed(registry, readable)


def on_each_listed(registry: Registry, work: Callable[[Transaction, list[TableRow]], Iterable[T]]) -> list[T]:
    """Do the same as `on_each_page`, but also pass unreadable tables to *work*, sorted by identifier."""
    results: list[T] = []
    after: TableIdentifier | None = None
    while True:
        after, page_results = in_transaction(registry, partial(_page, after=after, work=work))
        results += page_results
        if after is None:
            return results


def every_table(registry: Registry) -> list[MaterializedTable]:
    """Return all tables, sorted by identifier."""
    return on_each_page(registry, lambda _tx, tables: tables)


def _page(
    tx: Transaction,
    *,
    after: TableIdentifier | None,
    work: Callable[[Transaction, list[TableRow]], Iterable[T]],
) -> tuple[TableIdentifier | None, list[T]]:
    """Return the last table of the page after *after*, or None at the end, and the results of *work*."""
    rows = each_row(tx, lambda: tx.tables.page(after=after, limit=PAGE))
    tables = [UnreadableTable.of(row) if isinstance(row, FactUnreadable) else row for row in rows]
    return (tables[-1].identifier if len(tables) == PAGE else None), list(work(tx, tables))
