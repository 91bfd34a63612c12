"""First rows: a LIMIT at the end of a query with an ORDER BY by columns of the result.

The table has the first rows of all rows that the query would return without the LIMIT, and a change of these
rows changes it as long as no row comes back that the LIMIT has cut off. So rows that were added, and rows
that were removed behind the last row of the table, are all that has to be known. Rows are compared by the
values that the table stores; therefore the ORDER BY may only have columns of the result, also if the plan
names them otherwise below a projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mt_core.incremental.plan import Node, output_of
from mt_core.incremental.stages.blocks import Place, place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A LIMIT of a number of `rows`, and the ORDER BY as pairs of a column position and a SQL direction.

    `total` is True if the order includes all columns, so tied rows are equal. The rows below the ORDER BY are
    those of the operator at `place`, and `columns` has for each column of the query its position there.
    """

    rows: int
    order: tuple[tuple[int, str], ...]
    total: bool
    place: Place
    columns: tuple[int, ...]


def limit_of(root: Node) -> Limit | None:
    """Return the LIMIT of a query, or None if it has none or if its order does not follow from the result."""
    node, path = root, list[int]()
    for kind in ("GlobalLimit", "LocalLimit"):
        if node.kind != kind or any(each.kind != "Literal" for each in node.expressions("limitExpr")):
            return None
        node, path = node.children[0], [*path, 0]
    rows, ids = _rows(root), output_of(root)
    while node.kind == "Project" and ids is not None:
        ids = _renamed(node, ids)
        node, path = node.children[0], [*path, 0]
    if node.kind != "Sort" or not node.fields["global"] or rows is None or ids is None:
        return None
    below = output_of(node) or ()
    values = _values(node.children[0])
    columns = [values.get(each, each) for each in ids]
    order = list[tuple[int, str]]()
    for each in node.expressions("order"):
        column = each.children[0].column()
        if column is None or (value := values.get(column.identity, column.identity)) not in columns:
            return None
        order.append((columns.index(value), _direction(each)))
    if not set(ids) <= set(below):
        return None
    return Limit(
        rows=rows,
        order=tuple(order),
        total={columns[position] for position, _ in order} == set(columns),
        place=place_of(0, [*path, 0]),
        columns=tuple(map(below.index, ids)),
    )


def _rows(limit: Node) -> int | None:
    """Return how many rows a LIMIT returns, or None if this is not known or no row."""
    number = str(limit.expressions("limitExpr")[0].fields["value"])
    return int(number) or None if number.isdigit() else None


def _renamed(project: Node, ids: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the columns below a projection that it returns as *ids*, or None if one is computed."""
    below = {
        item.identity: item.value().identity
        for item in project.expressions("projectList")
        if item.value().kind == "AttributeReference"
    }
    return tuple(below[each] for each in ids) if set(ids) <= below.keys() else None


def _values(operator: Node) -> Mapping[int, int]:
    """Return the columns of a projection that it returns unchanged, with those below that they are."""
    return {
        item.identity: column.identity
        for item in operator.expressions("projectList")
        if (column := item.column()) is not None
    }


def _direction(order: Node) -> str:
    direction = "ASC" if _is(order, "direction", "Ascending") else "DESC"
    return f"{direction} NULLS {'FIRST' if _is(order, 'nullOrdering', 'NullsFirst') else 'LAST'}"


def _is(order: Node, field: str, name: str) -> bool:
    return str(order.fields[field]["object"]).rpartition(".")[2] == f"{name}$"
