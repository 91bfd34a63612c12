"""Merging: how aggregates of old and of appended rows combine into the aggregates of all rows."""

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
"""Mergeable aggregates by Spark class, with the aggregate that combines their partial results."""

Merge = tuple[str | None, ...]
"""The aggregate of each column of the table, one of `AGAIN`, or None for a grouping key."""

_SUBTRACTED = frozenset({"Count", "Sum"})

_INTEGERS = ("byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint")
_NUMBERS = (*_INTEGERS, "decimal")
_DOUBLES = ("float", "double")
_ORDERED = (*_NUMBERS, *_DOUBLES, "string", "boolean", "date", "timestamp", "timestamp_ntz")


def merge_of(root: Node) -> Merge | str:
    """Return how the aggregates of a query combine, or the reason why they do not.

    They combine if the query is a single Aggregate whose input has no other aggregate.
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
    """Return whether the aggregates of removed rows can be subtracted from those of their groups."""
    functions = {function for function in merge if function is not None}
    return None in merge and bool(functions) and functions <= _SUBTRACTED


def row_count_of(root: Node) -> int | None:
    """Return the position of a column that counts the rows of each group, or None if there is none."""
    items = _without_renaming(root).expressions("aggregateExpressions")
    return next((position for position, item in enumerate(items) if _counts_rows(item.value())), None)


def _counts_rows(value: Node) -> bool:
    # A second child would be the condition of a FILTER clause.
    if value.kind != "AggregateExpression" or value.fields.get("isDistinct") or len(value.children) > 1:
        return False
    counted = value.children[0].children
    return value.children[0].kind == "Count" and all(
        each.kind == "Literal" and each.fields["value"] is not None for each in counted
    )


def _without_renaming(node: Node) -> Node:
    """Return the Aggregate below projections that only rename its columns, or *node* if there is none."""
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
    """Return *merge*, or the reason why the *types* of the result's columns rule it out.

    If *null_after_overflow* is set, a sum that overflows is NULL, which cannot be merged.
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
    """Return why a merged sum may differ from a recomputed one, or None if all sums are exact.

    The result of a sum of doubles depends on the order of the additions, so a merged sum may differ in its
    last bits.
    """
    for function, (name, written) in zip(merge, types.items(), strict=True):
        if function == "Sum" and written.strip().lower() in _DOUBLES:
            return f"the sum of doubles {name} depends on the order of the additions"
    return None
