from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random

import pytest

from mt_core.incremental.stages.join_blocks import JoinBlock, KeyClass, KeyColumn
from mt_core.incremental.stages.look_ups import LookUpPlan, Match, SourceFacts, look_up_plan
from tests.depth import dice, rounds
from tests.support.random_joins import Bag, LookedUpRows, RandomJoin, Row

SEEDS = range(1000)


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


@pytest.mark.parametrize(
    "seeds",
    [SEEDS, pytest.param(range(rounds(4_000, 50_000)), marks=pytest.mark.slow)],
    ids=["few", "random"],
)
def test_terms_over_looked_up_rows_are_those_over_whole_relations(seeds: Sequence[int]) -> None:
    look_ups, first = 0, dice(0).randrange(2**32)
    for seed in seeds:
        random = Random(first + seed)
        case = RandomJoin.of(random)
        rows = LookedUpRows(case, refused_look_ups(case, random) if seed % 2 else ())
        assert is_right(rows), first + seed
        look_ups += len(rows.found)
    assert look_ups > len(seeds)


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
    assert not all(is_right(wrong(RandomJoin.of(Random(seed)))) for seed in SEEDS)


# Customers, orders and suppliers, as in TPC-H: customers and suppliers are of nations.
CUSTOMERS, ORDERS, LINES, SUPPLIERS, NATIONS = range(5)
SIZES = {CUSTOMERS: 150_000, ORDERS: 1_500_000, LINES: 6_000_000, SUPPLIERS: 10_000, NATIONS: 25}
SPANS = {
    CUSTOMERS: {"c": 150_000, "n": 25},
    ORDERS: {"c": 150_000, "o": 6_000_000},
    LINES: {"o": 6_000_000, "s": 10_000},
    SUPPLIERS: {"s": 10_000, "n": 25},
    NATIONS: {"n": 25},
}
KEYS = {"c": (CUSTOMERS, ORDERS), "o": (ORDERS, LINES), "s": (LINES, SUPPLIERS)}
NATION = {"n": (CUSTOMERS, SUPPLIERS, NATIONS)}


def key(name: str, *readings: int, type_: str = "long") -> KeyClass:
    """Return the class of the columns of a name in *readings*."""
    columns = tuple(KeyColumn(reading=number, column=name, type=type_) for number in readings)
    return KeyClass(columns=columns, null_safe=False)


def plan_of(
    changed: Mapping[int, int],
    keys: Mapping[str, Sequence[int]],
    *,
    type_: str = "long",
    spans: Mapping[int, Mapping[str, int]] = SPANS,
    filtered: frozenset[int] = frozenset(),
) -> LookUpPlan:
    """Return the plan for numbers of *changed* rows; a key has a column of its name in each reading."""
    classes = [key(name, *readings, type_=type_) for name, readings in keys.items()]
    readings = frozenset(number for each in keys.values() for number in each)
    return look_up_plan(
        JoinBlock(readings=readings, keys=tuple(classes)),
        changed=frozenset(changed),
        facts={
            number: SourceFacts(rows=rows, size=1, files=1, columns=1, values=spans.get(number, {}))
            for number, rows in SIZES.items()
        },
        rows=changed,
        filtered=filtered,
    )


def edges(plan: LookUpPlan) -> list[tuple[int, int]]:
    return [(each.of, each.to) for each in plan.look_ups]


def test_small_readings_without_a_change_are_whole_and_reduce_what_shares_a_key() -> None:
    plan = plan_of({ORDERS: 1}, KEYS | NATION)

    assert plan.whole == {SUPPLIERS, NATIONS}
    assert [(each.by, each.of) for each in plan.reductions] == [
        (NATIONS, CUSTOMERS),
        (NATIONS, SUPPLIERS),
        (SUPPLIERS, CUSTOMERS),
        (SUPPLIERS, LINES),
    ]
    assert plan.reductions[3].matches == (Match(of="s", to="s", null_safe=False),)
    assert plan_of({ORDERS: 1, SUPPLIERS: 1}, KEYS).whole == set()


