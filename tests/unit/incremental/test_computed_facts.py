from __future__ import annotations

from mt_core.incremental.local_limits import MOST_ROWS
from mt_core.incremental.stages.computed_facts import facts_of_readings, rows_of
from mt_core.incremental.stages.look_ups import SourceFacts
from tests.support.blocks import FIRST_NUMBER, blocks_in
from tests.support.plan_json import Nodes, aggregate, column, equal, join, operator, relation

K, A, C, N = column(1, "k"), column(2, "a"), column(3, "c"), column(4, "n")
ORDERS, CUSTOMERS = relation(0, {1: "k", 2: "a"}), relation(1, {3: "c", 4: "n"})
FACTS = {
    0: SourceFacts(rows=1000, size=70, files=7, columns=9, values={"k": 100, "a": 3}),
    1: SourceFacts(rows=50, size=4, files=2, columns=3, values={"c": 50}),
}


def facts_of(tree: Nodes) -> SourceFacts:
    """Return the facts about the topmost computed reading of a tree."""
    blocks = blocks_in(tree)
    return facts_of_readings(blocks, FACTS)[max(blocks.computed)]


def test_a_join_has_the_rows_of_the_side_that_it_preserves() -> None:
    assert facts_of(join("LeftOuter", ORDERS, CUSTOMERS, equal(K, C))) == SourceFacts(
        rows=1000,
        size=74,
        files=9,
        columns=4,
        values={"c0": 100, "c1": 3, "c2": 50, "c3": 50},
        rows_below=1000,
    )
    assert facts_of(join("LeftSemi", CUSTOMERS, ORDERS, equal(K, C))).rows == 50
    assert facts_of(join("FullOuter", ORDERS, CUSTOMERS, equal(K, C))).rows == 1050


def test_there_are_no_more_groups_than_values_of_their_keys() -> None:
    assert facts_of(aggregate([A], [A], ORDERS)).rows == 3
    assert facts_of(aggregate([A, K], [A, K], ORDERS)).rows == 300
    assert facts_of(aggregate([C, N], [C, N], CUSTOMERS)).rows == 50


def test_a_union_has_the_rows_of_all_branches() -> None:
    assert facts_of(operator("Union", ORDERS, CUSTOMERS)) == SourceFacts(
        rows=1050, size=74, files=9, columns=1, rows_below=1000
    )


def test_a_computed_reading_has_the_bytes_of_all_tables_below_it() -> None:
    inner = join("Inner", ORDERS, aggregate([C], [C], CUSTOMERS), equal(K, C))
    blocks = blocks_in(join("LeftSemi", inner, relation(2, {5: "k"}), equal(K, column(5, "k"))))

    facts = facts_of_readings(blocks, {**FACTS, 2: SourceFacts(rows=9, size=600, files=1, columns=1)})

    assert (facts[FIRST_NUMBER].size, facts[FIRST_NUMBER + 1].size) == (4, 674)
    assert rows_of(blocks.computed[FIRST_NUMBER + 1].inputs[0], facts) == 1000


def test_few_groups_of_a_large_table_are_not_read_as_a_whole() -> None:
    large = SourceFacts(rows=MOST_ROWS + 1, size=70, files=7, columns=9, values={"a": 3})
    blocks = blocks_in(aggregate([A], [A], ORDERS))

    groups = facts_of_readings(blocks, {0: large})[FIRST_NUMBER]

    assert groups.rows == 3
    assert not groups.is_small
    assert facts_of(aggregate([A], [A], ORDERS)).is_small
