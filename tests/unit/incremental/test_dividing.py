"""The columns that divide random trees of operators, and the sources of their values, over rows in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from mt_core.incremental.stages import dividing as module
from mt_core.incremental.stages.blocks import Block, Blocks, ComputedReading, Kind
from mt_core.incremental.stages.dividing import dividing, key_source, lineage
from mt_core.incremental.stages.join_blocks import KeyColumn
from mt_core.incremental.stages.key_source import Division, KeySource
from tests.depth import rounds
from tests.support.blocks import blocks_in
from tests.support.plan_json import (
    Nodes,
    aggregate,
    alias,
    column,
    equal,
    join,
    literal,
    node,
    operator,
    project,
    where,
)
from tests.support.random_operators import Bag, Operator, RandomTree, Row, difference, evaluated

SEEDS = range(rounds(300, 100))
RELATIONS = ["o", "c"]

K, A, C, N, RANK = (column(number, "x", "long") for number in (1, 2, 3, 4, 8))


def table(number: int, **names: int) -> Nodes:
    """Return a reading with columns, given with their ids."""
    output = [column(each, name, "long") for name, each in names.items()]
    return operator("DataSourceV2Relation", output=output, reading=number)


ORDERS, CUSTOMERS = table(0, k=1, a=2), table(1, c=3, n=4)


def numbered(keys: Sequence[Nodes], child: Nodes) -> Nodes:
    """Return a window whose values are not reproducible."""
    value = alias(8, node("WindowExpression", node("RowNumber"), node("WindowSpecDefinition")))
    return operator("Window", child, windowExpressions=[value], partitionSpec=list(keys), orderSpec=[])


def groups(keys: Sequence[Nodes], child: Nodes) -> Nodes:
    return aggregate(keys, keys, child)


def places(source: KeySource | str) -> dict[str, tuple[int, ...]]:
    """Return the positions of keys in blocks, by place."""
    assert isinstance(source, KeySource), source
    return {block.place: positions for block, positions in source.blocks}


def tables(source: KeySource | str) -> dict[int, tuple[str, ...]]:
    """Return the columns of tables that have the keys. There are no others."""
    assert isinstance(source, KeySource), source
    assert not source.blocks
    return dict(source.tables)


def test_a_column_divides_all_readings_that_a_join_equates_with_it() -> None:
    joined = blocks_in(join("Inner", ORDERS, CUSTOMERS, equal(K, C)))

    assert [dict(lineage(joined, each)) for each in range(4)] == [
        {0: "k", 1: "c"}, {0: "a"}, {0: "k", 1: "c"}, {1: "n"},
    ]  # fmt: skip
    assert tables(key_source(joined, [0], {0, 1}, RELATIONS)) == {0: ("k",), 1: ("c",)}
    assert tables(key_source(joined, [1, 2], {0}, RELATIONS)) == {0: ("a", "k")}


def divided(blocks: Blocks, changed: set[int], usable: tuple[int, ...]) -> tuple[tuple[int, ...], KeySource]:
    """Return the columns that divide a query, and where their values are."""
    found = dividing(blocks, changed, usable, RELATIONS)
    assert isinstance(found, Division), found
    assert found.lineages == tuple(lineage(blocks, position) for position in found.positions)
    return found.positions, found.source


@pytest.mark.parametrize("kind", ["LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin"])
def test_the_equal_columns_of_a_preserved_side_divide_both_sides(kind: str) -> None:
    blocks = blocks_in(join(kind, ORDERS, CUSTOMERS, equal(K, C), exists=9))

    assert [dict(lineage(blocks, each)) for each in (0, 1)] == [{0: "k", 1: "c"}, {0: "a"}]
    assert tables(key_source(blocks, [0, 1], {0}, RELATIONS)) == {0: ("k", "a")}
    assert divided(blocks, {1}, (0, 1)) == ((0,), KeySource(tables={1: ("c",)}))


@pytest.mark.parametrize("kind", ["RightOuter", "FullOuter"])
def test_null_may_stand_for_a_missing_partner(kind: str) -> None:
    tree = numbered([A], join(kind, ORDERS, CUSTOMERS, equal(K, C)))

    assert lineage(blocks_in(tree), 0) == {}
    assert dividing(blocks_in(tree), {0}, (0, 2, 3), RELATIONS) == "a window by x"
    assert places(key_source(blocks_in(tree), [1], {0}, RELATIONS)) == {"[0,[0]]": (1,)}


def test_the_keys_of_groups_and_windows_divide_them() -> None:
    window = blocks_in(where(equal(RANK, literal(1)), numbered([K], ORDERS)))
    nested = blocks_in(groups([K], numbered([K, A], ORDERS)))

    assert divided(window, {0}, (0, 1, 2)) == ((0,), KeySource(tables={0: ("k",)}))
    assert divided(nested, {0}, (0,)) == ((0,), KeySource(tables={0: ("k",)}))


def test_a_column_that_is_equal_to_a_key_divides_a_window() -> None:
    blocks = blocks_in(numbered([C], join("Inner", ORDERS, CUSTOMERS, equal(K, C))))

    assert tables(key_source(blocks, [0], {0, 1}, RELATIONS)) == {0: ("k",), 1: ("c",)}


def test_a_computed_key_is_in_the_change_of_the_block_that_computes_it() -> None:
    years = project([alias(9, node("Year", A)), K], ORDERS)
    blocks = blocks_in(numbered([column(9, "_w0")], years))

    positions, source = divided(blocks, {0}, (0, 1, 2))

    assert positions == (0,)
    assert places(source) == {"[0,[0]]": (0,)}


def test_columns_that_changed_rows_have_are_preferred_to_computed_ones() -> None:
    years = project([alias(9, node("Year", A)), K], ORDERS)
    blocks = blocks_in(numbered([column(9, "_w0"), K], years))

    assert divided(blocks, {0}, (0, 1)) == ((1,), KeySource(tables={0: ("k",)}))


def test_values_above_those_that_are_not_reproducible_name_nothing() -> None:
    blocks = blocks_in(groups([A], numbered([K], ORDERS)))

    assert key_source(blocks, [0], {0}, RELATIONS) == "a window by x"


def test_only_readings_that_changed_have_to_name_keys() -> None:
    first = where(equal(RANK, literal(1)), numbered([N], CUSTOMERS))
    blocks = blocks_in(join("Inner", ORDERS, first, equal(K, C)))

    assert tables(key_source(blocks, [1], {0}, RELATIONS)) == {0: ("a",)}
    assert key_source(blocks, [1], {0, 1}, RELATIONS) == "a window by x"
    assert key_source(blocks, [3], {0}, RELATIONS) == "o"
    assert key_source(blocks, [3], {1}, RELATIONS) == KeySource(tables={1: ("n",)})


def test_the_change_of_all_rows_divides_nothing() -> None:
    blocks = blocks_in(project([alias(9, node("Year", A))], ORDERS))

    assert places(key_source(blocks, [0], {0}, RELATIONS)) == {"[0,[]]": (0,)}
    assert dividing(blocks, {0}, (0,), RELATIONS) == ""


def test_a_table_that_is_read_in_several_places_has_one_column_for_a_key() -> None:
    again = project([alias(11, K), alias(12, A)], ORDERS)
    by_key = blocks_in(join("LeftSemi", ORDERS, again, equal(K, column(11))))
    by_other = blocks_in(numbered([A], join("LeftSemi", ORDERS, again, equal(K, column(12)))))

    assert (lineage(by_key, 0), lineage(by_key, 1)) == ({0: "k"}, {})
    assert tables(key_source(by_key, [0], {0}, RELATIONS)) == {0: ("k",)}
    assert (lineage(by_other, 0), key_source(by_other, [0], {0}, RELATIONS)) == ({}, "a window by x")


def test_readings_below_an_operator_that_is_computed_whole_must_not_change() -> None:
    first = operator("GlobalLimit", CUSTOMERS)
    blocks = blocks_in(join("Inner", ORDERS, first, equal(K, C)))

    assert lineage(blocks, 0) == {0: "k"}
    assert tables(key_source(blocks, [0], {0}, RELATIONS)) == {0: ("k",)}
    assert key_source(blocks, [0], {1}, RELATIONS) == "a LIMIT"


# ------------------------------------------------------------------------------------------- random trees


def random_case(seed: int) -> tuple[RandomTree, Random]:
    """Return a tree of which some groups and windows have values that are not reproducible."""
    random = Random(seed)
    case = RandomTree.of(random)
    computed = {
        number: replace(each, unstable="first")
        if each.kind in (Kind.GROUPS, Kind.WINDOW) and random.random() < 0.4
        else each
        for number, each in case.blocks.computed.items()
    }
    return replace(case, blocks=replace(case.blocks, computed=computed)), random


def changed_in(case: RandomTree) -> frozenset[int]:
    return frozenset(number for number, name in case.sources.items() if case.new[name] != case.old[name])


def picked(rows: Bag, positions: Sequence[int]) -> Iterator[Row]:
    return (tuple(row[each] for each in positions) for row in rows)


def keys_of(case: RandomTree, source: KeySource) -> set[Row]:
    """Return the keys that changed rows have."""
    keys = set[Row]()
    for number, columns in source.tables.items():
        name = case.sources[number]
        positions = [int(each.removeprefix(name)) for each in columns]
        keys.update(picked(difference(case.new[name], case.old[name]), positions))
    for block, positions in source.blocks:
        root = case.operators[block.place]
        changed = difference(evaluated(root, case.new), evaluated(root, case.old))
        keys.update(picked(changed, positions))
    return keys


def has_wrong_rows(old: Bag, new: Bag, positions: Sequence[int], keys: set[Row]) -> bool:
    """Return whether the old and the new rows differ anywhere but at some keys."""
    return any(key not in keys for key in picked(difference(new, old), positions))


def wrong_sources(seed: int) -> int | None:
    """Return how many columns of a tree have a source of their values, or None if a value is missing."""
    case, random = random_case(seed)
    found, changed = 0, changed_in(case)
    old, new = evaluated(case.root, case.old), evaluated(case.root, case.new)
    names = [str(each) for each in range(max(case.sources, default=0) + 1)]
    every = range(case.root.width)
    for positions in ([each] for each in every), [random.sample(every, random.randint(1, len(every)))]:
        for key in positions:
            source = key_source(case.blocks, key, changed, names)
            if isinstance(source, str):
                continue
            assert not any(case.blocks.unstable_below(block) for block, _ in source.blocks)
            if has_wrong_rows(old, new, key, keys_of(case, source)):
                return None
            found += 1
    return found


def has_wrong_lineage(seed: int) -> bool:
    """Return whether rows with a value depend on rows of a table without it."""
    case, random = random_case(seed)
    whole = evaluated(case.root, case.new)
    for position in range(case.root.width):
        values = {random.choice((None, 0, 1, 2)) for _ in range(2)}
        if not (found := lineage(case.blocks, position)):
            continue
        at = {number: (int(column[1:]), values) for number, column in found.items()}
        restricted = evaluated_at(case.root, case.new, at)
        if any(row[position] in values for row in difference(whole, restricted)):
            return True
    return False


def evaluated_at(
    root: Operator, sources: Mapping[str, Bag], at: Mapping[int, tuple[int, set[int | None]]]
) -> Bag:
    """Return the output of a tree over those rows of readings that have some values at a position."""
    if root.kind == "reading":
        rows = sources[root.source]
        if root.number not in at:
            return Counter(rows)
        position, values = at[root.number]
        return Counter({row: times for row, times in rows.items() if row[position] in values})
    return root.over([evaluated_at(each, sources, at) for each in root.children])


def test_the_source_of_a_key_has_every_key_at_which_rows_changed() -> None:
    found = [wrong_sources(seed) for seed in SEEDS]

    assert None not in found, found.index(None)
    assert sum(each or 0 for each in found) > len(SEEDS)


def test_rows_with_a_value_depend_on_no_rows_of_their_lineage_without_it() -> None:
    for seed in SEEDS:
        assert not has_wrong_lineage(seed), seed


Patch = Callable[[pytest.MonkeyPatch], None]
Positions = frozenset[int]
BELOW = module._below


def _of_other_side(reading: ComputedReading, positions: Positions) -> tuple[Positions, ...]:
    found = BELOW(reading, positions)
    if reading.kind is not Kind.JOIN or found[0]:
        return found
    passed = [each for position in positions if (each := reading.passed[position]) is not None]
    right = frozenset(position for side, position in passed if side == 1)
    return frozenset(each.left for each in reading.equal if each.right in right), right


def _of_full_joins(reading: ComputedReading, positions: Positions) -> tuple[Positions, ...]:
    return BELOW(replace(reading, kind=Kind.JOIN) if reading.kind is Kind.FULL else reading, positions)


def _of_all_columns(reading: ComputedReading, positions: Positions) -> tuple[Positions, ...]:
    every = tuple(range(len(reading.inputs[0].columns)))
    return BELOW(replace(reading, named=every) if reading.kind is Kind.WINDOW else reading, positions)


def _of_any_partner(reading: ComputedReading, positions: Positions) -> tuple[Positions, ...]:
    found = BELOW(reading, positions)
    return (found[0], found[1] or frozenset({0})) if reading.kind is Kind.JOIN and found[0] else found


def _of_first_branch(reading: ComputedReading, positions: Positions) -> tuple[Positions, ...]:
    found = BELOW(reading, positions)
    return (found[0], *(frozenset({0}) for _ in found[1:])) if reading.kind is Kind.UNION else found


@pytest.mark.parametrize(
    "below", [_of_other_side, _of_full_joins, _of_all_columns, _of_any_partner, _of_first_branch]
)
def test_a_wrong_rule_of_an_operator_is_noticed(
    below: Callable[[ComputedReading, Positions], tuple[Positions, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_below", below)

    assert is_wrong()


def test_a_wrong_rule_of_joins_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def equal_columns(block: Block, positions: Positions) -> frozenset[KeyColumn]:
        return frozenset(each for key in block.equal for each in key.columns)

    monkeypatch.setattr(module, "_equal", equal_columns)

    assert is_wrong()


def is_wrong() -> bool:
    return any(wrong_sources(seed) is None or has_wrong_lineage(seed) for seed in range(5_000))
