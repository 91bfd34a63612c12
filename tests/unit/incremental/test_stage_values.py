from __future__ import annotations

import pytest

from mt_core.incremental.stages.compiler import compile_stages
from mt_core.incremental.stages.stage_plan import StagePlan
from tests.support.plan_json import (
    Nodes,
    aggregate,
    alias,
    call,
    column,
    equal,
    function,
    join,
    node,
    operator,
    relation,
    subquery,
    where,
)

SOURCES = ("o", "c", "p", "o", "c")
K, A, C, N = column(1, "k"), column(2, "a"), column(3, "k"), column(4, "n")
ORDERS, ORDERS_AGAIN = relation(0, {1: "k", 2: "a"}), relation(3, {11: "k", 12: "a"})
CUSTOMERS, CUSTOMERS_AGAIN = relation(1, {3: "k", 4: "n"}), relation(4, {13: "k", 14: "n"})
CONSTANT = operator("LocalRelation", output=[C, N])
PARAMETERS = relation(2, {21: "p", 22: "v"})
SUM, MAX = function("Sum"), function("Max")


def totals(child: Nodes) -> Nodes:
    """Return `SELECT k, sum(a) AS total FROM child GROUP BY k`."""
    return aggregate([K], [K, alias(5, call("Sum", A), "total")], child, functions=[SUM])


def total(child: Nodes, of: int) -> Nodes:
    """Return `SELECT sum(of) FROM child`."""
    return aggregate([], [alias(of + 100, call("Sum", column(of)))], child, functions=[SUM])


def most(child: Nodes, of: int) -> Nodes:
    """Return `SELECT max(of) FROM child`, which is no stage."""
    return aggregate([], [alias(of + 100, call("Max", column(of)))], child, functions=[MAX])


def plan_of(*trees: Nodes) -> StagePlan:
    plan = compile_stages(trees, sources=SOURCES, version="4.1.0")
    assert isinstance(plan, StagePlan), plan
    return plan


def below(tree: int = 1) -> Nodes:
    """Return an aggregate with a scalar subquery below it."""
    return totals(where(equal(A, subquery(tree)), ORDERS))


def described(plan: StagePlan, *changed: int) -> str:
    return plan.described(frozenset(changed), SOURCES)


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param(below(), id="filter"),
        pytest.param(totals(join("Inner", ORDERS, CONSTANT, equal(K, subquery(1)))), id="join"),
        pytest.param(
            totals(join("LeftOuter", ORDERS, where(equal(C, subquery(1)), CONSTANT))), id="constant"
        ),
        pytest.param(aggregate([subquery(1)], [alias(6, subquery(1))], ORDERS), id="key"),
        pytest.param(
            aggregate([K], [alias(5, call("Sum", subquery(1)))], ORDERS, functions=[SUM]), id="function"
        ),
    ],
)
def test_a_state_may_depend_on_the_value_of_a_scalar_subquery(tree: Nodes) -> None:
    plan = plan_of(tree, most(PARAMETERS, 22))

    (stage,), (value,) = plan.stages, plan.values
    assert (stage.places, stage.values) == (("[0,[]]",), {1})
    assert (value.tree, value.rest, value.stages, value.values) == (1, {2}, frozenset(), frozenset())
    assert plan.names == {stage.name, value.name}
    assert plan.rest == frozenset()


def test_a_value_is_computed_over_the_states_of_its_subquery() -> None:
    plan = plan_of(below(), total(ORDERS_AGAIN, 12))

    first, second = plan.stages
    assert [(each.places, each.readings) for each in plan.stages] == [(("[0,[]]",), {0}), (("[1,[]]",), {3})]
    assert (plan.values[0].stages, plan.values[0].rest) == ({second.name}, frozenset())
    assert plan.inner == {second.name}
    assert [*plan.in_order()] == [second, plan.values[0], first]


def test_a_subquery_may_be_read_above_and_below_a_state() -> None:
    plan = plan_of(where(equal(column(5), subquery(1)), below()), most(PARAMETERS, 22))

    assert [each.tree for each in plan.values] == [1]
    # The rest gets the value as the state does.
    assert plan.rest == frozenset()


