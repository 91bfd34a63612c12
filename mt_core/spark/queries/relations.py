"""Relations of a query: the names in its text with their positions, and the relations that its analysed plan reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.jvm_objects import class_name, java_items, scala_items, state_of, static_member
from mt_core.spark.queries.plan_json import json_of

_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.SubqueryExpression"
TABLE_WORD = re.compile(r"\bTABLE(?:\s|/\*.*?\*/|--[^\n]*\n)*$", re.IGNORECASE | re.DOTALL)
_ALIAS_NODES = frozenset({"SubqueryAlias", "UnresolvedSubqueryColumnAliases"})
_FUNCTION_NODES = (".UnresolvedFunction", ".UnresolvedTableValuedFunction")
_IDENTIFIER_NODES = ("PlanWithUnresolvedIdentifier", "ExpressionWithUnresolvedIdentifier")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationName:
    """A relation in a text: `text[start:stop]` is its name.

    `cte`: the name of a WITH query; `aliased`: an alias follows; `travel`: the version in the text (`timestamp` for
    TIMESTAMP AS OF), None without one; `table_word`: where the word TABLE before the name begins, None without it.
    """

    parts: tuple[str, ...]
    start: int
    stop: int
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
    """A text with the relations and functions that it names, and how many clauses WITH it has.

    `identifier_clause`: IDENTIFIER() hides some of the names.
    """

    text: str
    relations: tuple[RelationName, ...]
    functions: tuple[tuple[str, ...], ...]
    with_clauses: int
    identifier_clause: bool


def parse(session: SparkSession, text: str, plan: Any = None) -> ParsedQuery:
    """Return the relations of a query with their positions; *plan* is that of a query that is only a part of *text*.

    Raises DefinitionInvalid if the text is a command, Unsupported if it reads a stream.
    """
    walk = _PlanWalk(session, text)
    walk.query(state_of(session).sqlParser().parsePlan(text) if plan is None else plan, frozenset())
    return ParsedQuery(
        text=text,
        relations=tuple(sorted(walk.relations, key=lambda relation: relation.start)),
        functions=tuple(dict.fromkeys(walk.functions)),
        with_clauses=walk.with_clauses,
        identifier_clause=walk.identifier_clause,
    )


class _PlanWalk:
    """Collects the names in a parsed plan. A `scope` holds the names of the WITH queries that a part of it can read."""

    def __init__(self, session: SparkSession, text: str) -> None:
        class_named = static_member(session, "java.lang.Class.forName")
        self._text, self._session = text, session
        self._command, self._subquery = class_named(_COMMAND), class_named(_SUBQUERY)
        self._has_subquery = static_member(session, "org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION")()
        self.relations: list[RelationName] = []
        self.functions: list[tuple[str, ...]] = []
        self.with_clauses = 0
        self.identifier_clause = False

    def query(self, plan: Any, scope: frozenset[str]) -> None:
        """Walk a whole plan: the query, or the body of a WITH query."""
        # The JSON of a plan names all classes and functions in one call; positions only the nodes themselves have.
        # The WITH queries of this one are walked for themselves.
        text = json_of(self._session, plan.child() if class_name(plan) == "UnresolvedWith" else plan)
        self.identifier_clause |= any(node in text for node in _IDENTIFIER_NODES)
        for node in _json_nodes(json.loads(text)):
            if str(node["class"]).endswith(_FUNCTION_NODES):
                name = str(node["nameParts"] if "nameParts" in node else node["name"])
                self.functions.append(tuple(name.removeprefix("[").removesuffix("]").split(", ")))
        self._plan(plan, scope)

    def _plan(self, plan: Any, scope: frozenset[str], *, aliased: bool = False) -> None:
        kind = class_name(plan)
        if self._command.isInstance(plan) or kind.endswith("Statement"):
            raise DefinitionInvalid("The text is not a query; write a SELECT, VALUES, TABLE or WITH … SELECT.")
        match kind:
            case "UnresolvedWith":
                self._with(plan, scope)
            case "UnresolvedRelation":
                self._relation(plan, scope, aliased=aliased)
            case "RelationTimeTravel":
                version = plan.version()
                travel = str(version.get()) if version.isDefined() else "timestamp"
                self._relation(plan.relation(), frozenset(), aliased=aliased, travel=travel)
            case _:
                for child in scala_items(plan.children()):
                    self._plan(child, scope, aliased=kind in _ALIAS_NODES)
                if plan.containsPattern(self._has_subquery):
                    for expression in scala_items(plan.expressions()):
                        self._expression(expression, scope)

    def _with(self, plan: Any, scope: frozenset[str]) -> None:
        self.with_clauses += 1
        recursive = plan.allowRecursion()
        for entry in scala_items(plan.cteRelations()):
            name = frozenset({str(entry._1()).lower()})
            self.query(entry._2(), scope | name if recursive else scope)
            scope |= name
        self._plan(plan.child(), scope)

    def _relation(self, plan: Any, scope: frozenset[str], *, aliased: bool, travel: str | None = None) -> None:
        parts, origin = tuple(str(part) for part in scala_items(plan.multipartIdentifier())), plan.origin()
        if plan.isStreaming():
            raise Unsupported(
                f"STREAM {display_name(parts)}: a refresh in FULL mode reads tables, not streams; leave out STREAM."
            )
        start = int(origin.startIndex().get())
        word = TABLE_WORD.search(self._text[:start])
        self.relations.append(
            RelationName(
                parts=parts,
                start=start,
                stop=int(origin.stopIndex().get()) + 1,
                cte=len(parts) == 1 and parts[0].lower() in scope,
                aliased=aliased,
                travel=travel,
                table_word=None if word is None else word.start(),
            )
        )

    def _expression(self, expression: Any, scope: frozenset[str]) -> None:
        if not expression.containsPattern(self._has_subquery):
            return
        if self._subquery.isInstance(expression):
            self._plan(expression.plan(), scope)
        for child in scala_items(expression.children()):
            self._expression(child, scope)


def _json_nodes(body: Any) -> Iterator[dict[str, Any]]:
    if isinstance(body, dict):
        if "class" in body:
            yield body
        body = list(body.values())
    for value in body if isinstance(body, list) else ():
        yield from _json_nodes(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRelation:
    """A leaf of an analysed plan. `parts` is None for one without a name (files by path); `table` is Iceberg's, if it is one, and
    `leaf` its node then."""

    parts: tuple[str, ...] | None
    table: Any = field(default=None, repr=False, compare=False)
    leaf: Any = field(default=None, repr=False, compare=False)

    def columns(self) -> dict[int, str]:
        """Return the names of the columns of an Iceberg table by the ids of their attributes in the plan."""
        [node] = json.loads(self.leaf.toJSON())
        return {int(each["exprId"]["id"]): str(each["name"]) for [each] in node["output"]}


def base_relations(analysed: Any) -> tuple[BaseRelation, ...]:
    """Return what an analysed plan reads, below views, WITH queries and subqueries."""
    plans = [analysed, *scala_items(analysed.subqueriesAll())]
    leaves = [leaf for plan in plans for leaf in scala_items(plan.collectLeaves())]
    return tuple(base for base in map(_base_relation, leaves) if base is not None)


def _base_relation(leaf: Any) -> BaseRelation | None:
    match class_name(leaf):
        case "CTERelationRef" | "OneRowRelation" | "LocalRelation" | "Range" | "UnresolvedInlineTable":
            return None
        case "DataSourceV2Relation" | "StreamingRelationV2" if (
            leaf.catalog().isDefined() and leaf.identifier().isDefined()
        ):
            identifier, table = leaf.identifier().get(), leaf.table()
            levels = (str(level) for level in identifier.namespace())
            is_iceberg = str(table.getClass().getName()).startswith("org.apache.iceberg.")
            return BaseRelation(
                parts=(str(leaf.catalog().get().name()), *levels, str(identifier.name())),
                table=table.table() if is_iceberg else None,
                leaf=leaf if is_iceberg else None,
            )
        case "LogicalRelation" if leaf.catalogTable().isDefined():
            return BaseRelation(parts=_session_catalog_name(leaf.catalogTable().get()))
        case "HiveTableRelation":
            return BaseRelation(parts=_session_catalog_name(leaf.tableMeta()))
        case _:
            return BaseRelation(parts=None)


def _session_catalog_name(table: Any) -> tuple[str, ...]:
    identifier = table.identifier()
    catalog, database = identifier.catalog(), identifier.database()
    return (
        str(catalog.get()) if catalog.isDefined() else SESSION_CATALOG,
        str(database.get()) if database.isDefined() else "default",
        str(identifier.table()),
    )


def identifier_fields(frame: DataFrame) -> tuple[str, ...]:
    """Return the identifier fields of the Iceberg table that *frame* is, in the order of its columns; none of anything else."""
    execution: Any = frame._jdf.queryExecution()
    plan = execution.analyzed()
    if class_name(plan) == "SubqueryAlias":
        plan = plan.child()
    if class_name(plan) != "DataSourceV2Relation":
        return ()
    [relation] = base_relations(plan)
    if relation.table is None:
        return ()
    keys = {str(key) for key in java_items(relation.table.schema().identifierFieldNames())}
    return tuple(column for column in frame.columns if column in keys)
