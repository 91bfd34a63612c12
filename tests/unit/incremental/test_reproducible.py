from __future__ import annotations

from typing import Any

import pytest

from mt_core.incremental.plan import read_plan
from mt_core.incremental.stages.reproducible import obstacle_of_values
from tests.support.plan_json import (
    Nodes,
    aggregate,
    alias,
    column,
    function,
    literal,
    node,
    operator,
    project,
    relation,
)

K, A = column(1, "k"), column(2, "a")
TABLE = relation(0, {1: "k", 2: "a"})
PARTITION, PEERS = (
    ("Row", "UnboundedPreceding", "UnboundedFollowing"),
    ("Range", "UnboundedPreceding", "CurrentRow"),
)
ROWS = ("Row", "UnboundedPreceding", "CurrentRow")


def in_groups(kind: str, type_: str | None = "int", **facts: Any) -> str | None:
    """Return the obstacle in an aggregate function."""
    functions = [function(kind, type_, **facts)]
    return obstacle_of_values(read_plan(aggregate([K], [K], TABLE, functions=functions)))


def in_window(called: Nodes, frame: tuple[str, str, str] = ROWS) -> str | None:
    """Return the obstacle in a function over a window."""
    kind, *bounds = frame
    edges = [node(f"{each}$") for each in bounds]
    specification = node(
        "WindowSpecDefinition", K, node("SpecifiedWindowFrame", *edges, frameType={"object": f"{kind}Frame$"})
    )
    expression = alias(3, node("WindowExpression", called, specification))
    return obstacle_of_values(
        read_plan(operator("Window", TABLE, windowExpressions=[expression], partitionSpec=[K], orderSpec=[A]))
    )


def of(kind: str, type_: str = "integer") -> Nodes:
    return node("AggregateExpression", node(kind, column(2, "a", type_)))


@pytest.mark.parametrize(
    ("kind", "type_", "facts"),
    [
        ("Count", "double", {}),
        ("Count", "double", {"distinct": True}),
        ("Sum", "bigint", {}),
        ("Sum", "decimal(38,2)", {"distinct": True}),
        ("Average", "decimal(10,2)", {}),
        ("Average", "int", {"filtered": True}),
        ("Min", "string", {}),
        ("Max", "struct<a:int>", {}),
        ("BitXorAgg", "bigint", {}),
        ("Percentile", "decimal(10,2)", {}),
        ("HyperLogLogPlusPlus", "string", {}),
    ],
)
def test_functions_of_the_bag_of_their_values_are_reproducible(
    kind: str, type_: str, facts: dict[str, Any]
) -> None:
    assert in_groups(kind, type_, **facts) is None


@pytest.mark.parametrize(
    ("kind", "type_", "facts", "obstacle"),
    [
        ("Sum", "double", {}, "sum of double"),
        ("Average", "float", {}, "avg of float"),
        ("Average", "bigint", {}, "avg of bigint"),
        ("Sum", "bigint", {"evalMode": "TRY"}, "sum that may be NULL after an overflow"),
        ("Max", "double", {}, "max of double"),
        ("Min", "array<float>", {}, "min of array<float>"),
        ("Max", "string collate UTF8_LCASE", {}, "max of string collate UTF8_LCASE"),
        ("Percentile", "double", {}, "percentile of double"),
        ("StddevSamp", "int", {}, "stddev_samp"),
        ("First", "int", {}, "first"),
        ("CollectList", "int", {}, "collect_list"),
        ("MinBy", "int", {}, "min_by"),
        ("ApproximatePercentile", "int", {}, "approximate_percentile"),
        ("ScalaUDAF", "int", {}, "scala_udaf"),
    ],
)
def test_functions_that_depend_on_the_order_of_rows_are_not(
    kind: str, type_: str, facts: dict[str, Any], obstacle: str
) -> None:
    assert in_groups(kind, type_, **facts) == obstacle


def test_an_operator_has_the_first_obstacle_of_its_functions() -> None:
    functions = [function("Count"), function("First"), function("Last")]

    assert obstacle_of_values(read_plan(aggregate([K], [K], TABLE, functions=functions))) == "first"
    assert obstacle_of_values(read_plan(TABLE)) is None


@pytest.mark.parametrize(
    ("called", "frame", "obstacle"),
    [
        (node("Rank", A), ROWS, None),
        (node("DenseRank", A), ROWS, None),
        (of("Sum"), PARTITION, None),
        (of("Max", "string"), PEERS, None),
        (node("AggregateExpression", node("Count", literal(1))), PARTITION, None),
        (of("Average", "decimal(7,2)"), PARTITION, None),
        (node("RowNumber"), ROWS, "row_number"),
        (node("Lag", A, literal(1)), ("Row", "Literal", "Literal"), "lag"),
        (of("Sum"), ROWS, "sum over rows of equal order"),
        (of("Sum", "double"), PARTITION, "sum of double"),
        # JSON does not say whether it is a try_sum.
        (of("Sum", "long"), PARTITION, "sum that may be NULL after an overflow"),
        (of("First"), PARTITION, "first"),
        (
            node("AggregateExpression", node("Max", node("CreateNamedStruct", A))),
            PARTITION,
            "max of a type that is not known",
        ),
        (node("PythonUDAF", A), PARTITION, "python_udaf"),
    ],
)
def test_windows_are_reproducible_if_rows_of_equal_order_have_the_same_values(
    called: Nodes, frame: tuple[str, str, str], obstacle: str | None
) -> None:
    assert in_window(called, frame) == obstacle


def limit(order: list[Nodes], items: list[Nodes] | None = None, **columns: str) -> str | None:
    """Return the obstacle in a LIMIT of ordered rows, or of *items* of these."""
    types = [column(1, "k", columns.get("k", "long")), column(2, "a", columns.get("a", "string"))]
    table = operator("DataSourceV2Relation", output=types, reading=0)
    ordered = operator("Sort", table, order=[node("SortOrder", each) for each in order])
    ordered[0]["global"] = True
    rows = ordered if items is None else project(items, ordered)
    return obstacle_of_values(read_plan(operator("LocalLimit", rows)))


def test_a_limit_is_reproducible_if_its_order_leaves_no_choice() -> None:
    k, a = column(1, "k", "long"), column(2, "a", "string")

    assert limit([a, k]) is None
    assert limit([k], [alias(3, k), k]) is None
    assert limit([k, a], [alias(3, node("Upper", a)), k]) == "a LIMIT among rows of equal order"
    assert limit([k], [alias(3, k), a]) == "a LIMIT among rows of equal order"
    assert limit([k]) == "a LIMIT among rows of equal order"
    assert limit([column(1, "k", "double"), a], k="double") == "a LIMIT among rows of equal order"
    assert obstacle_of_values(read_plan(operator("LocalLimit", TABLE))) == "a LIMIT among rows of equal order"
    assert obstacle_of_values(read_plan(operator("Offset", TABLE))) == "an OFFSET among rows of equal order"