def test_a_subquery_that_is_only_above_states_belongs_to_the_rest() -> None:
    plan = plan_of(where(equal(column(5), subquery(2)), below(1)), most(PARAMETERS, 22), most(CUSTOMERS, 4))

    assert ([each.tree for each in plan.values], plan.rest) == ([1], {1})


def test_a_value_may_depend_on_another_one() -> None:
    inner = aggregate(
        [], [alias(6, call("Sum", N))], where(equal(N, subquery(2)), CUSTOMERS), functions=[SUM]
    )

    plan = plan_of(below(), inner, most(PARAMETERS, 22))

    outer, of_customers = plan.stages
    one, two = plan.values
    assert (outer.values, of_customers.values) == ({1}, {2})
    assert (one.stages, one.values, two.rest) == ({of_customers.name}, frozenset(), {2})
    assert [*plan.in_order()] == [two, of_customers, one, outer]
    assert {each.tree for each in plan.moved(frozenset({2}))} == {1, 2}
    assert {each.tree for each in plan.moved(frozenset({1}))} == {1}
    assert plan.moved(frozenset({0})) == ()


def test_a_value_may_be_read_by_an_operator_that_is_not_linear() -> None:
    outer = totals(join("LeftOuter", ORDERS, where(equal(N, subquery(1)), CUSTOMERS), equal(K, C)))

    plan = plan_of(outer, most(PARAMETERS, 22))

    assert (plan.stages[0].readings, plan.stages[0].values) == ({0, 1}, {1})


def test_a_subquery_in_a_kept_one_is_read_by_this_one() -> None:
    inner = where(equal(column(22), subquery(2)), PARAMETERS)

    plan = plan_of(below(), most(inner, 22), most(CUSTOMERS, 4))

    assert [(each.tree, each.rest, each.values) for each in plan.values] == [(1, {1, 2}, frozenset())]


def test_the_value_over_one_version_of_a_table_never_changes() -> None:
    plan = plan_of(below(), most(relation(None, {21: "p", 22: "v"}), 22))

    assert (plan.values, plan.stages[0].values) == ((), frozenset())
    assert described(plan, 0) == "a state of sum by k"


def test_a_state_that_spares_nothing_is_not_kept_for_a_subquery() -> None:
    reason = compile_stages(
        [operator("GlobalLimit", below()), most(ORDERS_AGAIN, 12)], sources=SOURCES, version="4.1.0"
    )

    assert "the rest of the query reads o as well" in str(reason)


def test_rows_depend_on_the_values_of_scalar_subqueries_over_states_and_whole_readings() -> None:
    condition = node("And", equal(A, subquery(1)), equal(K, subquery(2)))

    plan = plan_of(where(condition, ORDERS), total(ORDERS_AGAIN, 12), most(PARAMETERS, 22))

    (state,), (of_state, whole) = plan.stages, plan.values
    assert plan.rows is not None
    assert (plan.rows.tables(), plan.above, plan.rest, plan.row_keys) == ({0}, {0}, frozenset(), None)
    assert (state.readings, plan.inner) == ({3}, {state.name})
    assert (of_state.stages, of_state.rest, of_state.readings) == ({state.name}, frozenset(), {3})
    assert (whole.stages, whole.rest, whole.readings) == (frozenset(), {2}, {2})
    assert plan.names == {state.name, of_state.name, whole.name}
    assert plan.blocks == [state.blocks, plan.rows]
    assert [*plan.in_order()] == [whole, state, of_state]


def test_rows_need_kept_values_only_if_these_may_change() -> None:
    plan = plan_of(where(equal(A, subquery(1)), ORDERS), total(CUSTOMERS, 4))

    assert plan.needed(frozenset({0})) == frozenset()
    assert plan.needed(frozenset({1})) == plan.names
    assert plan_of(below(), total(CUSTOMERS, 4)).needed(frozenset({0})) != frozenset()


