"""Star expansion: each `*` and `TABLE t` in a query is replaced by its columns when the query is created.

Pipe syntax has implicit stars: `FROM t |> WHERE a > 0` returns all columns of t, and `|> EXTEND`, `|> SET`
and `|> DROP` use all columns of their input. In such a query, t is replaced by a subquery with its current
columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import quote, sql_name
from mt_core.errors import DefinitionInvalid
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import class_name, java_dataset, scala_items, state_of, static_member
from mt_core.spark.queries.parsed_expressions import ParsedExpressions
from mt_core.spark.queries.relations import TABLE_WORD

_EXCERPT_LENGTH = 60
_PIPE = "|>"
# Operators that match the columns of their children by position.
_SET_OPERATIONS = frozenset({"Except", "Intersect", "Union"})

Scope = tuple[tuple[Any, int], ...]
"""The WITH clauses that enclose a part of a query, outermost first, with their numbers of visible queries."""


class StarWriter:
    """Expands the stars of one query, in the session in which the query is analysed."""

    def __init__(self, session: SparkSession, text: str) -> None:
        self._session, self._text = session, text
        self._resolver = state_of(session).conf().resolver()
        self._expressions = ParsedExpressions(session)
        self._edits: list[tuple[int, int, str]] = []

    def expanded_text(self) -> str:
        """Return the text without stars.

        Raises DefinitionInvalid for a star that no list of columns can replace exactly.
        """
        self._plan(state_of(self._session).sqlParser().parsePlan(self._text), (), exposed=True)
        text = self._text
        for start, stop, columns in sorted(set(self._edits), reverse=True):
            text = f"{text[:start]}{columns}{text[stop:]}"
        return text

    def _plan(
        self, plan: Any, scope: Scope, *, exposed: bool, exists: bool = False, aliased: bool = False
    ) -> None:
        """Replace the stars in a plan.

        *exposed* means that no list of columns above the plan restricts which of its columns the query
        returns.
        """
        kind, below = class_name(plan), exposed
        match kind:
            case "UnresolvedWith":
                entries, recursive = list(scala_items(plan.cteRelations())), bool(plan.allowRecursion())
                for index, entry in enumerate(entries):
                    self._plan(entry._2(), (*scope, (plan, index + 1 if recursive else index)), exposed=False)
                self._plan(plan.child(), (*scope, (plan, len(entries))), exposed=exposed)
                return
            case "UnresolvedRelation":
                start, _ = _span(plan)
                word = TABLE_WORD.search(self._text[:start])
                if word is not None:
                    self._edits.append((word.start(), start, f"SELECT {self._columns(plan, scope)} FROM "))
                elif exposed:
                    self._narrow(plan, scope, alias="" if aliased else f" AS {quote(_last_part(plan))}")
            case "RelationTimeTravel" if exposed:
                raise self._inexact(plan.relation())
            case "UnresolvedSubqueryColumnAliases":
                self._aliased(plan.child(), scope)
                below = False
            case _:
                # The result of EXISTS does not depend on the columns of its rows.
                hides_star = self._selected(plan, scope, ignored=exists and kind == "Project")
                below = (
                    hides_star
                    or kind in _SET_OPERATIONS
                    or (exposed and kind not in ("Aggregate", "Project"))
                )
        for child in scala_items(plan.children()):
            self._plan(child, scope, exposed=below, aliased=kind == "SubqueryAlias")

    def _aliased(self, relation: Any, scope: Scope) -> None:
        """Replace t in `t AS x(a, b)`, where columns are named by position, with a subquery.

        The subquery selects the current columns of t.
        """
        if class_name(relation) == "UnresolvedRelation" and relation.options().isEmpty():
            self._narrow(relation, scope)

    def _narrow(self, relation: Any, scope: Scope, alias: str = "") -> None:
        """Replace a relation with a subquery of its current columns."""
        if not relation.options().isEmpty():
            raise self._inexact(relation)
        start, stop = _span(relation)
        columns = self._columns(relation, scope)
        self._edits.append((start, stop, f"(SELECT {columns} FROM {self._text[start:stop]}){alias}"))

    def _selected(self, plan: Any, scope: Scope, *, ignored: bool) -> bool:
        """Replace the stars in a node's expressions, unless they are *ignored*, and in its subqueries.

        Return whether the node has an implicit star.
        """
        if not {"*", "("} & set(self._text) and _PIPE not in self._text:
            return False
        stars = list(self._stars(plan, scope))
        hides_star = False
        for star in () if ignored else stars:
            start, stop = _span(star)
            if _PIPE in self._text[start:stop]:
                hides_star = True
                continue
            children = list(scala_items(plan.children()))
            if "*" not in self._text[start:stop] or len(children) != 1:
                raise self._inexact(star)
            below, target = self._analysed(children[0], scope, star), star.target()
            prefix = tuple(str(part) for part in scala_items(target.get())) if target.isDefined() else ()
            columns = self._sql_names(star.expand(below, self._resolver), below, star, prefix)
            self._edits.append((start, stop, columns))
        return hides_star

    def _stars(self, plan: Any, scope: Scope) -> Iterator[Any]:
        """Yield the stars in a node's expressions and replace the stars in its subqueries."""
        for expression in self._expressions.found(plan):
            if self._expressions.is_star(expression):
                yield expression
            else:
                exists = class_name(expression) == "Exists"
                self._plan(expression.plan(), scope, exposed=not exists, exists=exists)

    def _columns(self, relation: Any, scope: Scope) -> str:
        analysed = self._analysed(relation, scope, relation)
        return self._sql_names(analysed.output(), analysed, relation)

    def _sql_names(self, columns: Any, below: Any, origin: Any, prefix: tuple[str, ...] = ()) -> str:
        """Return a list of names that resolve exactly to *columns* over the plan *below*.

        Raises DefinitionInvalid if a column has no such name.
        """
        names: list[str] = []
        for column in scala_items(columns):
            name, qualifier = str(column.name()), [str(part) for part in scala_items(column.qualifier())]
            # Prefer qualified names, because the unqualified name of a dropped column could resolve to a
            # column of an outer query.
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
        # A filter does not change the columns, and may refer to columns of the outer query.
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
            f"{excerpt} of the query cannot be expanded to columns, and would mean other columns after a "
            "source changes its columns; name the columns instead."
        )


def _last_part(relation: Any) -> str:
    return str(relation.multipartIdentifier().last())


def _span(node: Any) -> tuple[int, int]:
    origin = node.origin()
    return int(origin.startIndex().get()), int(origin.stopIndex().get()) + 1