def test_each_edge_is_looked_up_once_in_a_direction_that_leads_away_from_a_change() -> None:
    assert edges(plan_of({LINES: 1}, {"c": KEYS["c"], "o": KEYS["o"]})) == [
        (LINES, ORDERS),
        (ORDERS, CUSTOMERS),
    ]
    both = plan_of({CUSTOMERS: 1, ORDERS: 1}, {"c": KEYS["c"], "o": KEYS["o"]})
    assert sorted(edges(both)) == [(CUSTOMERS, ORDERS), (ORDERS, CUSTOMERS), (ORDERS, LINES)]


def test_the_fewest_rows_are_looked_up_first_after_filtered_readings() -> None:
    keys = {"c": KEYS["c"], "o": KEYS["o"]}

    assert edges(plan_of({ORDERS: 10}, keys)) == [(ORDERS, CUSTOMERS), (ORDERS, LINES)]
    assert edges(plan_of({ORDERS: 10}, keys, filtered=frozenset({LINES}))) == [
        (ORDERS, LINES),
        (ORDERS, CUSTOMERS),
    ]


def test_the_path_of_a_term_leads_along_the_tree() -> None:
    plan = plan_of({CUSTOMERS: 300, LINES: 18_000}, {"c": KEYS["c"], "o": KEYS["o"]})

    assert plan.before(CUSTOMERS) == {ORDERS: CUSTOMERS, LINES: ORDERS}
    assert plan.before(LINES) == {ORDERS: LINES, CUSTOMERS: ORDERS}
    found = {(each.of, each.to): each.expected for each in plan.look_ups}
    # The keys of the customers are those of the orders of changed lines.
    assert found[CUSTOMERS, ORDERS] == found[ORDERS, LINES] == 3000
    assert found[LINES, ORDERS] == found[ORDERS, CUSTOMERS] == 18_000


def test_a_key_of_few_values_does_not_connect_large_readings_that_others_connect() -> None:
    plan = plan_of({ORDERS: 10, SUPPLIERS: 1}, KEYS | NATION)

    assert (CUSTOMERS, SUPPLIERS) not in edges(plan)
    assert (LINES, SUPPLIERS) in edges(plan)


def test_a_foreign_key_whose_values_are_not_known_has_those_of_the_key() -> None:
    (look_up,) = plan_of({CUSTOMERS: 300}, {"c": KEYS["c"]}, type_="string", spans={}).look_ups

    assert look_up.expected == 3000


def test_an_edge_of_known_fan_out_is_preferred_to_a_guess_that_is_not_much_better() -> None:
    keys = {"c": (CUSTOMERS, ORDERS), "o": (ORDERS, LINES), "text": (CUSTOMERS, LINES)}

    plan = plan_of({LINES: 1}, keys)

    assert edges(plan) == [(LINES, ORDERS), (ORDERS, CUSTOMERS)]


def test_readings_without_a_common_key_are_not_connected() -> None:
    plan = plan_of({CUSTOMERS: 1}, {"c": (CUSTOMERS,), "o": KEYS["o"]})

    assert (edges(plan), plan.before(CUSTOMERS)) == ([], {})


def test_rows_that_no_equal_columns_connect_are_compared_with_all_others() -> None:
    keys = [key("c", CUSTOMERS, ORDERS), key("o", ORDERS, LINES), key("n", SUPPLIERS, NATIONS)]
    joins = JoinBlock(readings=frozenset(SIZES), keys=tuple(keys))
    rows = {CUSTOMERS: 300, ORDERS: 3_000, LINES: 12_000, SUPPLIERS: 50, NATIONS: 25}

    assert joins.compared(rows) == 12_000 * 50
    assert JoinBlock(readings=frozenset({LINES}), keys=()).compared(rows) == 12_000
