"""Relations of a query: the names in its text with their positions, and what its analysed plan really reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid
from mt_core.spark.jvm_objects import jvm_of, scala_items, session_state

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_COMMAND = f"{_LOGICAL}.Command"
_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.SubqueryExpression"
TABLE_WORD = re.compile(r"\bTABLE(?:\s|/\*.*?\*/|--[^\n]*\n)*$", re.IGNORECASE | re.DOTALL)
_ALIAS_NODES = frozenset({"SubqueryAlias", "UnresolvedSubqueryColumnAliases"})
_IDENTIFIER_NODES = ("PlanWithUnresolvedIdentifier", "ExpressionWithUnresolvedIdentifier")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationName:
    """A relation in a text: `text[start:stop]` is its name.

    `cte`: the name of a WITH query; `aliased`: an alias follows; `travel`: the version the user wrote (`timestamp` for
    TIMESTAMP AS OF), None if none; `table_word`: where the word TABLE begins, if the name follows it.
    """

    parts: tuple[str, ...]
    start: int
    stop: int
    streaming: bool = False
    cte: bool = False
    aliased: bool = False
    travel: str | None = None
    table_word: int | None = None

    @property
    def begin(self) -> int:
        """Where the relation begins, with the word TABLE."""
        return self.start if self.table_word is None else self.table_word


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """A text with the relations and functions it names; `identifier_clause` if IDENTIFIER() hides some of them."""

    text: str
    relations: tuple[RelationName, ...]
    functions: tuple[tuple[str, ...], ...]
    identifier_clause: bool


@dataclass(slots=True)
class _Walk:
    """What a walk over the parsed plan found so far."""

    text: str
    jvm: Any
    relations: list[RelationName] = field(default_factory=list)
    functions: list[tuple[str, ...]] = field(default_factory=list)
    identifier_clause: bool = False

    def __post_init__(self) -> None:
        classes = self.jvm.java.lang.Class
        self._command, self._subquery = classes.forName(_COMMAND), classes.forName(_SUBQUERY)
        self._has_subquery = self.jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION()

    _command: Any = None
    _subquery: Any = None
    _has_subquery: Any = None

    def root(self, plan: Any, scope: frozenset[str]) -> None:
        """Walk a whole plan: the query, or the body of a WITH query."""
        # The JSON of a plan names all classes and functions in one call; positions only the nodes themselves have.
        text = plan.toJSON()
        self.identifier_clause |= any(node in text for node in _IDENTIFIER_NODES)
        self.functions += [_name_parts(node) for node in _nodes(json.loads(text)) if _is_function(node)]
        self.plan(plan, scope)

    def plan(self, plan: Any, scope: frozenset[str], *, aliased: bool = False) -> None:
        kind = str(plan.getClass().getSimpleName())
        if self._command.isInstance(plan) or kind.endswith("Statement"):
            raise DefinitionInvalid("The text is not a query; write a SELECT, VALUES, TABLE or WITH … SELECT.")
        match kind:
            case "UnresolvedWith":
                self._with(plan, scope)
            case "UnresolvedRelation":
                self._relation(plan, scope, aliased=aliased)
            case "RelationTimeTravel":
                self._relation(plan.relation(), frozenset(), aliased=aliased, travel=_travel(plan))
            case _:
                self._inner(plan, scope, aliased=kind in _ALIAS_NODES)

    def _with(self, plan: Any, scope: frozenset[str]) -> None:
        recursive = plan.allowRecursion()
        for entry in scala_items(plan.cteRelations()):
            name = frozenset({str(entry._1()).lower()})
            self.root(entry._2(), scope | name if recursive else scope)
            scope |= name
        self.plan(plan.child(), scope)

    def _relation(self, plan: Any, scope: frozenset[str], *, aliased: bool, travel: str | None = None) -> None:
        parts, origin = tuple(str(part) for part in scala_items(plan.multipartIdentifier())), plan.origin()
        start = int(origin.startIndex().get())
        word = TABLE_WORD.search(self.text[:start])
        self.relations.append(
            RelationName(
                parts=parts,
                start=start,
                stop=int(origin.stopIndex().get()) + 1,
                streaming=plan.isStreaming(),
                cte=len(parts) == 1 and parts[0].lower() in scope,
                aliased=aliased,
                travel=travel,
                table_word=None if word is None else word.start(),
            )
        )

    def _inner(self, plan: Any, scope: frozenset[str], *, aliased: bool) -> None:
        for child in scala_items(plan.children()):
            self.plan(child, scope, aliased=aliased)
        if plan.containsPattern(self._has_subquery):
            for expression in scala_items(plan.expressions()):
                self._expression(expression, scope)

    def _expression(self, expression: Any, scope: frozenset[str]) -> None:
        if not expression.containsPattern(self._has_subquery):
            return
        if self._subquery.isInstance(expression):
            self.plan(expression.plan(), scope)
        for child in scala_items(expression.children()):
            self._expression(child, scope)


def parse(session: SparkSession, text: str) -> ParsedQuery:
    """Return the relations of a query with their positions; raises DefinitionInvalid if the text is a command."""
    walk = _Walk(text=text, jvm=jvm_of(session))
    walk.root(session_state(session).sqlParser().parsePlan(text), frozenset())
    return ParsedQuery(
        text=text,
        relations=tuple(sorted(walk.relations, key=lambda relation: relation.start)),
        functions=tuple(dict.fromkeys(walk.functions)),
        identifier_clause=walk.identifier_clause,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRelation:
    """A leaf of an analysed plan. `parts` is None for one without a name (files by path); `table` is Iceberg's, if it is one."""

    parts: tuple[str, ...] | None
    table: Any = field(default=None, repr=False, compare=False)


