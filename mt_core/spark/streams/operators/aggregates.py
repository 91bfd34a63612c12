"""Group aggregates: GROUP BY, DISTINCT and global aggregates over rows that are added and retracted.

Event-time windows over append-only rows remain Spark's own aggregates. Each window emits its result once,
and the watermark removes its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.plans.operators import ADDS, ALL, OperatorState, RowKind
from mt_core.spark.connectors.changelog import Changelog, Unique
from mt_core.spark.driver.jvm_objects import (
    class_name,
    java_class,
    scala_items,
    scala_sequence,
    static_member,
)
from mt_core.spark.streams.operators import watermarks
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_state
from mt_core.spark.streams.operators.operator_nodes import operator_of
from mt_core.spark.streams.operators.state_ttls import position_of
from mt_core.spark.streams.operators.stateless import carried, check_repeatable, expression_id
from mt_core.spark.streams.operators.walk import Walk

_CATALYST = "org.apache.spark.sql.catalyst"
_AGGREGATE = f"{_CATALYST}.plans.logical.Aggregate"
_FUNCTIONS = f"{_CATALYST}.expressions.aggregate"
_STATE = "groupAggregateState"
_NEED = "GROUP BY in a stream"
_WATERMARK = "spark.watermarkDelayMs"
_SESSION_WINDOW = "spark.sessionWindow"
_UPDATES = ADDS | {RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER}
_BETWEEN = frozenset({"Project", "Filter", "Expand", "Aggregate", "ResolvedHint"})


def aggregated(walk: Walk, plan: Any) -> Changelog:
    """Return the changelog of an Aggregate. Raises Unsupported if no operator can compute it."""
    keys = list(scala_items(plan.groupingExpressions()))
    # Spark closes a group only if a grouping key is a watermarked column itself, not an expression over such
    # a column.
    windowed = _has(filter(lambda key: class_name(key) == "AttributeReference", keys), _WATERMARK)
    rows = walk.changelog(plan.child())
    if windowed and not rows.updates:
        if not watermarks.is_reached(rows.plan):
            raise Unsupported(
                "A window by event time over rows of an operator with a TTL of PROCESSING TIME, where "
                "Spark has no watermark, would never end. Give that operator a TTL of EVENT TIME; "
                "with '0 EVENT TIME' it retains its rows for ever."
            )
        return carried(walk.session, plan, [rows])
    if windowed:
        raise Unsupported(
            "A window by event time over rows that change: a window emits its results once, "
            "when the watermark has passed it. Group by columns of the rows without a watermark, "
            "or aggregate the windows before the rows change."
        )
    if _has(keys, _SESSION_WINDOW):
        raise Unsupported(
            "A stream only has session windows by event time: define the watermark, "
            "WATERMARK FOR t AS t - INTERVAL …, for the column of the window."
        )
    _check(walk.session, plan, rows)
    return _grouped(walk, plan, rows)


def distinct(walk: Walk, plan: Any) -> Changelog:
    """Return the changelog of a DISTINCT, which is an aggregate by all columns without functions."""
    session = walk.session
    columns = list(scala_items(plan.child().output()))
    none = static_member(session, "scala.Option.empty")()
    aggregate = static_member(session, _AGGREGATE)(
        scala_sequence(session, columns), scala_sequence(session, columns), plan.child(), none
    )
    return aggregated(walk, aggregate)


def _grouped(walk: Walk, plan: Any, rows: Changelog) -> Changelog:
    session = walk.session
    whole = plan.withNewChildren(scala_sequence(session, [rows.plan]))
    state = OperatorState.of(0, _STATE, walk.ttls.of(*_positions(plan)))
    operator = java_operator(session, "GroupAggregatePlan")
    updates = _UPDATES if list(operator.functions(plan)) else ADDS
    changes = ALL if rows.updates else updates
    grouped = operator.of(whole, rows.kind, java_state(session, state, rows.plan, _NEED))
    if changes != ADDS:
        check_repeatable(session, scala_items(grouped.projectList()))
    return Changelog(
        plan=grouped,
        operator=operator_of(plan, "group-aggregate", [rows.operator], changes=changes, states=[state]),
        unique=_unique(plan),
    )


def _check(session: SparkSession, plan: Any, rows: Changelog) -> None:
    """Raise Unsupported if the operator does not support a function or key of the aggregate."""
    if rows.updates:
        check_repeatable(session, scala_items(plan.expressions()))
    declarative, imperative = (
        java_class(session, f"{_FUNCTIONS}.{each}")
        for each in ("DeclarativeAggregate", "ImperativeAggregate")
    )
    keys = list(scala_items(plan.groupingExpressions()))
    for each in java_operator(session, "GroupAggregatePlan").functions(plan):
        function = each.aggregateFunction()
        if not (declarative.isInstance(function) or imperative.isInstance(function)):
            raise Unsupported(
                f"{each.sql()}: a stream supports aggregate functions of Spark and Java, but not of Python."
            )
        if each.isDistinct():
            keys.extend(scala_items(function.children()))
    for key in keys:
        _check_key(session, key)


def _check_key(session: SparkSession, key: Any) -> None:
    is_stable = static_member(session, f"{_CATALYST}.util.UnsafeRowUtils.isBinaryStable")
    if not is_stable(key.dataType()):
        raise Unsupported(
            f"{key.sql()}: a stream cannot group by strings that are equal under a collation; "
            "normalize each column with a COLLATION, for example lower(c) COLLATE UTF8_BINARY."
        )
    if not java_operator(session, "GroupAggregatePlan").isKey(key.dataType()):
        raise Unsupported(
            f"{key.sql()}: a stream cannot group by a {key.dataType().sql()}, "
            "whose values have no equality; group by its text, for example to_json(c)."
        )


def _positions(plan: Any) -> Iterator[int | None]:
    """Yield the positions of the SELECT items.

    Yield nothing if the SELECT has a join, because the hints then belong to the join.
    """
    below = plan.child()
    while class_name(below) in _BETWEEN:
        below = below.child()
    if class_name(below) == "Join":
        return
    items = [*scala_items(plan.aggregateExpressions()), *scala_items(plan.groupingExpressions())]
    if class_name(plan.child()) == "Project":
        # The items of a SELECT DISTINCT are in the projection below it.
        items.extend(scala_items(plan.child().projectList()))
    for item in items:
        yield position_of(item)


def _has(keys: Iterable[Any], marker: str) -> bool:
    """Return whether the metadata of any column in *keys* contain *marker*."""
    columns = (column for key in keys for column in scala_items(key.references().toSeq()))
    return any(column.metadata().contains(marker) for column in columns)


def _unique(plan: Any) -> Unique:
    """Return the result columns that form the grouping key; empty if a key is not among them."""
    selected: dict[int, int] = {}
    for item in scala_items(plan.aggregateExpressions()):
        source = item.child() if class_name(item) == "Alias" else item
        for position, key in enumerate(scala_items(plan.groupingExpressions())):
            if source.semanticEquals(key):
                selected.setdefault(position, expression_id(item))
    if len(selected) < plan.groupingExpressions().size():
        return frozenset()
    return frozenset({frozenset(selected.values())})
