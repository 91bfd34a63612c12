"""Finds stars and subqueries in the expressions of a parsed plan, with few calls to the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import java_class, scala_items, state_of, static_member

_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.SubqueryExpression"
_STAR = "org.apache.spark.sql.catalyst.analysis.Star"
_REFERENCES = "org.apache.spark.sql.catalyst.analysis.Analyzer$ResolveReferences"
_WITH_PLAN = "org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION"


class ParsedExpressions:
    """Finds stars and subqueries in plans from the parser of *session*, which must be active.

    A list may have thousands of literals. Spark therefore checks a whole list in one call, and checks its
    halves only if the list has a star.
    """

    def __init__(self, session: SparkSession) -> None:
        analyzer = state_of(session).analyzer()
        self._star, self._subquery = java_class(session, _STAR), java_class(session, _SUBQUERY)
        self._with_plan = static_member(session, _WITH_PLAN)()
        self._rule = static_member(session, _REFERENCES)(analyzer, analyzer.catalogManager())

    def is_star(self, expression: Any) -> bool:
        return bool(self._star.isInstance(expression))

    def found(self, node: Any) -> Iterator[Any]:
        """Yield the stars and subqueries in the expressions of a plan *node*, in pre-order."""
        for expression in self._parts(node, node.expressions()):
            yield from self._within(expression)

    def _within(self, expression: Any) -> Iterator[Any]:
        if self.is_star(expression) or self._subquery.isInstance(expression):
            yield expression
        for child in self._parts(expression, expression.children()):
            yield from self._within(child)

    def _parts(self, node: Any, expressions: Any) -> Iterator[Any]:
        """Yield the items of *expressions* (a Scala Seq) of a node that may contain a star or a subquery."""
        return (
            scala_items(expressions)
            if node.containsPattern(self._with_plan)
            else self._with_stars(expressions)
        )

    def _with_stars(self, expressions: Any) -> Iterator[Any]:
        """Yield the items of a Scala Seq that contain a star, found by binary search."""
        if not self._rule.containsStar(expressions):
            return
        size = int(expressions.size())
        if size == 1:
            yield expressions.head()
            return
        yield from self._with_stars(expressions.slice(0, size // 2))
        yield from self._with_stars(expressions.slice(size // 2, size))
