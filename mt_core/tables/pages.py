"""Pages of tables: all of them, but only some in one transaction, because each transaction keeps
all others waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mt_core.errors import FactUnreadable, MtError
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.registry import Registry, Transaction, each_row, in_transaction

# A page takes some ten milliseconds, also with two more statements for each of its tables.
PAGE = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableTable:
    """A table of which what is stored cannot be read, and why."""

    identifier: TableIdentifier
    error: MtError

    @classmethod
    def of(cls, error: FactUnreadable) -> UnreadableTable:
        return cls(identifier=TableIdentifier.from_json(error.columns), error=error)


TableRow = MaterializedTable | UnreadableTable


def on_each_page(
    registry: Registry, work: Callable[[Transaction, list[MaterializedTable]], Iterable[T]]
) -> list[T]:
    """Return all that *work* gives for the pages, each in the transaction that read it,
    ordered by identifier.

    A table that is created, changed or dropped meanwhile is read as it is when its page is read,
    and never twice.
    """

    def readable(tx: Transaction, tables: Iterable[TableRow]) -> Iterable[T]:
        if unreadable := [table for table in tables if isinstance(table, UnreadableTable)]:
            raise unreadable[0].error
        return work(tx, [table for table in tables if isinstance(table, MaterializedTable)])

    return on_each_listed(registry, readable)


def on_each_listed(registry: Registry, work: Callable[[Transaction, list[TableRow]], Iterable[T]]) -> list[T]:
    """Return what `on_each_page` does; *work* gets the tables that cannot be read too,
    in the places of their names.
    """
    results: list[T] = []
    after: TableIdentifier | None = None
    while True:
        after, given = in_transaction(registry, partial(_page, after=after, work=work))
        results += given
        if after is None:
            return results


def every_table(registry: Registry) -> list[MaterializedTable]:
    """Return all tables, ordered by identifier."""
    return on_each_page(registry, lambda _tx, tables: tables)


def _page(
    tx: Transaction,
    *,
    after: TableIdentifier | None,
    work: Callable[[Transaction, list[TableRow]], Iterable[T]],
) -> tuple[TableIdentifier | None, list[T]]:
    """Return the last table behind *after* that the page has, None at the end,
    and what *work* gives for the page.
    """
    rows = each_row(tx, lambda: tx.tables.page(after=after, limit=PAGE))
    tables = [UnreadableTable.of(row) if isinstance(row, FactUnreadable) else row for row in rows]
    return (tables[-1].identifier if len(tables) == PAGE else None), list(work(tx, tables))
