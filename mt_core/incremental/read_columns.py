"""The columns of relations that a query reads, from the JSON of its analysed plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mt_core.incremental.plan import TRANSPARENT, Node, read_plan

# Operators whose columns are those of the operator below, by their ids.
_PASSING = TRANSPARENT | {"Filter", "Join", "GlobalLimit", "LocalLimit", "Window"}
_RELATION = "DataSourceV2Relation"


def read_attributes(plan: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Return the ids of the attributes that the result of a query depends on;
    *plan* is its analysed plan as JSON.

    A column that only a star names, and that nothing above it reads, is left out;
    where that is not certain it is counted.
    """
    walk = _Walk()
    walk.visit(read_plan(plan), whole=True)
    return walk.all_read()


@dataclass(slots=True)
class _Walk:
    """Collects attributes that are read, and those that a projection's column reads only
    if it is read itself.
    """

    read: set[int] = field(default_factory=set)
    behind: dict[int, set[int]] = field(default_factory=dict)

    def visit(self, node: Node, *, whole: bool) -> None:
        """Take up what *node* reads; *whole*: all its columns are read."""
        if node.kind == _RELATION:
            if whole:
                self.read |= {attribute for attribute, _ in _attributes(node.fields["output"])}
            return
        if node.kind == "Project":
            self._project(node, whole=whole)
        else:
            self._expressions(node.fields)
        below = whole if node.kind in _PASSING else node.kind not in ("Project", "Aggregate")
        for child in node.children:
            self.visit(child, whole=below)

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
        """Return what is read, also through the columns of projections that are."""
        left = list(self.read)
        while left:
            more = self.behind.pop(left.pop(), set()) - self.read
            self.read |= more
            left += more
        return frozenset(self.read)


def _attributes(body: Any) -> Iterator[tuple[int, Sequence[Mapping[str, Any]] | None]]:
    """Yield the ids of the attributes in the expressions of an operator,
    and the plans of subqueries there.
    """
    if isinstance(body, list):
        for each in body:
            yield from _attributes(each)
    elif isinstance(body, Mapping):
        if str(body.get("class", "")).endswith(".AttributeReference"):
            yield int(body["exprId"]["id"]), None
        for key, value in body.items():
            if key == "plan" and isinstance(value, list) and value and "class" in value[0]:
                yield 0, value
            else:
                yield from _attributes(value)
