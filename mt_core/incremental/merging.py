"""Merging: how the aggregates of old rows and of appended rows combine to those of all rows."""

from __future__ import annotations

from collections.abc import Mapping

from mt_core.incremental.plan import Node

AGAIN: Mapping[str, str] = {
    "Count": "sum",
    "Sum": "sum",
    "Min": "min",
    "Max": "max",
    "BoolAnd": "bool_and",
    "BoolOr": "bool_or",
    "BitAndAgg": "bit_and",
    "BitOrAgg": "bit_or",
    "BitXorAgg": "bit_xor",
}
"""The aggregates that combine, by their class in Spark, with the aggregate over results of parts that gives
that of all rows.
"""

Merge = tuple[str | None, ...]
"""For each column of the table its aggregate, one of `AGAIN`; None for a grouping key."""

_SUBTRACTED = frozenset({"Count", "Sum"})

_INTEGERS = ("byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint")
_NUMBERS = (*_INTEGERS, "decimal")
_DOUBLES = ("float", "double")
_ORDERED = (*_NUMBERS, *_DOUBLES, "string", "boolean", "date", "timestamp", "timestamp_ntz")


def merge_of(root: Node) -> Merge | str:
    """Return how the aggregates of a query combine, or why they do not:
    only one aggregate on top of rows that no group holds.
    """
    top = _without_renaming(root)
    if top.kind != "Aggregate":
        return "the aggregate is not on top"
    if not _rows_only(top.children[0]):
        return "there is another aggregate, a window or a ROLLUP below"
    grouping = {each.canonical() for each in top.expressions("groupingExpressions")}
    functions: list[str | None] = []
    missing = set(grouping)
    for item in top.expressions("aggregateExpressions"):
        value = item.value()
        if value.canonical() in grouping:
            missing.discard(value.canonical())
            functions.append(None)
            continue
        name = str(item.fields["name"])
        if value.kind != "AggregateExpression" or value.fields.get("isDistinct"):
            return f"column {name} is not a single aggregate of all rows"
        function = value.children[0].kind
        if function not in AGAIN:
            return f"{function} of column {name} does not combine"
        functions.append(function)
    return "a grouping key is not a column of the table" if missing else tuple(functions)


def can_subtract(merge: Merge) -> bool:
    """Return whether the aggregates of removed rows can be taken out of those of all rows of their groups."""
    functions = {function for function in merge if function is not None}
    return None in merge and bool(functions) and functions <= _SUBTRACTED


def row_count_of(root: Node) -> int | None:
    """Return the position of a column with the number of rows of each group; None without one."""
    items = _without_renaming(root).expressions("aggregateExpressions")
    return next((position for position, item in enumerate(items) if _counts_rows(item.value())), None)


def _counts_rows(value: Node) -> bool:
    # A second child is the condition of FILTER.
    if value.kind != "AggregateExpression" or value.fields.get("isDistinct") or len(value.children) > 1:
        return False
    counted = value.children[0].children
    return value.children[0].kind == "Count" and all(
        each.kind == "Literal" and each.fields["value"] is not None for each in counted
    )


def _without_renaming(node: Node) -> Node:
    """Return the aggregate below projections that give all its columns in its order, under whatever names;
    else the node itself.
    """
    top = node
    while top.kind in ("Project", "SubqueryAlias"):
        below = top.children[0]
        if top.kind == "Project":
            columns = [
                column.identity if (column := each.column()) else None
                for each in top.expressions("projectList")
            ]
            field = "aggregateExpressions" if below.kind == "Aggregate" else "projectList"
            if columns != [each.identity for each in below.expressions(field)]:
                return node
        top = below
    return top


def _rows_only(node: Node) -> bool:
    return node.kind not in ("Aggregate", "Window", "Expand") and all(map(_rows_only, node.children))


def check_types(merge: Merge, types: Mapping[str, str], *, null_after_overflow: bool) -> Merge | str:
    """Return *merge*, or why the types of the result's columns, by name and in order, do not allow it.

    *null_after_overflow*: sums give NULL in place of an error, and what a NULL stands
    for is not known any more.
    """
    for function, (name, written) in zip(merge, types.items(), strict=True):
        base = written.partition("(")[0].strip().lower()
        match function:
            case "Sum" if null_after_overflow:
                return f"the sum {name} is NULL after an overflow, which does not combine"
            case "Sum" if base not in (*_NUMBERS, *_DOUBLES):
                return f"the sum {name} of type {written} does not combine"
            case "Min" | "Max" if base not in _ORDERED:
                return f"{AGAIN[function]} of type {written} in column {name} does not combine"
            case _:
                pass
    return merge


def inexact_sum(merge: Merge, types: Mapping[str, str]) -> str | None:
    """Return which sum combines only to about what a recomputation gives, by the *types* of the columns;
    None if all are exact.

    The sum of doubles depends on the order of the additions:
    combined sums differ in their last bits from recomputed ones.
    """
    for function, (name, written) in zip(merge, types.items(), strict=True):
        if function == "Sum" and written.strip().lower() in _DOUBLES:
            return f"the sum of doubles {name} depends on the order of the additions"
    return None
