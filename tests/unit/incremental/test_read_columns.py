"""The columns that a query reads, from plans as Spark writes them in JSON."""

from __future__ import annotations

from typing import Any

import pytest

from mt_core.incremental.read_columns import read_attributes

Nodes = list[dict[str, Any]]
_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."


def column(number: int) -> Nodes:
    return [{"class": f"{_EXPRESSIONS}AttributeReference", "num-children": 0, "exprId": {"id": number}}]


def called(number: int, value: Nodes) -> Nodes:
    return [
        {"class": f"{_EXPRESSIONS}Alias", "num-children": 1, "child": 0, "exprId": {"id": number}},
        *value,
    ]


def scalar(plan: Nodes) -> Nodes:
    return [{"class": f"{_EXPRESSIONS}ScalarSubquery", "num-children": 0, "plan": plan, "outerAttrs": []}]


def node(kind: str, *children: Nodes, **fields: Any) -> Nodes:
    first = {"class": f"{_PLANS}{kind}", "num-children": len(children), **fields}
    return [first, *(each for child in children for each in child)]


def table(*numbers: int) -> Nodes:
    kind = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
    return [{"class": kind, "num-children": 0, "output": [column(number) for number in numbers]}]


def join(kind: str, left: Nodes, right: Nodes, condition: Nodes) -> Nodes:
    return node("Join", left, right, condition=condition, joinType={"object": f"{_PLANS}{kind}$"})


def project(child: Nodes, *entries: Nodes) -> Nodes:
    return node("Project", child, projectList=list(entries))


STAR = project(table(1, 2, 3), column(1), called(20, column(2)), column(3))


@pytest.mark.parametrize(
    ("plan", "read"),
    [
        (table(1, 2), {1, 2}),
        (project(table(1, 2), column(2)), {2}),
        (project(node("Filter", table(1, 2, 3), condition=column(3)), column(1)), {1, 3}),
        (project(STAR, column(20)), {2, 20}),
        (project(node("SubqueryAlias", STAR), called(30, column(1))), {1}),
        (
            node(
                "Aggregate",
                STAR,
                groupingExpressions=[column(1)],
                aggregateExpressions=[called(9, column(20))],
            ),
            {1, 2, 20},
        ),
        (join("Inner", project(table(1, 2), column(1)), table(4), column(2)), {1, 2, 4}),
        (project(join("Inner", table(1, 2), table(4, 5), column(4)), column(1)), {1, 4}),
        (join("LeftSemi", table(1, 2), table(4, 5), column(4)), {1, 2, 4}),
        (project(node("Union", STAR, table(7, 8, 9)), column(1)), {1, 2, 3, 7, 8, 9}),
        (project(node("Distinct", STAR), column(1)), {1, 2, 3}),
        (project(table(1), column(1), called(9, scalar(project(table(5, 6), column(5))))), {1, 5}),
        (project(project(table(1), column(1), called(9, scalar(table(5)))), column(1)), {1}),
        (node("LateralJoin", project(table(1), column(1)), right=[scalar(table(5, 6))]), {1, 5, 6}),
    ],
    ids=str,
)
def test_only_columns_that_the_result_depends_on_are_read(plan: Nodes, read: set[int]) -> None:
    assert read_attributes(plan) & set(range(10)) == read & set(range(10))
