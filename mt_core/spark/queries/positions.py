"""Positions: what a query takes from its sources by the positions of their columns, or as a whole row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import class_name, java_class, scala_items, state_of

_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.SubqueryExpression"
_STAR = "org.apache.spark.sql.catalyst.analysis.Star"
_EXCERPT_LENGTH = 60
# They give the columns of what is below by name.
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
    """Return a part of a query that gives other values once a source gets, loses or moves columns, None without one.

    A star or a table in a set operation is one, and a star below DISTINCT or in a function; a star of a nested query is not,
    if the query around names its columns. *session* is the active one.
    """
    walk = _Walk(session, text)
    return next(walk.parts(state_of(session).sqlParser().parsePlan(text), positional=False), None)


class _Walk:
    """Yields the positional parts of a plan. `positional`: what is around takes the columns of the plan by position."""

    def __init__(self, session: SparkSession, text: str) -> None:
        self._star, self._subquery, self._text = java_class(session, _STAR), java_class(session, _SUBQUERY), text

    def parts(self, plan: Any, *, positional: bool) -> Iterator[str]:
        kind = class_name(plan)
        if kind == "UnresolvedWith":
            for entry in scala_items(plan.cteRelations()):
                yield from self.parts(entry._2(), positional=False)
            yield from self.parts(plan.child(), positional=positional)
            return
        if kind == "UnresolvedRelation" and positional:
            yield self._excerpt(plan)
        expressions = list(scala_items(plan.expressions()))
        if kind == "Project":
            stars = [each for each in expressions if self._star.isInstance(each)]
            yield from map(self._excerpt, stars if positional else ())
            expressions = [each for each in expressions if each not in stars]
        yield from self._in_expressions(expressions)
        below = _takes_positions(kind, expressions, positional)
        for child in scala_items(plan.children()):
            yield from self.parts(child, positional=below)

    def _in_expressions(self, expressions: Iterable[Any]) -> Iterator[str]:
        for expression in expressions:
            if self._star.isInstance(expression):
                yield self._excerpt(expression)
            if self._subquery.isInstance(expression):
                # Whether EXISTS finds a row does not depend on the columns of its rows.
                yield from self.parts(expression.plan(), positional=class_name(expression) != "Exists")
            yield from self._in_expressions(scala_items(expression.children()))

    def _excerpt(self, node: Any) -> str:
        origin = node.origin()
        return self._text[int(origin.startIndex().get()) : int(origin.stopIndex().get()) + 1][:_EXCERPT_LENGTH]


def _takes_positions(kind: str, expressions: Iterable[Any], positional: bool) -> bool:
    """Return whether a node takes the columns below it by position."""
    match kind:
        case "Project" | "Aggregate":
            return False
        case "Sort":
            return positional or any(not _is_name(order.child()) for order in expressions)
        case _:
            return positional or kind not in _BY_NAME


def _is_name(expression: Any) -> bool:
    return class_name(expression) == "UnresolvedAttribute" and str(expression.name()).upper() != "ALL"
