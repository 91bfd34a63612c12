"""The change of random trees of operators, by the rule of computed readings, over rows in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from mt_core.incremental.plan import Node, join_type
from mt_core.incremental.stages import query_blocks
from mt_core.incremental.stages.blocks import Blocks, ComputedReading, Kind, Place
from mt_core.incremental.stages.join_blocks import Equality, KeyClass, key_classes
from mt_core.incremental.stages.look_ups import Match, SourceFacts
from mt_core.incremental.strategy import CountsDiffer, TooManyRows
from mt_core.spark.incremental import block_rows, computed_reading
from mt_core.spark.incremental.bags import Change, Wanted
from mt_core.spark.incremental.block_rows import BlockRows
from mt_core.spark.incremental.computed_reading import OperatorRows, RunReadings
from tests.depth import rounds
from tests.support.random_operators import (
    UNSTABLE,
    WIDTHS,
    Bag,
    Operator,
    RandomTree,
    Row,
    difference,
)

SEEDS = range(rounds(300, 100))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows with named columns."""

    columns: tuple[str, ...]
    bag: Bag

    def count(self) -> int:
        assert all(times > 0 for times in self.bag.values())
        return self.bag.total()

    def values(self, names: Sequence[str]) -> list[Row]:
        positions = [self.columns.index(name) for name in names]
        return [tuple(row[each] for each in positions) for row in self.bag]

    def where(self, accepts: Callable[[Row], bool]) -> Rows:
        return Rows(self.columns, Counter({row: n for row, n in self.bag.items() if accepts(row)}))


def joined(rows: Rows, others: Rows, matches: Sequence[Match]) -> Rows:
    """Return the rows whose columns `of` have the values that the columns `to` of another row have."""
    positions = [rows.columns.index(each.of) for each in matches]
    tuples = {*others.values([each.to for each in matches])}
    never_null = [position for position, each in zip(positions, matches, strict=True) if not each.null_safe]
    return rows.where(
        lambda row: (
            tuple(row[each] for each in positions) in tuples
            and all(row[each] is not None for each in never_null)
        )
    )


@dataclass(slots=True)
class PythonBags:
    """The operators of a random tree, over rows in Python."""

    case: RandomTree

    def rows(self, place: Place, leaves: Mapping[int, Rows], operators: Mapping[Place, Rows]) -> Rows:
        places = {id(each): at for at, each in self.case.operators.items()}

        def output(operator: Operator) -> Bag:
            if (given := operators.get(places[id(operator)])) is not None:
                return given.bag
            if operator.kind != "reading":
                return operator.over([output(each) for each in operator.children])
            rows = leaves[operator.number]
            assert rows.columns == tuple(f"{operator.source}{each}" for each in range(operator.width))
            return rows.bag

        return Rows(self._columns(place), output(self.case.operators[place]))

    def together(self, place: Place, parts: Sequence[Rows]) -> Rows:
        return Rows(self._columns(place), sum((each.bag for each in parts), Bag()))

    def net(self, place: Place, signed: Sequence[tuple[int, Rows]]) -> Change[Rows]:
        bag = Bag()
        for sign, rows in signed:
            bag.update({row: sign * times for row, times in rows.bag.items()})
        columns = self._columns(place)
        return Change(added=Rows(columns, +bag), removed=Rows(columns, -bag))

    def before(self, rows: Rows, change: Change[Rows], *, complete: bool) -> Rows:
        bag = rows.bag.copy()
        bag.update(change.removed.bag)
        bag.subtract(change.added.bag)
        if complete and any(times < 0 for times in bag.values()):
            raise CountsDiffer
        return Rows(rows.columns, +bag)

    def among(self, rows: Rows, wanted: Wanted[Rows]) -> Rows:
        return joined(rows, wanted.keys, [_inverse(each) for each in wanted.matches])

    def keys(self, parts: Sequence[tuple[Rows, Sequence[str]]], null_safe: Sequence[bool]) -> Rows:
        values = {
            row
            for rows, names in parts
            for row in rows.values(names)
            if all(safe or value is not None for safe, value in zip(null_safe, row, strict=True))
        }
        return Rows(tuple(f"k{each}" for each in range(len(null_safe))), Counter(values))

    def have_null(self, rows: Rows, columns: Sequence[str]) -> bool:
        return any(None in row for row in rows.values(columns))

    def _columns(self, place: Place) -> tuple[str, ...]:
        return tuple(f"c{each}" for each in range(self.case.operators[place].width))


