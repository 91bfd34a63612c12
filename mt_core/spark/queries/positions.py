"""Positional parts of a query: those that depend on which columns a source has, or on their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import class_name, scala_items, state_of
from mt_core.spark.queries.parsed_expressions import ParsedExpressions

_EXCERPT_LENGTH = 60
# Operators that pass on the columns of their children by name.
_BY_NAME = frozenset(
    {
        "Filter",
        "Generate",
        "GlobalLimit",
        "Join",
        "LateralJoin",
        "LocalLimit",
        "Offset",
        "SubqueryAlias",
        "UnresolvedHint",
    }
)


def positional_part(session: SparkSession, text: str) -> str | None:
    """Return a part of a query whose result may change if a source adds, drops or moves columns, or None.

    Such parts are stars and tables in a set operation, and stars below DISTINCT or in a function. A star in
    a subquery is not such a part if the outer query names its columns. *session* must be active.
    """
    walk = _Walk(session, text)
    return next(walk.parts(state_of(session).sqlParser().parsePlan(text), positional=False), None)


class _Walk:
    """Yields the positional parts of a plan.

    With *positional*, the enclosing operator uses the plan's columns by position.
    """

    def __init__(self, session: SparkSession, text: str) -> None:
        self._expressions, self._text = ParsedExpressions(session), text

    def parts(self, plan: Any, *, positional: bool) -> Iterator[str]:
        kind = class_name(plan)
        if kind == "UnresolvedWith":
            for entry in scala_items(plan.cteRelations()):
                yield from self.parts(entry._2(), positional=False)
            yield from self.parts(plan.child(), positional=positional)
            return
        if kind == "UnresolvedRelation" and positional:
            yield self._excerpt(plan)
        # A top-level star in a SELECT list passes on columns by name, unless the enclosing operator uses
        # positions.
        yield from self._in_expressions(plan, whole=kind != "Project" or positional)
        below = _takes_positions(plan, kind, positional)
        for child in scala_items(plan.children()):
            yield from self.parts(child, positional=below)

    def _in_expressions(self, plan: Any, *, whole: bool) -> Iterator[str]:
        """Yield the positional parts in a node's expressions; with *whole*, this includes top-level stars."""
        for expression in self._expressions.found(plan, whole=whole):
            if self._expressions.is_subquery(expression):
                # The result of EXISTS does not depend on the columns of its rows.
                yield from self.parts(expression.plan(), positional=class_name(expression) != "Exists")
            else:
                yield self._excerpt(expression)

    def _excerpt(self, node: Any) -> str:
        origin = node.origin()
        return self._text[int(origin.startIndex().get()) : int(origin.stopIndex().get()) + 1][
            :_EXCERPT_LENGTH
        ]


def _takes_positions(plan: Any, kind: str, positional: bool) -> bool:
    """Return whether a node uses the columns of its children by position."""
    match kind:
        case "Project" | "Aggregate":
            return False
        case "Sort":
            return positional or any(not _is_name(order.child()) for order in scala_items(plan.expressions()))
        case _:
            return positional or kind not in _BY_NAME


def _is_name(expression: Any) -> bool:
    return class_name(expression) == "UnresolvedAttribute" and str(expression.name()).upper() != "ALL"