def test_a_query_whose_aggregates_have_no_use_as_states_has_rows_with_values() -> None:
    plan = plan_of(below(), most(ORDERS_AGAIN, 12))

    assert (plan.stages, plan.values[0].rest) == ((), {3})
    assert plan.rows is not None
    assert [each.words for each in plan.rows.computed.values()] == ["sum by k"]


def test_rows_that_are_computed_whole_leave_it_to_the_states() -> None:
    limited = join("Inner", ORDERS, operator("GlobalLimit", CUSTOMERS), equal(K, C))
    tree = where(equal(A, subquery(1)), limited)

    plan = plan_of(tree, total(PARAMETERS, 22))
    assert (plan.rows, plan.rest) == (None, {0, 1})
    without = plan_of(tree, most(PARAMETERS, 22))
    assert without.rows is not None


def test_a_query_of_one_row_of_values_keeps_none() -> None:
    plan = plan_of(where(equal(C, subquery(1)), CONSTANT), total(ORDERS, 2))

    assert (plan.rows, plan.values, len(plan.stages)) == (None, (), 1)


def test_without_states_values_are_computed_over_whole_readings() -> None:
    plan = compile_stages(
        [where(equal(A, subquery(1)), ORDERS), total(CUSTOMERS, 4)],
        sources=SOURCES,
        version="4.1.0",
        obstacle="sums may overflow to NULL",
    )

    assert isinstance(plan, StagePlan)
    assert (plan.stages, plan.values[0].rest) == ((), {1})
    reason = compile_stages([totals(ORDERS)], sources=SOURCES, version="4.1.0", obstacle="sums may overflow")
    assert reason == "sums may overflow"


def test_the_names_of_states_and_values_tell_what_the_subqueries_compute() -> None:
    plans = [
        plan_of(below(), subquery_tree)
        for subquery_tree in (most(PARAMETERS, 22), most(PARAMETERS, 21), most(CUSTOMERS, 4))
    ]

    assert len({plan.stages[0].name for plan in plans}) == len({plan.values[0].name for plan in plans}) == 3
    again = plan_of(below(), most(PARAMETERS, 22))
    assert again.names == plans[0].names
    swapped = [
        plan_of(totals(where(node("LessThan", subquery(one), subquery(two)), ORDERS)), *trees)
        for trees in [(most(PARAMETERS, 22), most(CUSTOMERS, 4))]
        for one, two in ((1, 2), (2, 1))
    ]
    assert swapped[0].stages[0].name != swapped[1].stages[0].name


def test_equal_subqueries_have_values_of_different_names() -> None:
    condition = node("And", equal(A, subquery(1)), equal(K, subquery(2)))

    plan = plan_of(totals(where(condition, ORDERS)), most(PARAMETERS, 22), most(PARAMETERS, 22))

    assert len({each.name for each in plan.values}) == 2


def test_rows_are_replaced_by_the_keys_of_a_state_with_values_below_it() -> None:
    assert plan_of(below(), total(ORDERS_AGAIN, 12)).row_keys == (0,)
    assert plan_of(where(equal(column(5), subquery(1)), below()), total(ORDERS_AGAIN, 12)).row_keys is None


def test_explain_says_which_states_a_value_may_change() -> None:
    single, several = plan_of(below(), most(PARAMETERS, 22)), plan_of(below(), total(ORDERS_AGAIN, 12))
    rows = plan_of(where(equal(A, subquery(1)), ORDERS), total(CUSTOMERS, 4))
    anew = "computed anew if a scalar subquery returns another value"

    assert described(single, 0) == "a state of sum by k"
    assert described(single, 2) == f"a state of sum by k, {anew}; the rest reads p"
    assert described(several, 0) == "1 of 2 states: sum by k"
    assert described(several, 3) == f"2 of 2 states: sum by k; sum of all rows; {anew}: sum by k"
    assert described(rows, 0) == "rows"
    assert described(rows, 0, 1) == f"rows, {anew}; a state of sum of all rows"
