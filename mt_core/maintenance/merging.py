"""Merging: how the aggregates of old rows and of appended rows combine to those of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mt_core.maintenance.plan import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFunction:
    """How one aggregate combines: `again` is the aggregate over partial results, `update` the new value; `{c}` is the column,
    `t` the table, `s` the partial results of the appended rows."""

    again: str
    update: str


Merge = tuple[MergeFunction | None, ...]
"""For each column of the table how it combines; None for a grouping key."""

_NUMBERS = ("byte", "short", "integer", "long", "decimal")
_ORDERED = (*_NUMBERS, "float", "double", "string", "date", "timestamp", "timestamp_ntz")
_SUM = MergeFunction(again="sum", update="coalesce(t.{c} + s.{c}, t.{c}, s.{c})")
_EITHER = "CASE WHEN t.{c} IS NULL THEN s.{c} WHEN s.{c} IS NULL THEN t.{c} ELSE t.{c} %s s.{c} END"
_FUNCTIONS: Mapping[str, MergeFunction] = {
    "Count": MergeFunction(again="sum", update="t.{c} + s.{c}"),
    "Sum": _SUM,
    "Min": MergeFunction(again="min", update="least(t.{c}, s.{c})"),
    "Max": MergeFunction(again="max", update="greatest(t.{c}, s.{c})"),
    "BoolAnd": MergeFunction(again="bool_and", update=_EITHER % "AND"),
    "BoolOr": MergeFunction(again="bool_or", update=_EITHER % "OR"),
    "BitAndAgg": MergeFunction(again="bit_and", update=_EITHER % "&"),
    "BitOrAgg": MergeFunction(again="bit_or", update=_EITHER % "|"),
    "BitXorAgg": MergeFunction(again="bit_xor", update=_EITHER % "^"),
}


def merge_of(root: Node) -> Merge | str:
    """Return how the aggregates of a query combine, or why they do not: only one aggregate on top of rows that no group holds."""
    top = _without_renaming(root)
    if top.kind != "Aggregate":
        return "the aggregate is not on top"
    if not _rows_only(top.children[0]):
        return "there is another aggregate, a window or a ROLLUP below"
    grouping = {each.canonical() for each in top.expressions("groupingExpressions")}
    functions: list[MergeFunction | None] = []
    missing = set(grouping)
    for item in top.expressions("aggregateExpressions"):
        value = item.value()
        if value.canonical() in grouping:
            missing.discard(value.canonical())
            functions.append(None)
            continue
        function = _function_of(value, name=str(item.fields["name"]))
        if isinstance(function, str):
            return function
        functions.append(function)
    return "a grouping key is not a column of the table" if missing else tuple(functions)


def _without_renaming(node: Node) -> Node:
    """Return the aggregate below projections that give all its columns in its order, under whatever names; else the node itself."""
    top = node
    while top.kind in ("Project", "SubqueryAlias"):
        below = top.children[0]
        if top.kind == "Project":
            columns = [
                column.identity if (column := each.column()) else None for each in top.expressions("projectList")
            ]
            field = "aggregateExpressions" if below.kind == "Aggregate" else "projectList"
            if columns != [each.identity for each in below.expressions(field)]:
                return node
        top = below
    return top


def _rows_only(node: Node) -> bool:
    return node.kind not in ("Aggregate", "Window", "Expand") and all(map(_rows_only, node.children))


def _function_of(value: Node, *, name: str) -> MergeFunction | str:
    """Return how an aggregate combines, or why it does not."""
    if value.kind != "AggregateExpression" or value.fields.get("isDistinct"):
        return f"column {name} is not a single aggregate of all rows"
    function = value.children[0]
    merge = _FUNCTIONS.get(function.kind)
    if merge is None:
        return f"{function.kind} of column {name} does not combine"
    return merge


def check_types(merge: Merge, types: Mapping[str, str], *, null_after_overflow: bool) -> Merge | str:
    """Return *merge*, or why the types of the result's columns, by name and in order, do not allow it.

    *null_after_overflow*: sums give NULL in place of an error, and what a NULL stands for is not known any more.

    The sum of doubles depends on the order of the additions, so combined sums would differ in their last bits from recomputed ones.
    """
    checked: list[MergeFunction | None] = []
    for function, (name, written) in zip(merge, types.items(), strict=True):
        base = written.partition("(")[0].strip().lower()
        if function is None:
            checked.append(None)
            continue
        if function is _SUM and null_after_overflow:
            return f"the sum {name} is NULL after an overflow, which does not combine"
        if function is _SUM and base in ("float", "double"):
            return f"the sum of doubles {name} depends on the order of the additions"
        if function is _SUM and base not in (*_NUMBERS, "bigint", "smallint", "tinyint", "int"):
            return f"the sum {name} of type {written} does not combine"
        checked.append(_of_type(function, base) if function.again in ("min", "max") else function)
        if checked[-1] is None:
            return f"{function.again} of type {written} in column {name} does not combine"
    return tuple(checked)


def _of_type(function: MergeFunction, base: str) -> MergeFunction | None:
    """Return how MIN or MAX of a type combines: booleans with AND and OR; None for types without LEAST and GREATEST."""
    if base == "boolean":
        return _FUNCTIONS["BoolAnd" if function.again == "min" else "BoolOr"]
    return function if base in (*_ORDERED, "bigint", "smallint", "tinyint", "int") else None
