"""Stars of a query: each `*`, and each `TABLE t`, written out as the columns that it means when the query is created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid
from mt_core.identifiers import sql_name
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.jvm_objects import jvm_of, scala_items, session_state
from mt_core.spark.queries.relations import TABLE_WORD

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_STAR = "org.apache.spark.sql.catalyst.analysis.Star"
_SHOWN = 60

Scope = tuple[tuple[Any, int], ...]
"""The WITH clauses around a part of a query, outermost first, each with how many of its queries that part can name."""


class StarWriter:
    """Writes the stars of one query out, in the session in which the query is analysed."""

    def __init__(self, session: SparkSession, text: str) -> None:
        self._session, self._text, self._jvm = session, text, jvm_of(session)
        self._resolver = session_state(session).conf().resolver()
        classes = self._jvm.java.lang.Class
        self._star = classes.forName(_STAR)
        self._subquery = classes.forName(f"{_EXPRESSIONS}.SubqueryExpression")
        self._edits: list[tuple[int, int, str]] = []

    def written_out(self) -> str:
        """Return the text without stars; raises DefinitionInvalid for one that no list of columns can replace exactly."""
        self._plan(session_state(self._session).sqlParser().parsePlan(self._text), ())
        text = self._text
        for start, stop, columns in sorted(set(self._edits), reverse=True):
            text = f"{text[:start]}{columns}{text[stop:]}"
        return text

    def _plan(self, plan: Any, scope: Scope, *, exists: bool = False) -> None:
        match str(plan.getClass().getSimpleName()):
            case "UnresolvedWith":
                self._with(plan, scope)
                return
            case "UnresolvedRelation":
                self._whole_table(plan, scope)
            case "UnresolvedSubqueryColumnAliases":
                self._renamed(plan.child(), scope)
            case kind:
                # Whether EXISTS finds a row does not depend on the columns of its rows.
                self._selected(plan, scope, counts=not (exists and kind == "Project"))
        for child in scala_items(plan.children()):
            self._plan(child, scope)

    def _with(self, plan: Any, scope: Scope) -> None:
        entries, recursive = list(scala_items(plan.cteRelations())), bool(plan.allowRecursion())
        for index, entry in enumerate(entries):
            self._plan(entry._2(), (*scope, (plan, index + 1 if recursive else index)))
        self._plan(plan.child(), (*scope, (plan, len(entries))))

    def _below(self, expression: Any, scope: Scope) -> None:
        """Look into the subqueries of an expression."""
        if self._subquery.isInstance(expression):
            self._plan(expression.plan(), scope, exists=str(expression.getClass().getSimpleName()) == "Exists")
        for child in scala_items(expression.children()):
            self._below(child, scope)

    def _whole_table(self, relation: Any, scope: Scope) -> None:
        start = int(relation.origin().startIndex().get())
        word = TABLE_WORD.search(self._text[:start])
        if word is not None:
            self._edits.append((word.start(), start, f"SELECT {self._columns_of(relation, scope)} FROM "))

    def _renamed(self, relation: Any, scope: Scope) -> None:
        """`t AS x(a, b)` names the columns of t by position: give it those there are now."""
        if str(relation.getClass().getSimpleName()) == "UnresolvedRelation" and relation.options().isEmpty():
            start, stop = _span(relation)
            name = self._text[start:stop]
            self._edits.append((start, stop, f"(SELECT {self._columns_of(relation, scope)} FROM {name})"))

    def _selected(self, plan: Any, scope: Scope, *, counts: bool) -> None:
        if not {"*", "("} & set(self._text):
            return
        expressions = list(scala_items(plan.expressions()))
        for expression in expressions:
            self._below(expression, scope)
        stars = [star for expression in expressions for star in self._stars(expression)] if counts else []
        children = list(scala_items(plan.children()))
        for star in stars:
            start, stop = _span(star)
            if "*" not in self._text[start:stop] or len(children) != 1:
                raise self._inexact(star)
            self._edits.append((start, stop, self._expanded(star, self._analysed(children[0], scope, star))))

    def _stars(self, expression: Any) -> Iterator[Any]:
        if self._star.isInstance(expression):
            yield expression
        for child in scala_items(expression.children()):
            yield from self._stars(child)

    def _columns_of(self, relation: Any, scope: Scope) -> str:
        analysed = self._analysed(relation, scope, relation)
        return self._named(list(scala_items(analysed.output())), analysed, relation, ())

    def _expanded(self, star: Any, below: Any) -> str:
        target = star.target()
        prefix = tuple(str(part) for part in scala_items(target.get())) if target.isDefined() else ()
        return self._named(list(scala_items(star.expand(below, self._resolver))), below, star, prefix)

    def _named(self, columns: Sequence[Any], below: Any, origin: Any, prefix: tuple[str, ...]) -> str:
        names = [self._name(column, below, prefix) for column in columns]
        if not names or None in names:
            raise self._inexact(origin)
        return ", ".join(str(name) for name in names)

    def _name(self, column: Any, below: Any, prefix: tuple[str, ...]) -> str | None:
        """Return a name that means exactly *column* above *below*; None if there is none."""
        name, qualifier = str(column.name()), [str(part) for part in scala_items(column.qualifier())]
        # With the table in front: a column that goes away must not be looked for in the query around.
        candidates = [[*qualifier[-1:], name], [*qualifier, name], [*prefix, name], [name]]
        return next((sql_name(parts) for parts in candidates if self._means(parts, column, below)), None)

    def _means(self, parts: Sequence[str], column: Any, below: Any) -> bool:
        try:
            found = below.resolve(self._jvm.PythonUtils.toSeq(list(parts)), self._resolver)
        except SPARK_ERRORS:
            return False  # ambiguous
        if not found.isDefined():
            return False
        fields = all(str(each_of.getClass().getSimpleName()) == "Alias" for each_of in (found.get(), column))
        if fields:
            return bool(found.get().child().semanticEquals(column.child()))
        return bool(found.get().exprId().equals(column.exprId()))

    def _analysed(self, plan: Any, scope: Scope, origin: Any) -> Any:
        # A condition on rows changes no columns, and may name columns of the query around.
        while str(plan.getClass().getSimpleName()) == "Filter":
            plan = plan.child()
        for clause, visible in reversed(scope):
            plan = clause.copy(plan, clause.cteRelations().take(visible), clause.allowRecursion())
        try:
            rows = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session._jsparkSession, plan)
            return rows.queryExecution().analyzed()
        except SPARK_ERRORS as cause:
            raise self._inexact(origin) from cause

    def _inexact(self, origin: Any) -> DefinitionInvalid:
        start, stop = _span(origin)
        shown = " ".join(self._text[start:stop].split())[:_SHOWN]
        return DefinitionInvalid(
            f"{shown} of the query cannot be written out as columns, and would mean others once a source changes its "
            "columns; name the columns in its place."
        )


def _span(node: Any) -> tuple[int, int]:
    origin = node.origin()
    return int(origin.startIndex().get()), int(origin.stopIndex().get()) + 1