@dataclass(slots=True)
class PythonTables:
    """The readings of a random tree. Look-ups compare columns one by one, so they may find more."""

    case: RandomTree
    random: Random
    refused: Collection[int] = ()
    looked_up: list[int] = field(default_factory=list)
    _facts: dict[int, SourceFacts] = field(default_factory=dict)

    @property
    def changed_readings(self) -> frozenset[int]:
        changed = {name for name in WIDTHS if self.case.new[name] != self.case.old[name]}
        return frozenset(number for number, source in self.case.sources.items() if source in changed)

    @property
    def filtered(self) -> frozenset[int]:
        return frozenset(number for number in self.case.sources if number % 2)

    def facts(self, number: int) -> SourceFacts:
        if number not in self._facts:
            self._facts[number] = random_facts(self.random)
        return self._facts[number]

    def change(self, number: int) -> tuple[Rows, Rows]:
        source = self.case.sources[number]
        assert number in self.changed_readings
        change = difference(self.case.new[source], self.case.old[source])
        return self._rows(number, +change), self._rows(number, -change)

    def whole(self, number: int) -> Rows | None:
        if number in self.refused:
            return None
        return self._rows(number, self.case.new[self.case.sources[number]])

    def matching(self, number: int, keys: Rows, matches: Sequence[Match]) -> Rows | None:
        assert keys.count(), "nothing is looked up without keys"
        self.looked_up.append(number)
        whole = self.whole(number)
        return None if whole is None else self.semi_join(whole, keys, [_inverse(each) for each in matches])

    def before(self, number: int, rows: Rows) -> Rows:
        added, removed = self.change(number)
        bag = rows.bag.copy()
        bag.update(removed.bag)
        bag.subtract(added.bag)
        return self._rows(number, +bag)

    def semi_join(self, rows: Rows, others: Rows, matches: Sequence[Match]) -> Rows:
        for each in matches:
            rows = joined(rows, others, [each])
        return rows

    def together(self, number: int, parts: Sequence[Rows]) -> Rows:
        return self._rows(number, sum((each.bag for each in parts), Bag()))

    def _rows(self, number: int, bag: Bag) -> Rows:
        source = self.case.sources[number]
        return Rows(tuple(f"{source}{each}" for each in range(WIDTHS[source])), bag)


def _inverse(match: Match) -> Match:
    return Match(of=match.to, to=match.of, null_safe=match.null_safe)


def random_facts(random: Random) -> SourceFacts:
    names = [f"{source}{each}" for source, width in WIDTHS.items() for each in range(width)]
    return SourceFacts(
        rows=random.choice((0, 5, 1000)),
        size=0,
        files=random.choice((1, 1000)),
        columns=3,
        values={name: random.choice((1, 3, 100)) for name in names},
    )


def rows_of(case: RandomTree, random: Random, refused: Collection[int] = ()) -> BlockRows[Rows]:
    facts = {number: random_facts(random) for number in case.blocks.computed}
    tables = PythonTables(case, random, refused)
    return RunReadings(bags=PythonBags(case), tables=tables).block(case.blocks, facts)


def is_wrong(case: RandomTree, random: Random) -> bool:
    """Return whether the rule finds another change than the difference of two evaluations."""
    try:
        change = rows_of(case, random).change()
    except CountsDiffer:
        return True
    except TooManyRows:
        # An operator that is computed whole must not change.
        assert case.blocks.fixed()
        return False
    assert not change.added.bag & change.removed.bag
    UNSTABLE.is_at_rest = True
    return difference(change.added.bag, change.removed.bag) != case.change


def is_repeated(reading: ComputedReading) -> bool:
    """Return whether a computed reading is one of several places of a table."""
    return reading.kind is Kind.UNION and len(reading.inputs) == 1


def test_the_change_of_a_tree_is_the_difference_of_its_rows_before_and_after() -> None:
    kinds, with_changes, repeated = Counter[Kind](), 0, 0
    for seed in SEEDS:
        random = Random(seed)
        case = RandomTree.of(random)

        assert not is_wrong(case, random), seed

        with_changes += bool(case.change)
        kinds.update(each.kind for each in case.blocks.computed.values())
        repeated += any(is_repeated(each) for each in case.blocks.computed.values())
    assert with_changes > len(SEEDS) / 3
    assert repeated > len(SEEDS) / 20
    assert min(kinds[each] for each in Kind) > len(SEEDS) / 30, kinds


