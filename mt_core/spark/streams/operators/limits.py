"""LIMIT and OFFSET over a stream: the first rows in order of arrival or, with ORDER BY, in that order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.plans.operators import ADDS, OperatorState
from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.driver.jvm_objects import class_name, scala_items, scala_sequence, static_member
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_state
from mt_core.spark.streams.operators.operator_nodes import operator_of
from mt_core.spark.streams.operators.rankings import Ranking, java_keys
from mt_core.spark.streams.operators.row_numbers import MOST
from mt_core.spark.streams.operators.stateless import carried
from mt_core.spark.streams.operators.walk import Walk

_CATALYST = "org.apache.spark.sql.catalyst"
_LOGICAL = f"{_CATALYST}.plans.logical"
_STATE = "rankState"
_NEED = "LIMIT over a stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """The rows with the numbers `first` to `last` of the plan `rows`."""

    node: Any = field(repr=False)
    rows: Any = field(repr=False)
    first: int
    last: int


def limited(walk: Walk, plan: Any) -> Changelog | None:
    """Return the changelog of a LIMIT, an OFFSET, or both.

    The result is None if no rows are selected, or if Spark runs the LIMIT itself. Raises Unsupported if the
    order would require all rows to be retained.
    """
    limit = _limit(plan)
    if limit.first > limit.last:
        return None
    projections, sort = _sort_below(limit.rows)
    if sort is None:
        return _first_that_come(walk, limit)
    if limit.last == MOST:
        raise Unsupported(
            "ORDER BY with OFFSET and without LIMIT: a stream is unbounded, "
            "so all its rows would have to be retained in order; add a LIMIT."
        )
    changelog = _first_in_order(walk, limit, sort)
    for projection in reversed(projections):
        changelog = carried(walk.session, projection, [changelog])
    return changelog


def sorted_without_limit(walk: Walk, plan: Any) -> Changelog | None:
    """Raise Unsupported: without a LIMIT, a later row may belong before a row that was already emitted."""
    raise Unsupported(
        "ORDER BY without LIMIT: a stream is unbounded, and a later row may belong "
        "before rows that were emitted; add a LIMIT, sort the result where it is read, "
        "or run the statement in batch mode: SET 'execution.runtime-mode' = 'batch'."
    )


def _limit(plan: Any) -> _Limit:
    """Return the bounds that a LIMIT and an OFFSET set. Spark puts the LIMIT above the OFFSET."""
    rows, most, left_out = plan, None, 0
    if class_name(rows) == "GlobalLimit":
        most, rows = _number(rows.limitExpr()), rows.child()
        if class_name(rows) == "LocalLimit":
            rows = rows.child()
    if class_name(rows) == "Offset":
        left_out, rows = _number(rows.offsetExpr()), rows.child()
    last = MOST if most is None else min(MOST, left_out + most)
    return _Limit(node=plan, rows=rows, first=left_out + 1, last=last)


def _number(expression: Any) -> int:
    return int(expression.eval(None))


def _sort_below(plan: Any) -> tuple[list[Any], Any]:
    """Return the projections above the sort in *plan*, and the sort, or None if there is no sort."""
    projections, below = [], plan
    while class_name(below) == "Project":
        projections.append(below)
        below = below.child()
    return (projections, below) if class_name(below) == "Sort" and below.isStreaming() else ([], None)


def _first_that_come(walk: Walk, limit: _Limit) -> Changelog:
    session, rows = walk.session, walk.changelog(limit.rows)
    state = OperatorState.of(0, _STATE, walk.ttls.of())
    if rows.updates:
        ranking = Ranking(keys=(), first=limit.first, last=limit.last, state=state)
        plan, changes = ranking.plan_of(session, rows), ranking.changes_of(rows)
    else:
        changes = ADDS
        plan = java_operator(session, "LimitedRows").of(
            rows.plan,
            java_keys(session, ()),
            limit.first,
            limit.last,
            java_state(session, state, rows.plan, _NEED),
        )
    operator = operator_of(limit.node, "limit", [rows.operator], changes=changes, states=[state])
    return Changelog(plan=plan, operator=operator, unique=rows.unique)


def _first_in_order(walk: Walk, limit: _Limit, sort: Any) -> Changelog:
    session = walk.session
    orders, projection = _as_columns(session, sort)
    rows = walk.changelog(sort.child())
    ordered = rows if projection is None else carried(session, projection, [rows])
    state = OperatorState.of(0, _STATE, walk.ttls.of())
    ranking = Ranking(keys=(), order=orders, first=limit.first, last=limit.last, state=state)
    changes = ranking.changes_of(ordered)
    operator = operator_of(limit.node, "sort-limit", [rows.operator], changes=changes, states=[state])
    changelog = Changelog(plan=ranking.plan_of(session, ordered), operator=operator, unique=rows.unique)
    if projection is None:
        return changelog
    columns = scala_sequence(session, list(scala_items(sort.child().output())))
    without = static_member(session, f"{_LOGICAL}.Project")(columns, projection)
    return carried(session, without, [changelog])


def _as_columns(session: SparkSession, sort: Any) -> tuple[Sequence[Any], Any]:
    """Return the columns that *sort* orders by, and a projection that computes missing ones, or None."""
    orders, computed = [], []
    for position, order in enumerate(scala_items(sort.order())):
        if class_name(order.child()) == "AttributeReference":
            orders.append(order)
            continue
        column = _alias(session, order.child(), f"order{position}")
        computed.append(column)
        orders.append(order.withNewChildren(scala_sequence(session, [column.toAttribute()])))
    if not computed:
        return orders, None
    columns = [*scala_items(sort.child().output()), *computed]
    return orders, static_member(session, f"{_LOGICAL}.Project")(
        scala_sequence(session, columns), sort.child()
    )


def _alias(session: SparkSession, expression: Any, name: str) -> Any:
    nothing = scala_sequence(session, [])
    identity = static_member(session, f"{_CATALYST}.expressions.NamedExpression.newExprId")()
    no_metadata = static_member(session, "scala.Option.empty")()
    return static_member(session, f"{_CATALYST}.expressions.Alias")(
        expression, name, identity, nothing, no_metadata, nothing
    )
