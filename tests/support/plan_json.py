"""Plans as the compiler of stages reads them, written by hand: lists of nodes in pre-order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

Nodes = list[dict[str, Any]]
_numbers = count()


def node(kind: str, *children: Nodes, **fields: Any) -> Nodes:
    """Return an operator or an expression above its children."""
    own = {"class": kind, "num-children": len(children), **fields}
    return [own, *(each for child in children for each in child)]


def operator(kind: str, *children: Nodes, deterministic: bool = True, **fields: Any) -> Nodes:
    return node(kind, *children, deterministic=deterministic, **fields)


def column(number: int, name: str = "x", type_: str = "integer") -> Nodes:
    return node("AttributeReference", name=name, dataType=type_, exprId={"id": number})


def alias(number: int, value: Nodes, name: str = "x") -> Nodes:
    return node("Alias", value, name=name, exprId={"id": number})


def literal(value: object) -> Nodes:
    return node("Literal", value=str(value), dataType="integer")


def equal(left: Nodes, right: Nodes) -> Nodes:
    return node("EqualTo", left, right)


def subquery(tree: int) -> Nodes:
    """Return a scalar subquery whose plan is the tree of that number."""
    return node("ScalarSubquery", subquery=tree)


def relation(reading: int | None, names: Mapping[int, str]) -> Nodes:
    """Return a relation with the columns *names* by id; None for a relation that is no reading."""
    output = [column(number, name) for number, name in names.items()]
    return operator("DataSourceV2Relation", output=output, reading=reading)


def project(items: Sequence[Nodes], child: Nodes, **fields: Any) -> Nodes:
    return operator("Project", child, projectList=list(items), **fields)


def where(condition: Nodes, child: Nodes) -> Nodes:
    return operator("Filter", child, condition=condition)


def join(
    kind: str, left: Nodes, right: Nodes, condition: Nodes | None = None, *, exists: int | None = None
) -> Nodes:
    """Return a join; *exists* is the id of the flag of an ExistenceJoin."""
    of = (
        {"product-class": "ExistenceJoin", "exists": column(exists)}
        if kind == "ExistenceJoin" and exists
        else {"object": f"{kind}$"}
    )
    return operator("Join", left, right, joinType=of, condition=condition)


def call(kind: str, *arguments: Nodes, distinct: bool = False) -> Nodes:
    """Return a call of an aggregate function."""
    return node("AggregateExpression", node(kind, *arguments), isDistinct=distinct)


def function(kind: str, type_: str | None = "integer", **facts: Any) -> dict[str, Any]:
    """Return the facts about an aggregate function."""
    own = {"kind": kind, "inputType": type_, "evalMode": "ANSI", "distinct": False, "filtered": False}
    return own | facts


def aggregate(
    keys: Sequence[Nodes],
    items: Sequence[Nodes],
    child: Nodes,
    *,
    functions: Sequence[Mapping[str, Any]] = (),
    same: str | None = None,
    key_types: Sequence[str] | None = None,
    **fields: Any,
) -> Nodes:
    """Return an aggregate. Aggregates of which Spark says that they are the same have one word in *same*."""
    return operator(
        "Aggregate",
        child,
        groupingExpressions=list(keys),
        aggregateExpressions=list(items),
        functions=list(functions),
        keyTypes=["integer"] * len(keys) if key_types is None else list(key_types),
        same=str(next(_numbers)) if same is None else same,
        **fields,
    )