def test_rows_of_a_tree_with_given_values_are_found_exactly() -> None:
    for seed in SEEDS:
        random = Random(seed)
        case = RandomTree.of(random, depth=random.randint(1, 3))
        block = rows_of(case, random)
        wanted = []
        for _ in range(random.randint(1, 2)):
            positions = random.sample(range(case.root.width), random.randint(1, min(2, case.root.width)))
            values = [tuple(random.choice((None, 0, 1, 2)) for _ in positions) for _ in range(3)]
            matches = tuple(
                Match(of=f"k{number}", to=f"c{position}", null_safe=random.random() < 0.6)
                for number, position in enumerate(positions)
            )
            keys = Rows(tuple(each.of for each in matches), Counter(values))
            wanted.append(Wanted(keys=keys, matches=matches))

        rows = block.matching(wanted)

        expected = block.matching(())
        for each in wanted:
            expected = PythonBags(case).among(expected, each)
        assert rows == expected, seed


def test_a_change_is_not_applied_if_too_many_rows_are_found() -> None:
    refusals = 0
    for seed in SEEDS:
        random = Random(seed)
        case = RandomTree.of(random)
        refused = [number for number in case.sources if random.random() < 0.2]
        block = rows_of(case, random, refused)
        try:
            change = block.change()
        except TooManyRows:
            refusals += 1
            continue
        assert difference(change.added.bag, change.removed.bag) == case.change, seed
    assert len(SEEDS) / 20 < refusals < len(SEEDS) / 2


def test_a_join_without_equal_columns_does_not_compare_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_reading, "MOST_COMPARED", 20)
    refusals = 0
    for seed in SEEDS:
        random = Random(seed)
        case = RandomTree.of(random)
        without_pairs = [
            each for each in case.blocks.computed.values() if each.kind is Kind.JOIN and not each.pairs
        ]
        try:
            change = rows_of(case, random).change()
        except TooManyRows:
            refusals += 1
            assert without_pairs or case.blocks.fixed()
            continue
        assert difference(change.added.bag, change.removed.bag) == case.change, seed
    assert refusals > len(SEEDS) / 20


def with_unstable(random: Random) -> RandomTree:
    """Return a tree with values that are not reproducible, of which only other rows change."""
    case = RandomTree.of(random, depth=random.randint(1, 2), unstable=0.7)
    met = {*case.blocks.with_unstable(), *case.blocks.fixed()}
    sources = {case.sources[number] for number in met}
    new = {name: case.old[name] if name in sources else bag for name, bag in case.new.items()}
    return RandomTree(
        root=case.root, blocks=case.blocks, operators=case.operators, sources=case.sources,
        old=case.old, new=new,
    )  # fmt: skip


