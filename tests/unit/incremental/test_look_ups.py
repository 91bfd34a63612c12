from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from random import Random

import pytest

from mt_core.incremental.stages.look_ups import Match
from tests.support.random_joins import Bag, LookedUpRows, RandomJoin, Row

SEEDS = range(2000)


def refused_look_ups(case: RandomJoin, random: Random) -> Collection[tuple[int, int]]:
    numbers = range(len(case.widths))
    return {(of, to) for of in numbers for to in numbers if random.random() < 0.1}


def is_right(rows: LookedUpRows) -> bool:
    """Return whether all terms over looked-up rows are those over whole relations."""
    case, changes = rows.case, rows.case.changes
    for term, change in changes.items():
        whole = {
            number: (case.old if number > term else case.new)[number] for number in range(len(case.widths))
        }
        leaves = rows.leaves(term)
        for sign in (1, -1):
            signed = Counter({row: abs(times) for row, times in change.items() if times * sign > 0})
            joining = Counter({row: times for row, times in signed.items() if row in rows.changes[term]})
            if case.joined({**whole, term: signed}) != case.joined({**leaves, term: joining}):
                return False
    return True


def test_terms_over_looked_up_rows_are_those_over_whole_relations() -> None:
    look_ups = 0
    for seed in SEEDS:
        random = Random(seed)
        case = RandomJoin.of(random)
        rows = LookedUpRows(case, refused_look_ups(case, random) if seed % 2 else ())
        assert is_right(rows), seed
        look_ups += len(rows.found)
    assert look_ups > len(SEEDS)


def test_the_sum_of_the_terms_is_the_change_of_the_join() -> None:
    for seed in SEEDS[:200]:
        case = RandomJoin.of(Random(seed))
        rows, change = LookedUpRows(case), Counter[tuple[Row, ...]]()
        for term, changed in rows.changes.items():
            leaves = rows.leaves(term)
            for row, times in changed.items():
                for joined, count in case.joined({**leaves, term: Counter({row: 1})}).items():
                    change[joined] += times * count
        before, after = case.joined(dict(enumerate(case.old))), case.joined(dict(enumerate(case.new)))
        after.subtract(before)
        assert {row: times for row, times in change.items() if times} == {
            row: times for row, times in after.items() if times
        }, seed


class WithoutRemovedKeys(LookedUpRows):
    def changed_rows(self, reading: int) -> Iterable[Row]:
        return [row for row, times in self.changes.get(reading, Counter()).items() if times > 0]


class WithoutSubtraction(LookedUpRows):
    def less_the_change(self, reading: int, rows: Bag) -> Bag:
        return rows


class WithoutNulls(LookedUpRows):
    def semi_join(
        self, rows: Iterable[Row], of: int, matches: Sequence[Match], others: Iterable[Row], to: int
    ) -> list[Row]:
        matches = [Match(of=each.of, to=each.to, null_safe=False) for each in matches]
        return LookedUpRows.semi_join(self, rows, of, matches, others, to)


class WithoutEarlierLookUps(LookedUpRows):
    def steps_before(self, of: int, to: int) -> list[tuple[int, int]]:
        return []


@pytest.mark.parametrize(
    "wrong", [WithoutRemovedKeys, WithoutSubtraction, WithoutNulls, WithoutEarlierLookUps]
)
def test_the_check_finds_an_error_in_any_step(wrong: type[LookedUpRows]) -> None:
    assert not all(is_right(wrong(RandomJoin.of(Random(seed)))) for seed in SEEDS[:1000])
