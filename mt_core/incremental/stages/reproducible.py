"""Reproducible values: an operator computes them bit by bit again from the same rows in another order.

The old rows of a computed reading are computed from its old input rows, some of them a second time. They
cancel rows that an earlier refresh has added only if the values are the same. Rows of a table have no order,
and neither have the files that they are read from. So a value must depend on the bag of its rows alone. Sums
of doubles depend on the order of additions, and `first`, `row_number` or a LIMIT on the order of rows with
equal keys.

This is a white list: other functions, such as those of users or of a later Spark, count as not reproducible.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mt_core.incremental.plan import Node, output_of
from mt_core.incremental.stages.accumulators import is_exact, sql_name_of
from mt_core.incremental.stages.join_blocks import has_equal_bits

_OF_SUMS = frozenset({"Sum", "Average"})
# Functions of the values alone, whatever their order.
_OF_VALUES = frozenset(
    {
        *("Min", "Max", "BitAndAgg", "BitOrAgg", "BitXorAgg"),
        *("Percentile", "PercentileCont", "PercentileDisc", "HyperLogLogPlusPlus"),
    }
)
# Functions of the place of a row in an order. Rows with equal keys have the same place.
_RANKS = frozenset({"Rank", "DenseRank", "PercentRank", "CumeDist"})
# Types with equal values that differ in their bits: -0.0 and 0.0, or strings of some collations.
_EQUAL_BUT_DIFFERENT = re.compile(r"float|double|collate|variant")
# A sum of these overflows neither in between nor at the end, so its mode does not matter.
_NARROW = re.compile(r"byte|short|integer|decimal\((1?\d|2[0-8]),\d+\)")


def obstacle_of_values(node: Node) -> str | None:
    """Return which value of an operator is not reproducible, or None if all are."""
    match node.kind:
        case "Aggregate":
            obstacles = [_in_function(each) for each in node.fields["functions"]]
        case "Window":
            obstacles = [_in_window(each.value()) for each in node.expressions("windowExpressions")]
        case "LocalLimit" | "Offset":
            word = "a LIMIT" if node.kind == "LocalLimit" else "an OFFSET"
            obstacles = [None if _orders_all(node.children[0]) else f"{word} among rows of equal order"]
        case _:
            obstacles = []
    return next((each for each in obstacles if each is not None), None)


def _in_function(function: Mapping[str, Any]) -> str | None:
    """Return the obstacle in an aggregate function, from the facts about it in a plan."""
    kind, known = str(function["kind"]), function["inputType"]
    type_ = "a type that is not known" if known is None else str(known)
    name, of = sql_name_of(function), f"{sql_name_of(function)} of {type_}"
    if kind in _OF_VALUES:
        # A window does not say the types of nested columns.
        return of if known is None or _EQUAL_BUT_DIFFERENT.search(type_) else None
    if kind not in _OF_SUMS:
        return None if kind == "Count" else name
    # Spark adds up the values of an average as doubles, which have fewer digits than these integers.
    if not is_exact(type_) or (kind == "Average" and type_ in ("bigint", "long")):
        return of
    return None if function["evalMode"] == "ANSI" else f"{name} that may be NULL after an overflow"


def _in_window(expression: Node) -> str | None:
    """Return the obstacle in a function over a window."""
    if expression.kind != "WindowExpression":
        return "a window function in an expression"
    function, specification = expression.children
    if function.kind in _RANKS:
        return None
    name = sql_name_of({"kind": function.kind})
    if function.kind != "AggregateExpression":
        return name
    (called,) = function.children[:1]
    name = sql_name_of({"kind": called.kind})
    if not _has_whole_peers(specification.children[-1]):
        return f"{name} over rows of equal order"
    type_ = called.children[0].data_type if called.children else None
    mode = "ANSI" if called.kind == "Average" or _NARROW.fullmatch(str(type_)) else None
    return _in_function({"kind": called.kind, "inputType": type_, "evalMode": mode})


def _has_whole_peers(frame: Node) -> bool:
    """Return whether a frame has all rows of a partition, or all of equal order or none of them."""
    if frame.kind != "SpecifiedWindowFrame":
        return False
    if str(frame.fields["frameType"]["object"]).rpartition(".")[2] == "RangeFrame$":
        return True
    return [each.kind for each in frame.children] == ["UnboundedPreceding$", "UnboundedFollowing$"]


def _orders_all(node: Node) -> bool:
    """Return whether rows are ordered by all their columns, so that rows of equal order are equal."""
    columns: set[int | None] = {*(output_of(node) or [None])}
    while node.kind in ("Project", "Offset"):
        if node.kind == "Project":
            items = {item.identity: item for item in node.expressions("projectList")}
            constants = {each for each, item in items.items() if item.value().kind == "Literal"}
            read = {each: item.column() for each, item in items.items()}
            below = [None if each is None else read.get(each) for each in columns - constants]
            columns = {None if each is None else each.identity for each in below}
        node = node.children[0]
    if not columns:
        return True
    if node.kind != "Sort" or not node.fields["global"]:
        return False
    by = [each.children[0] for each in node.expressions("order")]
    return columns <= {
        each.identity for each in by if each.kind == "AttributeReference" and has_equal_bits(each.data_type)
    }
