from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.reading_scopes import ReadingScope
from mt_core.incremental.stages.join_blocks import KeyClass, KeyColumn
from mt_core.incremental.stages.joined_sources import ChangedReadings, JoinedSources
from mt_core.incremental.stages.look_ups import SourceFacts
from mt_core.incremental.stages.stage_plan import Stage, StagePlan
from tests.support.blocks import block_over, blocks_in
from tests.support.plan_json import Nodes, aggregate, alias, call, column, equal, join, operator

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


KEYS = key((ORDERS, "c"), (CUSTOMERS, "c")), key((CUSTOMERS, "n"), (NATIONS, "n"))


def stage_of(*keys: KeyClass) -> Stage:
    """Return a state over a join of all readings by *keys*."""
    blocks = block_over(*FACTS, keys=keys)
    return Stage(
        name="s", places=("[0,[]]",), readings=frozenset(FACTS), keys=1, words="sum by n", blocks=blocks
    )


STAGE = stage_of(*KEYS)


def relation_of(reading: int, *columns: tuple[int, str]) -> Nodes:
    output = [column(number, name, "long") for number, name in columns]
    return operator("DataSourceV2Relation", output=output, reading=reading)


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
    found = joined({NATIONS: rows(1), CUSTOMERS: rows(1)}, stage=stage_of(KEYS[1]))

    assert found.whole == ("orders",)


def over(tree: Nodes) -> Stage:
    """Return a state over a tree."""
    blocks = blocks_in(tree)
    return replace(STAGE, readings=blocks.tables(), blocks=blocks)


BUYER, CUSTOMER = column(1, "c", "long"), column(3, "c", "long")
ORDERS_TREE = relation_of(ORDERS, (1, "c"), (2, "amount"))
CUSTOMERS_TREE = relation_of(CUSTOMERS, (3, "c"), (4, "n"))


def test_a_computed_reading_looks_up_rows_by_its_changed_keys() -> None:
    stage = over(join("LeftOuter", CUSTOMERS_TREE, ORDERS_TREE, equal(CUSTOMER, BUYER)))

    assert joined({ORDERS: rows(100)}, stage=stage).looked_up == ("customers by c", "orders by c")
    assert joined({CUSTOMERS: rows(100)}, stage=stage).looked_up == ("orders by c",)


def test_an_operator_that_needs_too_many_rows_counts_as_a_recomputation() -> None:
    groups = aggregate([CUSTOMER], [CUSTOMER, alias(7, call("Max", column(4)))], CUSTOMERS_TREE)
    by_nation = aggregate([column(4, "n", "long")], [column(4, "n", "long")], CUSTOMERS_TREE)

    assert joined({CUSTOMERS: rows(100)}, stage=over(groups)).looked_up == ("customers by c",)
    # All customers of some of 25 nations.
    assert joined({CUSTOMERS: rows(100)}, stage=over(by_nation)) == JoinedSources(
        size=500, whole=("customers",)
    )


def test_a_join_without_equal_columns_compares_all_rows() -> None:
    small = {**FACTS, ORDERS: SourceFacts(rows=50_000, size=90, files=1, columns=10)}
    stage = over(join("LeftAnti", ORDERS_TREE, relation_of(NATIONS, (5, "n"))))

    assert joined({NATIONS: rows(1)}, stage=stage, facts=small).size == 90 * 2 / 10 + 40
    many = {**small, NATIONS: replace(FACTS[NATIONS], rows=2000)}
    assert joined({NATIONS: rows(1)}, stage=stage, facts=many).size == 90 + 40
    assert joined({ORDERS: rows(1000)}, stage=stage, facts=many).size == 20


def test_a_job_joins_rows_of_a_preserved_side_that_the_driver_cannot_compare() -> None:
    stage = over(join("LeftOuter", ORDERS_TREE, CUSTOMERS_TREE))

    # All customers for each order: more pairs than the driver compares, and their table is large.
    assert joined({ORDERS: rows(100)}, stage=stage) == JoinedSources(size=500, whole=("customers",))
    assert joined({CUSTOMERS: rows(100)}, stage=stage).whole == ("orders", "customers")


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
