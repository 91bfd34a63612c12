from __future__ import annotations

import pytest

from mt_core.model.table import MaterializedTable
from mt_core.tables.pages import PAGE, every_table, on_each_page
from mt_core.tables.registry import Transaction
from mt_core.testing.fake_clock import FakeClock
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import NOON, a_table
from tests.support.registry_steps import insert_tables


def registry_of(count: int) -> tuple[MemoryRegistry, list[MaterializedTable]]:
    registry = MemoryRegistry(FakeClock(NOON))
    tables = [a_table(f"t{number:04}") for number in range(count)]
    insert_tables(registry, *reversed(tables))
    return registry, tables


@pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE])
def test_every_table_is_met_once_and_in_order_whatever_their_number(count: int) -> None:
    registry, tables = registry_of(count)

    found = every_table(registry)

    assert found == tables


def test_no_transaction_reads_more_than_a_page() -> None:
    registry, tables = registry_of(2 * PAGE + 3)

    sizes = on_each_page(registry, lambda _tx, page: [len(page)])

    assert sizes == [PAGE, PAGE, 3]
    assert sum(sizes) == len(tables)


def test_what_is_dropped_while_others_are_read_hides_none_of_them() -> None:
    registry, tables = registry_of(PAGE + 2)

    def drop_the_last_of_the_page(tx: Transaction, page: list[MaterializedTable]) -> list[MaterializedTable]:
        tx.tables.delete(page[-1].table_id)
        return page

    found = on_each_page(registry, drop_the_last_of_the_page)

    assert found == tables
