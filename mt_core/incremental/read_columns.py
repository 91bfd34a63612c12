"""The columns of relations that a query reads, derived from the JSON of its analysed plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mt_core.incremental.plan import LEFT_ONLY, TRANSPARENT, Node, join_type, read_plan

# Operators that output the columns of their children with the same ids.
_PASSING = TRANSPARENT | {"Filter", "Join", "GlobalLimit", "LocalLimit", "Window", "Generate"}
_RELATION = "DataSourceV2Relation"


def read_attributes(plan: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Return the ids of the attributes on which a query's result depends, from its analysed plan (JSON).

    A column that the query selects only through a star, and that nothing above reads, is omitted. If it is
    unclear whether a column is read, it is included.
    """
    walk = _Walk()
    walk.visit(read_plan(plan), whole=True)
    return walk.all_read()


@dataclass(slots=True)
class _Walk:
    """Collects the attributes that a plan reads.

    `behind` maps each projected column to the attributes that are read only if that column is read.
    """

    read: set[int] = field(default_factory=set)
    behind: dict[int, set[int]] = field(default_factory=dict)

    def visit(self, node: Node, *, whole: bool) -> None:
        """Add the attributes that *node* reads, including all its columns if *whole* is set."""
        if node.kind == _RELATION:
            if whole:
                self.read |= {attribute for attribute, _ in _attributes(node.fields["output"])}
            return
        if node.kind == "Project":
            self._project(node, whole=whole)
        else:
            self._expressions(node.fields)
        below = whole if node.kind in _PASSING else node.kind not in ("Project", "Aggregate")
        for position, child in enumerate(node.children):
            self.visit(child, whole=below and not _is_only_matched(node, position))

    def _project(self, node: Node, *, whole: bool) -> None:
        for entry in node.fields["projectList"]:
            expression = read_plan(entry)
            if expression.kind == "AttributeReference":
                self.read |= {expression.identity} if whole else set()
            elif whole or expression.kind != "Alias":
                self._expressions(entry)
            else:
                value = _Walk()
                value._expressions(entry)
                self.behind.setdefault(expression.identity, set()).update(value.all_read())

    def _expressions(self, body: Any) -> None:
        for attribute, plan in _attributes(body):
            if plan is None:
                self.read.add(attribute)
            else:
                self.visit(read_plan(plan), whole=True)

    def all_read(self) -> frozenset[int]:
        """Return all attributes that are read, directly or through a projected column."""
        pending = list(self.read)
        while pending:
            more = self.behind.pop(pending.pop(), set()) - self.read
            self.read |= more
            pending += more
        return frozenset(self.read)


def _is_only_matched(node: Node, child: int) -> bool:
    """Return whether an operator reads a child only in its condition, as a semi join reads its right side."""
    return node.kind == "Join" and child == 1 and join_type(node) in (*LEFT_ONLY, "ExistenceJoin")


def all_attributes(body: Any) -> Iterator[int]:
    """Yield the attribute ids in the JSON of expressions, without those in subqueries."""
    return (attribute for attribute, plan in _attributes(body) if plan is None)


def _attributes(body: Any) -> Iterator[tuple[int, Sequence[Mapping[str, Any]] | None]]:
    """Yield the attribute ids in an operator's expressions, and the plans of its subqueries with id 0."""
    if isinstance(body, list):
        for each in body:
            yield from _attributes(each)
    elif isinstance(body, Mapping):
        if str(body.get("class", "")).rpartition(".")[2] == "AttributeReference":
            yield int(body["exprId"]["id"]), None
        for key, value in body.items():
            if key == "plan" and isinstance(value, list) and value and "class" in value[0]:
                yield 0, value
            else:
                yield from _attributes(value)