def meets_unstable(seed: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether rows change that are computed from values that are not reproducible."""
    case = with_unstable(random := Random(seed))
    with monkeypatch.context() as patch:
        patch.setattr(UNSTABLE, "is_at_rest", False)
        return is_wrong(case, random)


def test_rows_that_do_not_meet_unstable_values_change_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with_changes = 0
    for seed in SEEDS:
        case = with_unstable(Random(seed))
        with_changes += bool(case.change) and bool(case.blocks.unstable_below(case.blocks.root))

        assert not meets_unstable(seed, monkeypatch), seed
    assert with_changes > len(SEEDS) / 30


@pytest.mark.parametrize("name", ["with_unstable", "_unstable"])
def test_rows_that_meet_unstable_values_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = {"with_unstable": lambda blocks: {}, "_unstable": lambda blocks, reading: reading.unstable}
    monkeypatch.setattr(Blocks, name, nothing[name])

    assert any(meets_unstable(seed, monkeypatch) for seed in range(20_000))


def test_a_block_does_not_compare_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_rows, "MOST_COMPARED", 20)
    refusals = 0
    for seed in SEEDS[:100]:
        random = Random(seed)
        case = RandomTree.of(random)
        try:
            change = rows_of(case, random).change()
        except TooManyRows:
            refusals += 1
            continue
        assert difference(change.added.bag, change.removed.bag) == case.change, seed
    assert 5 < refusals < 50


Patch = Callable[[pytest.MonkeyPatch], None]


def _old_rows_are_new(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PythonBags, "before", lambda bags, rows, change, complete: rows)


def _null_is_no_key(patch: pytest.MonkeyPatch) -> None:
    keys = PythonBags.keys
    patch.setattr(
        PythonBags, "keys", lambda bags, parts, null_safe: keys(bags, parts, [False] * len(null_safe))
    )


def _only_added_rows_have_keys(patch: pytest.MonkeyPatch) -> None:
    def touched(rows: OperatorRows[Rows]) -> Rows:
        pairs = zip(rows.inputs, rows._keys, strict=True)
        parts = [(each.change().added, [f"c{key}" for key in keys]) for each, keys in pairs if keys]
        return rows.bags.keys(parts, [True] * len(rows._keys[0]))

    patch.setattr(OperatorRows, "_touched", property(touched))


def _preserved_rows_are_new(patch: pytest.MonkeyPatch) -> None:
    before = OperatorRows._before

    def of_left(
        rows: OperatorRows[Rows], block: BlockRows[Rows], new: Rows, wanted: Sequence[Wanted[Rows]]
    ) -> Rows:
        is_preserved = rows.reading.kind is Kind.JOIN and block is rows.inputs[0]
        return new if is_preserved else before(rows, block, new, wanted)

    patch.setattr(OperatorRows, "_before", of_left)


def _partitions_are_incomplete(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        OperatorRows, "_partitions", lambda rows, wanted: rows.inputs[0].matching(rows._parts(wanted, 0))
    )


def _missing_partners_are_looked_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperatorRows, "_without_null", lambda rows, wanted: wanted)


def _removed_rows_do_not_hold_keys(patch: pytest.MonkeyPatch) -> None:
    reduced = BlockRows._reduced
    patch.setattr(BlockRows, "_reduced", lambda rows, number, keys, changes: reduced(rows, number, keys, {}))


def _null_is_no_key_of_blocks(patch: pytest.MonkeyPatch) -> None:
    def classes(equalities: Iterable[Equality]) -> tuple[KeyClass, ...]:
        return key_classes([replace(each, null_safe=False) for each in equalities])

    patch.setattr(query_blocks, "key_classes", classes)


def _anti_joins_are_linear(patch: pytest.MonkeyPatch) -> None:
    def kind(of: Node) -> str:
        return "Inner" if join_type(of) == "LeftAnti" else join_type(of)

    patch.setattr(query_blocks, "join_type", kind)


def _computed_columns_are_plain(patch: pytest.MonkeyPatch) -> None:
    def first(expression: Node) -> Node | None:
        return next((each for each in expression.nodes() if each.kind == "AttributeReference"), None)

    patch.setattr(Node, "column", first)


def _keys_are_the_first_columns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(query_blocks._BlocksOfTree, "_keys", lambda blocks, child, of: tuple(range(len(tuple(of)))))


def _a_table_is_read_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(query_blocks, "Counter", lambda readings: Counter[int]())


@pytest.mark.parametrize(
    "error",
    [
        _old_rows_are_new,
        _null_is_no_key,
        _only_added_rows_have_keys,
        _preserved_rows_are_new,
        _partitions_are_incomplete,
        _missing_partners_are_looked_up,
        _removed_rows_do_not_hold_keys,
        _null_is_no_key_of_blocks,
        _anti_joins_are_linear,
        _computed_columns_are_plain,
        _keys_are_the_first_columns,
        _a_table_is_read_once,
    ],
)
def test_a_deliberate_error_is_noticed(error: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    error(monkeypatch)

    assert any(is_wrong(RandomTree.of(random := Random(seed)), random) for seed in range(20_000))


def test_an_empty_change_computes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def computed(*given: object) -> Rows:
        raise AssertionError("an operator is computed")

    monkeypatch.setattr(PythonBags, "rows", computed)
    for seed in range(100):
        random = Random(seed)
        case = RandomTree.of(random)
        unchanged = RandomTree(
            root=case.root, blocks=case.blocks, operators=case.operators, sources=case.sources,
            old=case.new, new=case.new,
        )  # fmt: skip
        assert not rows_of(unchanged, random).change().count()
