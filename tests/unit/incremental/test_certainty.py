"""Which columns of a query have the same values each time, from recorded plans
and from plans written here.
"""

from __future__ import annotations

from typing import Any

import pytest

from mt_core.incremental.certainty import Certainty, certainty_of
from tests.support.recorded_plans import Plan, recorded

PLANS = recorded()
ROUNDED = "it rounds a sum of doubles, which depends on the order of the additions"
OF_LIMIT = "LIMIT chooses among ties"
OF_RANK = "row_number() chooses among ties"
OF_FIRST = "first() depends on the order of rows or on ties"


def certainty(plan: Plan, width: int, *, floating: bool = False) -> Certainty:
    return certainty_of(plan, [], floats=[floating] * width)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("aggregate", 10),
        ("join and aggregate", 3),
        ("first of each", 2),
        ("window of all", 2),
        ("limit", 1),
        ("rollup", 3),
    ],
)
def test_keys_exact_aggregates_and_orders_without_ties_are_certain(name: str, width: int) -> None:
    assert certainty(PLANS[name][0], width) == Certainty(columns=(None,) * width)


def test_the_number_of_a_row_is_not_certain_and_the_sum_of_its_partition_is() -> None:
    found = certainty(PLANS["window"][0], 5)

    assert found == Certainty(columns=(None, None, None, "row_number() depends on ties", None))


def test_a_sum_of_doubles_is_compared_within_a_tolerance_or_not_at_all() -> None:
    plan = PLANS["sum of doubles"][0]

    assert certainty(plan, 2, floating=True) == Certainty(columns=(None, None))
    assert certainty(plan, 2) == Certainty(columns=(None, ROUNDED))


# ------------------------------------------------------------------------------------- plans of three columns


def node(kind: str, children: int = 1, **fields: Any) -> dict[str, Any]:
    return {"class": kind, "num-children": children, **fields}


def column(number: int) -> dict[str, Any]:
    return node("AttributeReference", 0, exprId={"id": number}, name=f"c{number}", dataType="integer")


def alias(number: int, *expression: dict[str, Any]) -> Plan:
    return [node("Alias", exprId={"id": number}, name=f"c{number}"), *expression]


SOURCE = node("DataSourceV2Relation", 0, output=[[column(number)] for number in (1, 2, 3)])
SORTED = node("Sort", order=[[node("SortOrder"), column(2)]])
LIMITED = [node("GlobalLimit"), node("LocalLimit"), SORTED, SOURCE]
FIRST = node("Aggregate", groupingExpressions=[[column(1)]], aggregateExpressions=[
    [column(1)], alias(4, node("AggregateExpression"), node("First"), column(2)),
    alias(5, node("Count"), column(3)),
])  # fmt: skip
RANKED = node(
    "Window",
    partitionSpec=[[column(1)]],
    orderSpec=[[node("SortOrder"), column(2)]],
    windowExpressions=[
        alias(4, node("WindowExpression", 2), node("RowNumber", 0), node("WindowSpecDefinition", 0)),
    ],
)
ONE = node("Literal", 0, value="1", dataType="integer")


def equals(number: int) -> Plan:
    return [node("EqualTo", 2), column(number), ONE]


def test_the_first_rows_in_an_order_are_certain_in_the_columns_of_the_order_alone() -> None:
    assert certainty(LIMITED, 3) == Certainty(columns=(OF_LIMIT, None, OF_LIMIT))
    assert certainty([*LIMITED[:2], SOURCE], 3) == Certainty(columns=(OF_LIMIT,) * 3)


def test_an_aggregate_of_an_order_is_left_out_and_what_is_chosen_by_it_is_not_certain_at_all() -> None:
    chosen = node("Filter", condition=equals(4))

    assert certainty([FIRST, SOURCE], 3) == Certainty(columns=(None, OF_FIRST, None))
    assert certainty([chosen, FIRST, SOURCE], 3).rows == OF_FIRST
    assert certainty([node("Filter", condition=equals(5)), FIRST, SOURCE], 3).rows is None


def test_the_first_row_of_each_key_is_certain_in_key_and_order_alone() -> None:
    one_each = [node("Filter", condition=equals(4)), RANKED, SOURCE]
    more = [node("Filter", condition=[node("And", 2), *equals(4), *equals(3)]), RANKED, SOURCE]

    assert certainty(one_each, 4) == Certainty(columns=(None, None, OF_RANK, "row_number() depends on ties"))
    assert certainty(more, 4).rows == OF_RANK


def test_a_list_that_is_sorted_or_counted_is_certain() -> None:
    listed = [
        alias(4, node("SortArray", 2), node("AggregateExpression"), node("CollectList"), column(2), ONE),
        alias(5, node("Size"), node("AggregateExpression"), node("CollectSet"), column(2)),
        alias(6, node("AggregateExpression"), node("CollectSet"), column(2)),
    ]
    plan = [node("Aggregate", groupingExpressions=[], aggregateExpressions=listed), SOURCE]

    assert certainty(plan, 3) == Certainty(
        columns=(None, None, "collect_set() depends on the order of rows or on ties")
    )


def test_a_subquery_that_is_not_certain_makes_the_whole_result_uncertain() -> None:
    found = certainty_of([SOURCE], [[FIRST, SOURCE]], floats=[False] * 3)

    assert found.rows == OF_FIRST
