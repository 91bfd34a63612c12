"""Analysed plans as a tree of nodes, read from Spark's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OCCURRENCE_PREFIX = "_source_"
"""The alias of the n-th relation in the text is this prefix and n, which identifies it in the plan."""

# Fields that may differ between uses of the same expression.
_NAMES_OF_USES = frozenset({"exprId", "qualifier", "metadata", "nonInheritableMetadataKeys"})
_INTEGERS = ("byte", "short", "integer", "long")


TRANSPARENT = frozenset(
    {
        *("Sort", "SubqueryAlias", "View", "ResolvedHint"),
        *("Repartition", "RepartitionByExpression", "RebalancePartitions"),
    }
)
"""Operators that output the rows of their child unchanged."""
LEFT_ONLY = frozenset({"LeftSemi", "LeftAnti"})
"""Joins that output only columns of their left side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An operator or an expression.

    `kind` is its Spark class without the package; `fields` are its JSON fields.
    """

    kind: str
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    def expressions(self, field: str) -> tuple[Node, ...]:
        """Return the expressions in a field of an operator, or an empty tuple if it has no such field."""
        value = self.fields.get(field)
        if not value:
            return ()
        return tuple(map(read_plan, value)) if isinstance(value[0], list) else (read_plan(value),)

    def identities(self, field: str) -> tuple[int, ...]:
        """Return the column ids of the expressions in a field of an operator."""
        return tuple(each.identity for each in self.expressions(field))

    @property
    def identity(self) -> int:
        """The id of an attribute or an alias, which is the same wherever the plan uses it."""
        return int(self.fields["exprId"]["id"])

    @property
    def data_type(self) -> str | None:
        """Spark's name of the type of an attribute or a cast, or None for nested and unrecorded types."""
        written = self.fields.get("dataType")
        return written if isinstance(written, str) else None

    def attributes(self) -> frozenset[int]:
        """Return the ids of the attributes that an expression reads."""
        if self.kind == "AttributeReference":
            return frozenset({self.identity})
        return attributes_of(self.children)

    def canonical(self) -> tuple[Any, ...]:
        """Return a value that is equal for equal expressions."""
        if self.kind == "AttributeReference":
            return (self.kind, self.identity)
        facts = {key: value for key, value in self.fields.items() if key not in _NAMES_OF_USES}
        return (self.kind, json.dumps(facts, sort_keys=True), *(each.canonical() for each in self.children))

    def value(self) -> Node:
        """Return the expression below an alias, or the node itself if it is not an alias."""
        return self.children[0] if self.kind == "Alias" else self

    def column(self) -> Node | None:
        """Return the attribute that the expression returns unchanged or as a wider integer, or None."""
        node = self.value()
        while node.kind == "Cast" and _widens(node.children[0].data_type, node.data_type):
            node = node.children[0]
        return node if node.kind == "AttributeReference" else None

    def nodes(self) -> Iterator[Node]:
        """Yield the node itself and all nodes below it."""
        yield self
        for child in self.children:
            yield from child.nodes()

    def conjuncts(self) -> Iterator[Node]:
        """Yield the conditions that are combined by AND."""
        if self.kind != "And":
            yield self
            return
        for child in self.children:
            yield from child.conjuncts()


def _widens(source: str | None, target: str | None) -> bool:
    if source not in _INTEGERS or target not in _INTEGERS:
        return False
    return _INTEGERS.index(source) <= _INTEGERS.index(target)


def read_plan(nodes: Sequence[Mapping[str, Any]]) -> Node:
    """Return the tree of *nodes*, which Spark's toJSON() lists in pre-order."""
    return _read(iter(nodes))


def _read(nodes: Iterator[Mapping[str, Any]]) -> Node:
    fields = next(nodes)
    children = tuple(_read(nodes) for _ in range(fields["num-children"]))
    return Node(kind=str(fields["class"]).rpartition(".")[2], fields=fields, children=children)


def attributes_of(expressions: Iterable[Node]) -> frozenset[int]:
    """Return the ids of the attributes that *expressions* read."""
    return frozenset[int]().union(*(expression.attributes() for expression in expressions))


def occurrence_of(node: Node) -> int | None:
    """Return the number in the alias *node*, or None if it is not the numbered alias of a relation."""
    if node.kind != "SubqueryAlias":
        return None
    name = str(node.fields["identifier"]["name"])
    number = name.removeprefix(OCCURRENCE_PREFIX)
    return int(number) if number != name and number.isdigit() else None


def occurrences_below(node: Node) -> Iterator[int]:
    """Yield the numbers of the relations in a plan, repeated for each time that the plan reads them."""
    number = occurrence_of(node)
    if number is not None:
        yield number
    for child in node.children:
        yield from occurrences_below(child)


def reading_of(node: Node) -> int | None:
    """Return the number of the relation that *node* is in the tree of a query in stages, or None."""
    number = node.fields.get("reading")
    return None if number is None else int(number)


def readings_below(node: Node) -> Iterator[int]:
    """Yield the numbers of the relations in a tree, repeated for each time that it reads them."""
    number = reading_of(node)
    if number is not None:
        yield number
    for child in node.children:
        yield from readings_below(child)


def all_values(plan: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all subqueries in the expressions of an analysed plan are scalar and uncorrelated."""
    return all(
        str(each["class"]).endswith("ScalarSubquery") and not each["outerAttrs"] for each in _subqueries(plan)
    )


def _subqueries(body: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the subquery expressions in the JSON of a plan, including nested subqueries."""
    if isinstance(body, list):
        for each in body:
            yield from _subqueries(each)
    elif isinstance(body, Mapping):
        if "outerAttrs" in body:
            yield body
        yield from _subqueries(list(body.values()))


def join_type(node: Node) -> str:
    """Return the type of a join.

    It is one of Inner, Cross, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti and ExistenceJoin.
    """
    written = node.fields["joinType"]
    return str(written.get("object") or written["product-class"]).rpartition(".")[2].removesuffix("$")


def joined_columns(node: Node, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Return the output column ids of a join, given those of its two sides."""
    kind = join_type(node)
    if kind in LEFT_ONLY:
        return left
    if kind == "ExistenceJoin":
        return (*left, read_plan(node.fields["joinType"]["exists"]).identity)
    return (*left, *right)


def output_of(node: Node) -> tuple[int, ...] | None:
    """Return the ids of the columns of an operator in order, or None if they are not known."""
    for named in ("output", "projectList", "aggregateExpressions"):
        if named in node.fields:
            return node.identities(named)
    below = [output_of(child) for child in node.children]
    first = below[0] if below else None
    if first is None:
        return None
    match node.kind:
        case "Join":
            return None if below[1] is None else joined_columns(node, first, below[1])
        case "Window":
            return (*first, *node.identities("windowExpressions"))
        # The columns of a UNION have the ids of its first branch.
        case "Filter" | "Union" | "GlobalLimit" | "LocalLimit" | "Offset":
            return first
        case kind if kind in TRANSPARENT:
            return first
        case _:
            return None
