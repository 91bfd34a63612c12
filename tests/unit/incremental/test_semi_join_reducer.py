"""The reducer over rows in Python: its leaves give the terms that whole relations give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from mt_core.incremental.stages.look_ups import Match, look_up_plan
from mt_core.spark.incremental.semi_join_reducer import SemiJoinReducer
from tests.support.random_joins import RandomJoin, Row

SEEDS = range(400)


class Rows(tuple[Row, ...]):
    """Rows of a reading."""

    def count(self) -> int:  # type: ignore[override]
        return len(self)


@dataclass(slots=True)
class PythonRelations:
    """The relations of a random join. Look-ups in the readings *refused* find too many rows."""

    case: RandomJoin
    refused: Collection[int] = ()
    looked_up: list[int] = field(default_factory=list)

    def changed(self, number: int) -> tuple[Rows, Rows]:
        change = self.case.changes[number]
        removed = Counter({row: -times for row, times in change.items()})
        return Rows((+change).elements()), Rows((+removed).elements())

    def whole(self, number: int) -> Rows | None:
        small = self.case.facts[number].is_small and number not in self.refused
        return self._new(number) if small else None

    def matching(self, number: int, keys: Rows, matches: Sequence[Match]) -> Rows | None:
        assert keys, "nothing is looked up without keys"
        self.looked_up.append(number)
        if number in self.refused:
            return None
        inverse = [Match(of=each.to, to=each.of, null_safe=each.null_safe) for each in matches]
        return self.semi_join(self._new(number), keys, inverse)

    def before(self, number: int, rows: Rows) -> Rows:
        old = Counter[Row](rows)
        old.subtract(self.case.changes[number])
        return Rows((+old).elements())

    def semi_join(self, rows: Rows, others: Rows, matches: Sequence[Match]) -> Rows:
        for each in matches:
            of, to = (int(name.partition("_")[2]) for name in (each.of, each.to))
            values = {row[to] for row in others}
            rows = Rows(row for row in rows if row[of] in values and (row[of] is not None or each.null_safe))
        return rows

    def together(self, number: int, parts: Sequence[Rows]) -> Rows:
        return Rows(row for part in parts for row in part)

    def _new(self, number: int) -> Rows:
        rows: Iterable[Row] = self.case.new[number].elements()
        return Rows(row for row in rows if self.case.accepts(number, row))


def reduced(case: RandomJoin, relations: PythonRelations) -> SemiJoinReducer[Rows]:
    changes = case.changes
    plan = look_up_plan(
        case.block,
        changed=frozenset(changes),
        facts=case.facts,
        rows={number: change.total() for number, change in changes.items()},
        filtered=frozenset(case.filters),
    )
    changed = {number: relations.changed(number) for number in changes}
    return SemiJoinReducer.of(plan, case.block.readings, changed, relations)


def test_terms_over_the_leaves_are_those_over_whole_relations() -> None:
    leaves_found = 0
    for seed in SEEDS:
        random = Random(seed)
        case = RandomJoin.of(random)
        numbers = range(len(case.widths))
        refused = [number for number in numbers if random.random() < 0.1] if seed % 2 else []
        relations = PythonRelations(case, refused)
        reducer = reduced(case, relations)
        for term in case.changes:
            whole = {number: (case.old if number > term else case.new)[number] for number in numbers}
            leaves = {number: Counter[Row](rows) for number, rows in reducer.leaves(term).items()}
            leaves_found += len(leaves)
            for all_rows, rows in zip(relations.changed(term), reducer.changes[term], strict=True):
                expected = case.joined({**whole, term: Counter(all_rows)})
                assert case.joined({**whole, **leaves, term: Counter(rows)}) == expected, seed
    assert leaves_found > len(SEEDS)


def test_each_reading_is_looked_up_at_most_once_from_each_neighbour() -> None:
    for seed in SEEDS:
        case = RandomJoin.of(Random(seed))
        relations = PythonRelations(case)

        reducer = reduced(case, relations)

        edges = [(each.of, each.to) for each in reducer.plan.look_ups]
        assert len(edges) == len(set(edges))
        assert len(relations.looked_up) <= len(edges)


def test_no_rows_are_looked_up_if_no_changed_row_can_join_a_whole_reading() -> None:
    found = 0
    for seed in SEEDS:
        case = RandomJoin.of(Random(seed))
        relations = PythonRelations(case)
        reducer = reduced(case, relations)
        if not any(rows for change in reducer.changes.values() for rows in change):
            found += 1
            assert relations.looked_up == []
    assert found
