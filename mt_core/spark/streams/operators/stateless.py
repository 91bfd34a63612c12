"""Stateless operators, which pass on the row kinds of their input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.plans.operators import RowKind
from mt_core.spark.connectors.changelog import Changelog, Unique
from mt_core.spark.driver.jvm_objects import class_name, scala_items, scala_sequence, static_member
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.operator_nodes import stateless_operator

_PATTERN = "org.apache.spark.sql.catalyst.trees.TreePattern"
_SAME_COLUMNS = frozenset(
    {
        "Filter",
        "SubqueryAlias",
        "View",
        "ResolvedHint",
        "Repartition",
        "RepartitionByExpression",
        "EventTimeWatermark",
    }
)
_OTHER_COLUMNS = frozenset({"Project", "Union", "Generate", "Expand"})


def carried(session: SparkSession, plan: Any, children: Sequence[Changelog]) -> Changelog:
    """Return the changelog of the node *plan* with *children* as its inputs.

    Raises Unsupported if the node accepts only inserts and an input has other row kinds.
    """
    changes = frozenset[RowKind]().union(*(child.changes for child in children))
    if not any(child.updates for child in children):
        carried_plan = with_children(session, plan, [child.plan for child in children])
    else:
        _check(session, plan)
        carried_plan = _of_changes(session, plan, children)
    operator = stateless_operator(plan, [child.operator for child in children], changes)
    return Changelog(plan=carried_plan, operator=operator, unique=_unique(plan, children))


def _of_changes(session: SparkSession, plan: Any, children: Sequence[Changelog]) -> Any:
    """Return the node *plan* above changelogs, with the row kind in its last column."""
    changelogs = java_operator(session, "Changelogs")
    [first, *_] = children
    match class_name(plan):
        case "Project":
            return changelogs.projected(plan, first.plan)
        case "Expand":
            return changelogs.expanded(plan, first.plan)
        case "Union":
            parts = [child.plan if child.updates else changelogs.added(child.plan) for child in children]
            return with_children(session, plan, parts)
        case "View":
            # Spark does not permit a View node of an analysed plan to get another child, and our operators
            # must be analysed again.
            return first.plan
        case "Generate":
            return changelogs.kindLast(with_children(session, plan, [first.plan]), first.kind)
        case _:
            return with_children(session, plan, [first.plan])


def _check(session: SparkSession, plan: Any) -> None:
    """Raise Unsupported if the node may produce a different row for a retraction than for the insert."""
    kind = class_name(plan)
    if kind not in _SAME_COLUMNS | _OTHER_COLUMNS:
        raise Unsupported(
            f"{kind} over rows that change: a stream can only do that with append-only rows. "
            "Keep the rows in a table with a PRIMARY KEY, or the result as a materialized table over it."
        )
    check_repeatable(session, scala_items(plan.expressions()))


def check_repeatable(session: SparkSession, expressions: Iterable[Any]) -> None:
    """Raise Unsupported for an expression that may later return a different value for the same row."""
    current, subquery = (
        static_member(session, f"{_PATTERN}.{each}")() for each in ("CURRENT_LIKE", "PLAN_EXPRESSION")
    )
    for expression in expressions:
        if expression.containsPattern(subquery):
            raise Unsupported(
                f"{expression.sql()}: the subquery may return another value when a row is "
                "retracted than when it was emitted. Join the rows with its table instead (LEFT SEMI "
                "JOIN for IN and EXISTS, LEFT ANTI JOIN for NOT EXISTS, CROSS JOIN for a single value), "
                "or move it below the aggregation, join or deduplication whose rows change."
            )
        if not expression.deterministic() or expression.containsPattern(current):
            raise Unsupported(
                f"{expression.sql()} has another value when a row is retracted than when it was emitted; "
                "compute it below the aggregation, join or deduplication whose rows change."
            )


def with_children(session: SparkSession, plan: Any, children: Sequence[Any]) -> Any:
    """Return *plan* with *children*, or *plan* itself if it has them."""
    before = list(scala_items(plan.children()))
    if all(new.equals(old) for new, old in zip(children, before, strict=True)):
        return plan
    return plan.withNewChildren(scala_sequence(session, list(children)))


def _unique(plan: Any, children: Sequence[Changelog]) -> Unique:
    """Return the sets of columns that still identify a row."""
    [first, *_] = children
    if not first.unique or len(children) > 1:
        return frozenset()
    kind = class_name(plan)
    if kind in _SAME_COLUMNS:
        return first.unique
    if kind != "Project":
        return frozenset()
    renamed: dict[int, int] = {}
    for column in scala_items(plan.projectList()):
        source = column.child() if class_name(column) == "Alias" else column
        if class_name(source) == "Cast" and source.dataType().equals(source.child().dataType()):
            # A view casts each column to the type that it had when the view was created.
            source = source.child()
        if class_name(source) == "AttributeReference":
            renamed.setdefault(expression_id(source), expression_id(column))
    return frozenset(
        frozenset(renamed[each] for each in key) for key in first.unique if key <= renamed.keys()
    )


def expression_id(attribute: Any) -> int:
    """Return the number that identifies a column in Spark's plans."""
    return int(attribute.exprId().id())
