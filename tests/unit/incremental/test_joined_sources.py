from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.reading_scopes import ReadingScope
from mt_core.incremental.stages.join_blocks import JoinBlock, KeyClass, KeyColumn
from mt_core.incremental.stages.joined_sources import ChangedReadings, JoinedSources
from mt_core.incremental.stages.look_ups import SourceFacts
from mt_core.incremental.stages.stage_plan import Stage, StagePlan

# orders (o, c), customers (c, n, name, ...), nations (n, ...)
ORDERS, CUSTOMERS, NATIONS = 0, 1, 2
NAMES = ("orders", "customers", "nations")
FACTS = {
    ORDERS: SourceFacts(rows=10_000_000, size=1000, files=10, columns=10, values={"c": 1_000_000}),
    CUSTOMERS: SourceFacts(rows=1_000_000, size=500, files=10, columns=5, values={"n": 25}),
    NATIONS: SourceFacts(rows=25, size=40, files=1, columns=4),
}
SCOPES = {
    ORDERS: ReadingScope(columns=frozenset({"c", "amount"})),
    CUSTOMERS: ReadingScope(columns=frozenset({"c", "n"})),
    NATIONS: ReadingScope(columns=frozenset({"n", "name"})),
}


def key(*columns: tuple[int, str]) -> KeyClass:
    return KeyClass(
        columns=tuple(KeyColumn(reading=number, column=name, type="long") for number, name in columns),
        null_safe=False,
    )


BLOCK = JoinBlock(
    readings=frozenset(FACTS),
    terms=frozenset(FACTS),
    keys=(key((ORDERS, "c"), (CUSTOMERS, "c")), key((CUSTOMERS, "n"), (NATIONS, "n"))),
)
STAGE = Stage(
    name="s", places=("[0,[]]",), readings=frozenset(FACTS), keys=1, words="sum by n", blocks=(BLOCK,)
)


def rows(count: int | None, size: int | None = 1, kind: ChangeKind = ChangeKind.ROWS) -> SourceChange:
    return SourceChange(kind=kind, rows=count, size=size)


def joined(
    changes: Mapping[int, SourceChange],
    *,
    stage: Stage = STAGE,
    rest: frozenset[int] = frozenset(),
    facts: Mapping[int, SourceFacts] = FACTS,
) -> JoinedSources:
    readings = ChangedReadings(names=NAMES, changes=changes, facts=facts, scopes=SCOPES)
    return readings.joined_by(StagePlan(stages=(stage,), rest=rest))


def test_a_look_up_reads_its_key_column_and_pages_of_the_others() -> None:
    # 10 orders are in 10 of the 500 pages of a column, and nations is read whole.
    found = joined({CUSTOMERS: rows(1)})

    assert found.size == round(100 * (1 + 10 * 20_000 / 10_000_000) + 40 * 2 / 4)
    assert (found.looked_up, found.whole) == (("orders by c",), ("nations",))
    assert str(found) == "joins about 122 bytes: orders by c, all of nations"


def test_scattered_rows_are_in_all_pages() -> None:
    assert joined({CUSTOMERS: rows(1000)}).size == 100 * 2 + 20


def test_a_look_up_is_made_once_for_all_terms() -> None:
    found = joined({ORDERS: rows(1000), CUSTOMERS: rows(1000)})

    assert found.size == 100 * 2 + 100 * 2 + 20
    assert set(found.looked_up) == {"orders by c", "customers by c"}


def test_a_small_reading_that_changed_is_joined_by_look_ups() -> None:
    customers = replace(FACTS[CUSTOMERS], values={"n": 1_000_000})
    found = joined({NATIONS: rows(1)}, facts={**FACTS, CUSTOMERS: customers})

    assert found.looked_up == ("customers by n", "orders by c")


def test_a_look_up_that_finds_too_many_rows_makes_its_terms_read_whole_relations() -> None:
    found = joined({NATIONS: rows(10)})

    assert (found.looked_up, found.whole) == ((), ("orders", "customers"))
    assert found.size == 1000 + 500


def test_readings_without_a_key_are_read_whole() -> None:
    block = JoinBlock(readings=BLOCK.readings, terms=BLOCK.terms, keys=BLOCK.keys[1:])

    found = joined({NATIONS: rows(1), CUSTOMERS: rows(1)}, stage=replace(STAGE, blocks=(block,)))

    assert found.whole == ("orders",)


def test_a_term_without_a_block_reads_the_other_readings_whole() -> None:
    found = joined({ORDERS: rows(1), CUSTOMERS: rows(1)}, stage=replace(STAGE, blocks=()))

    assert found.size == (500 + 40) + (1000 + 40)


def test_the_rest_reads_its_readings_whole() -> None:
    assert joined({ORDERS: rows(1)}, rest=frozenset({CUSTOMERS})).whole == ("nations", "customers")
    assert joined({}, rest=frozenset({CUSTOMERS})) == JoinedSources(size=500, whole=("customers",))
    assert joined({}).is_empty


@pytest.mark.parametrize(
    "change",
    [
        rows(200_001),
        rows(100_001, kind=ChangeKind.APPENDS),
        rows(1, 2**25, kind=ChangeKind.APPENDS),
        rows(None, kind=ChangeKind.APPENDS),
    ],
)
def test_a_change_that_the_driver_does_not_hold_is_joined_with_whole_relations(change: SourceChange) -> None:
    assert joined({ORDERS: change}).size == 500 + 40
    assert joined({ORDERS: change, CUSTOMERS: rows(1)}).size == (500 + 40) + (1000 + 40)


def test_the_number_of_rows_of_rewritten_files_is_estimated_from_their_size() -> None:
    assert joined({ORDERS: rows(None, 1)}) == joined({ORDERS: rows(10_000, 1)})
    assert joined({ORDERS: rows(None, 900)}) == joined({ORDERS: rows(200_000, 1)})
    assert joined({ORDERS: rows(None, None)}) == joined({ORDERS: rows(200_000, 1)})