def base_relations(analysed: Any) -> tuple[BaseRelation, ...]:
    """Return what an analysed plan reads, below views, WITH queries and subqueries."""
    plans = [analysed, *scala_items(analysed.subqueriesAll())]
    leaves = [leaf for plan in plans for leaf in scala_items(plan.collectLeaves())]
    return tuple(base for base in map(_base, leaves) if base is not None)


def _base(leaf: Any) -> BaseRelation | None:
    match str(leaf.getClass().getSimpleName()):
        case "DataSourceV2Relation" | "StreamingRelationV2":
            return _second_version(leaf)
        case "LogicalRelation":
            known = leaf.catalogTable()
            return BaseRelation(parts=_first_version(known.get()) if known.isDefined() else None)
        case "HiveTableRelation":
            return BaseRelation(parts=_first_version(leaf.tableMeta()))
        case "CTERelationRef" | "OneRowRelation" | "LocalRelation" | "Range" | "UnresolvedInlineTable":
            return None
        case _:
            return BaseRelation(parts=None)


def _second_version(leaf: Any) -> BaseRelation:
    catalog, identifier = leaf.catalog(), leaf.identifier()
    if not (catalog.isDefined() and identifier.isDefined()):
        return BaseRelation(parts=None)
    named = identifier.get()
    parts = (str(catalog.get().name()), *(str(level) for level in named.namespace()), str(named.name()))
    table = leaf.table()
    iceberg = str(table.getClass().getName()).startswith("org.apache.iceberg.")
    return BaseRelation(parts=parts, table=table.table() if iceberg else None)


def _first_version(table: Any) -> tuple[str, ...]:
    identifier = table.identifier()
    catalog, database = identifier.catalog(), identifier.database()
    return (
        str(catalog.get()) if catalog.isDefined() else "spark_catalog",
        str(database.get()) if database.isDefined() else "default",
        str(identifier.table()),
    )


def _travel(plan: Any) -> str:
    version = plan.version()
    return str(version.get()) if version.isDefined() else "timestamp"


def _nodes(body: Any) -> Iterator[dict[str, Any]]:
    match body:
        case dict():
            if "class" in body:
                yield body
            for value in body.values():
                yield from _nodes(value)
        case list():
            for value in body:
                yield from _nodes(value)
        case _:
            return


def _is_function(node: dict[str, Any]) -> bool:
    return str(node["class"]).endswith((".UnresolvedFunction", ".UnresolvedTableValuedFunction"))


def _name_parts(node: dict[str, Any]) -> tuple[str, ...]:
    text = str(node["nameParts"] if "nameParts" in node else node["name"])
    return tuple(text.removeprefix("[").removesuffix("]").split(", "))
