"""Stars of a query: each `*`, and each `TABLE t`, written out as the columns that it means when the query is created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid
from mt_core.identifiers import sql_name
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import class_name, java_dataset, scala_items, state_of, static_member
from mt_core.spark.queries.parsed_expressions import ParsedExpressions
from mt_core.spark.queries.relations import TABLE_WORD

_EXCERPT_LENGTH = 60

Scope = tuple[tuple[Any, int], ...]
"""The WITH clauses around a part of a query, outermost first, each with how many of its queries that part can name."""


class StarWriter:
    """Replaces the stars of one query by columns, in the session that analyses the query."""

    def __init__(self, session: SparkSession, text: str) -> None:
        self._session, self._text = session, text
        self._resolver = state_of(session).conf().resolver()
        self._expressions = ParsedExpressions(session)
        self._edits: list[tuple[int, int, str]] = []

    def written_out(self) -> str:
        """Return the text without stars; raises DefinitionInvalid for one that no list of columns can replace exactly."""
        self._plan(state_of(self._session).sqlParser().parsePlan(self._text), ())
        text = self._text
        for start, stop, columns in sorted(set(self._edits), reverse=True):
            text = f"{text[:start]}{columns}{text[stop:]}"
        return text

    def _plan(self, plan: Any, scope: Scope, *, exists: bool = False) -> None:
        match class_name(plan):
            case "UnresolvedWith":
                entries, recursive = list(scala_items(plan.cteRelations())), bool(plan.allowRecursion())
                for index, entry in enumerate(entries):
                    self._plan(entry._2(), (*scope, (plan, index + 1 if recursive else index)))
                self._plan(plan.child(), (*scope, (plan, len(entries))))
                return
            case "UnresolvedRelation":
                start, _ = _span(plan)
                word = TABLE_WORD.search(self._text[:start])
                if word is not None:
                    self._edits.append((word.start(), start, f"SELECT {self._columns(plan, scope)} FROM "))
            case "UnresolvedSubqueryColumnAliases":
                self._aliased(plan.child(), scope)
            case kind:
                # Whether EXISTS finds a row does not depend on the columns of its rows.
                self._selected(plan, scope, ignored=exists and kind == "Project")
        for child in scala_items(plan.children()):
            self._plan(child, scope)

    def _aliased(self, relation: Any, scope: Scope) -> None:
        """Give `t AS x(a, b)`, which names the columns of t by position, the columns that t has now."""
        if class_name(relation) == "UnresolvedRelation" and relation.options().isEmpty():
            start, stop = _span(relation)
            columns = self._columns(relation, scope)
            self._edits.append((start, stop, f"(SELECT {columns} FROM {self._text[start:stop]})"))

    def _selected(self, plan: Any, scope: Scope, *, ignored: bool) -> None:
        """Replace the stars in the expressions of a node, but those of an *ignored* one, and those in its subqueries."""
        if not {"*", "("} & set(self._text):
            return
        stars = list(self._stars(plan, scope))
        for star in () if ignored else stars:
            start, stop = _span(star)
            children = list(scala_items(plan.children()))
            if "*" not in self._text[start:stop] or len(children) != 1:
                raise self._inexact(star)
            below, target = self._analysed(children[0], scope, star), star.target()
            prefix = tuple(str(part) for part in scala_items(target.get())) if target.isDefined() else ()
            columns = self._sql_names(star.expand(below, self._resolver), below, star, prefix)
            self._edits.append((start, stop, columns))

    def _stars(self, plan: Any, scope: Scope) -> Iterator[Any]:
        """Yield the stars in the expressions of a node, and replace those of the subqueries in them."""
        for expression in self._expressions.found(plan):
            if self._expressions.is_star(expression):
                yield expression
            else:
                self._plan(expression.plan(), scope, exists=class_name(expression) == "Exists")

    def _columns(self, relation: Any, scope: Scope) -> str:
        analysed = self._analysed(relation, scope, relation)
        return self._sql_names(analysed.output(), analysed, relation)

    def _sql_names(self, columns: Any, below: Any, origin: Any, prefix: tuple[str, ...] = ()) -> str:
        """Return a list of names that mean exactly *columns* above *below*; raises DefinitionInvalid if there is none."""
        names: list[str] = []
        for column in scala_items(columns):
            name, qualifier = str(column.name()), [str(part) for part in scala_items(column.qualifier())]
            # With the table in front: a column dropped later must not be looked for in the query around.
            candidates = [[*qualifier[-1:], name], [*qualifier, name], [*prefix, name], [name]]
            exact = next((parts for parts in candidates if self._means(parts, column, below)), None)
            if exact is None:
                raise self._inexact(origin)
            names.append(sql_name(exact))
        if not names:
            raise self._inexact(origin)
        return ", ".join(names)

    def _means(self, parts: Sequence[str], column: Any, below: Any) -> bool:
        try:
            as_seq = static_member(self._session, "PythonUtils.toSeq")
            resolved = below.resolve(as_seq(list(parts)), self._resolver)
        except SPARK_ERRORS:
            return False  # ambiguous
        if not resolved.isDefined():
            return False
        if class_name(resolved.get()) == class_name(column) == "Alias":
            return bool(resolved.get().child().semanticEquals(column.child()))
        return bool(resolved.get().exprId().equals(column.exprId()))

    def _analysed(self, plan: Any, scope: Scope, origin: Any) -> Any:
        # A condition on rows changes no columns, and may name columns of the query around.
        while class_name(plan) == "Filter":
            plan = plan.child()
        for clause, visible in reversed(scope):
            plan = clause.copy(plan, clause.cteRelations().take(visible), clause.allowRecursion())
        try:
            return java_dataset(self._session, plan).queryExecution().analyzed()
        except SPARK_ERRORS as cause:
            raise self._inexact(origin) from cause

    def _inexact(self, origin: Any) -> DefinitionInvalid:
        start, stop = _span(origin)
        excerpt = " ".join(self._text[start:stop].split())[:_EXCERPT_LENGTH]
        return DefinitionInvalid(
            f"{excerpt} of the query cannot be written out as columns, and would mean others once a source changes its "
            "columns; name the columns in its place."
        )


def _span(node: Any) -> tuple[int, int]:
    origin = node.origin()
    return int(origin.startIndex().get()), int(origin.stopIndex().get()) + 1
