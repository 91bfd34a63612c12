"""The first rows of an ordered result: ORDER BY and LIMIT on top of a query, which keep of old rows none
that they had left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mt_core.incremental.plan import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """So many `rows` come first in the `order` of columns, each with its position and its direction in SQL.

    `reads` are the relations whose appended rows only add rows below; `total`:
    rows that are equal in the order are equal.
    """

    rows: int
    order: tuple[tuple[int, str], ...]
    reads: frozenset[int]
    total: bool


def sort_of(root: Node) -> tuple[int, Node] | None:
    """Return the number of rows to which a query limits what a Sort gives, and that Sort;
    None for any other query.
    """
    node = root
    for kind in ("GlobalLimit", "LocalLimit"):
        while node.kind == "SubqueryAlias":
            node = node.children[0]
        if node.kind != kind or any(each.kind != "Literal" for each in node.expressions("limitExpr")):
            return None
        number, node = str(node.expressions("limitExpr")[0].fields["value"]), node.children[0]
    return (int(number), node) if node.kind == "Sort" and node.fields["global"] and number.isdigit() else None


def first_rows(rows: int, sort: Node, columns: Sequence[int], *, reads: frozenset[int]) -> FirstRows | None:
    """Return what is kept of a Sort whose *columns* have these ids;
    None if it orders by anything else than they.
    """
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
