"""Queries with a top-level ORDER BY and LIMIT. Appends never bring a row back that the LIMIT once cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mt_core.incremental.plan import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """The LIMIT `rows` of a query, and its ORDER BY as pairs of a column position and a SQL direction.

    Appends to the relations `reads` only add rows below the LIMIT. `total` is True if the order includes all
    columns, so tied rows are equal.
    """

    rows: int
    order: tuple[tuple[int, str], ...]
    reads: frozenset[int]
    total: bool


def sort_of(root: Node) -> tuple[int, Node] | None:
    """Return a query's LIMIT and the Sort below it, or None if the query has another shape."""
    node = root
    for kind in ("GlobalLimit", "LocalLimit"):
        while node.kind == "SubqueryAlias":
            node = node.children[0]
        if node.kind != kind or any(each.kind != "Literal" for each in node.expressions("limitExpr")):
            return None
        number, node = str(node.expressions("limitExpr")[0].fields["value"]), node.children[0]
    return (int(number), node) if node.kind == "Sort" and node.fields["global"] and number.isdigit() else None


def first_rows(rows: int, sort: Node, columns: Sequence[int], *, reads: frozenset[int]) -> FirstRows | None:
    """Return the facts of a LIMIT above *sort*, or None if it does not order by output *columns* only."""
    order = []
    for each in sort.expressions("order"):
        column = each.children[0].column()
        if column is None or column.identity not in columns:
            return None
        direction = "ASC" if _names(each, "direction", "Ascending") else "DESC"
        nulls = "FIRST" if _names(each, "nullOrdering", "NullsFirst") else "LAST"
        order.append((columns.index(column.identity), f"{direction} NULLS {nulls}"))
    total = {position for position, _ in order} == set(range(len(columns)))
    return FirstRows(rows=rows, order=tuple(order), reads=reads, total=total)


def _names(order: Node, field: str, name: str) -> bool:
    return str(order.fields[field]["object"]).rpartition(".")[2] == f"{name}$"
