"""Pages of tables: all of them, but only some in one transaction, because each transaction keeps all others waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.registry import Registry, Transaction, in_transaction

# A page takes some ten milliseconds, also with two more statements for each of its tables.
PAGE = 100
T = TypeVar("T")


def on_each_page(registry: Registry, work: Callable[[Transaction, list[MaterializedTable]], Iterable[T]]) -> list[T]:
    """Return all that *work* gives for the pages, each in the transaction that read it, ordered by identifier.

    A table that is created, changed or dropped meanwhile is read as it is when its page is read, and never twice.
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
    work: Callable[[Transaction, list[MaterializedTable]], Iterable[T]],
) -> tuple[TableIdentifier | None, list[T]]:
    """Return the last table behind *after* that the page has, None at the end, and what *work* gives for the page."""
    tables = list(tx.tables.page(after=after, limit=PAGE))
    return (tables[-1].identifier if len(tables) == PAGE else None), list(work(tx, tables))
