"""Joins of two streams: each row is joined with all its matches, whenever they arrive.

Interval joins over append-only rows remain Spark's own joins, whose state the watermark removes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.plans.operators import ADDS, OperatorState, RowKind
from mt_core.spark.connectors.changelog import Changelog, Unique
from mt_core.spark.driver.jvm_objects import class_name, scala_items, scala_sequence, static_member
from mt_core.spark.streams.operators import watermarks
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_policy
from mt_core.spark.streams.operators.lookups import looked_up
from mt_core.spark.streams.operators.operator_nodes import operator_of
from mt_core.spark.streams.operators.state_ttls import names_of, position_of
from mt_core.spark.streams.operators.stateless import carried, expression_id
from mt_core.spark.streams.operators.walk import Walk

_CATALYST = "org.apache.spark.sql.catalyst"
_PATTERN = f"{_CATALYST}.trees.TreePattern"
_NEED = "A join of two streams"
_PADDED = frozenset({RowKind.INSERT, RowKind.DELETE})
_INNER = frozenset({"INNER", "CROSS"})
_KINDS = _INNER | {"LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "LEFT SEMI", "LEFT ANTI"}


def with_conditions(session: SparkSession, plan: Any) -> Any:
    """Return *plan* with WHERE conditions pushed into the joins.

    For example, `FROM a, b WHERE a.id = b.id` becomes a join on id. Strings with a collation are compared
    by their collation keys.
    """
    if not plan.containsPattern(static_member(session, f"{_PATTERN}.JOIN")()):
        return plan
    push = static_member(session, f"{_CATALYST}.optimizer.PushPredicateThroughJoin.applyLocally")()
    return static_member(session, f"{_CATALYST}.analysis.RewriteCollationJoin.apply")(
        plan.transformDown(push)
    )


def joined(walk: Walk, plan: Any) -> Changelog:
    """Return the changelog of a join of two streams, or of a stream with a table.

    Raises Unsupported if the result of the condition may change for the same pair of rows.
    """
    inputs = list(scala_items(plan.children()))
    if not all(each.isStreaming() for each in inputs):
        return looked_up(walk, plan)
    sides = [walk.changelog(each) for each in inputs]
    changes = any(side.updates for side in sides)
    if not changes and _is_native(walk.session, plan, sides):
        operator = operator_of(plan, "interval-join", [side.operator for side in sides])
        return replace(carried(walk.session, plan, sides), operator=operator)
    _check(walk.session, plan)
    return _regular(walk, plan, sides)


def _regular(walk: Walk, plan: Any, sides: Sequence[Changelog]) -> Changelog:
    session, kind = walk.session, str(plan.joinType().sql())
    whole = plan.withNewChildren(scala_sequence(session, [side.plan for side in sides]))
    join_policies = walk.ttls.of_join(
        position_of(plan), [frozenset(names_of(each)) for each in scala_items(plan.children())]
    )
    states = [
        OperatorState.of(index, name, policy)
        for index, (name, policy) in enumerate(zip(("leftState", "rightState"), join_policies, strict=True))
    ]
    kinds, policies = (static_member(session, "java.util.ArrayList")() for _ in range(2))
    for side, state in zip(sides, states, strict=True):
        kinds.add(side.updates)
        policies.add(java_policy(session, state, side.plan, _NEED))
    equal = _equal_columns(session, plan)
    _check_keys(session, chain.from_iterable(equal or ()))
    operator = operator_of(
        plan,
        "join",
        [side.operator for side in sides],
        changes=_changes(kind, sides),
        states=states,
    )
    if equal is None:
        operator = replace(
            operator, description=f"{operator.description} (no equal columns: all rows have one key)"
        )
    return Changelog(
        plan=java_operator(session, "RegularJoin").of(whole, kinds, policies),
        operator=operator,
        unique=_unique(kind, sides, equal or ((), ())),
    )


def _is_native(session: SparkSession, plan: Any, sides: Sequence[Changelog]) -> bool:
    """Return whether Spark runs the join of append-only rows: all of them expire."""
    # Spark does not support this join for two streams.
    return (
        str(plan.joinType().sql()) != "LEFT ANTI"
        and bool(java_operator(session, "IntervalJoin").isBounded(plan))
        and all(watermarks.is_reached(side.plan) for side in sides)
    )


def _check(session: SparkSession, plan: Any) -> None:
    kind = str(plan.joinType().sql())
    if kind not in _KINDS:
        raise Unsupported(
            f"{kind} JOIN of two streams: a stream has INNER, LEFT, RIGHT, FULL, LEFT SEMI and LEFT ANTI."
        )
    if not plan.condition().isDefined():
        return
    condition = plan.condition().get()
    sql = str(condition.sql())
    if _contains(session, condition, "CURRENT_LIKE"):
        raise Unsupported(
            f"ON {sql}: the condition may hold when a pair of rows is emitted, and not when it is retracted. "
            "Compare only columns; compute the time in a subquery below the join."
        )
    if any(_contains(session, condition, each) for each in ("PLAN_EXPRESSION", "PYTHON_UDF")):
        raise Unsupported(
            f"ON {sql}: a stream joins by conditions over the columns of both sides, "
            "without subqueries and Python functions. "
            "Compute the value in a subquery below the join, or filter the rows of an INNER JOIN above it."
        )


def _check_keys(session: SparkSession, keys: Iterable[Any]) -> None:
    is_stable = static_member(session, f"{_CATALYST}.util.UnsafeRowUtils.isBinaryStable")
    for key in keys:
        if not is_stable(key.dataType()):
            raise Unsupported(
                f"{key.sql()}: a stream cannot join by expressions over strings that are equal under a "
                "collation; normalize each one, for example lower(c) COLLATE UTF8_BINARY."
            )


def _contains(session: SparkSession, expression: Any, pattern: str) -> bool:
    return bool(expression.containsPattern(static_member(session, f"{_PATTERN}.{pattern}")()))


def _changes(kind: str, sides: Sequence[Changelog]) -> frozenset[RowKind]:
    """Return the row kinds of a join: the kinds of its inputs for pairs, and +I and -D for unmatched rows."""
    left, right = (side.changes for side in sides)
    if kind in _INNER:
        return ADDS | left | right
    if kind == "LEFT SEMI":
        return ADDS | left | (_PADDED if sides[1].updates else ADDS)
    return _PADDED | (left if kind == "LEFT ANTI" else ADDS)


def _equal_columns(session: SparkSession, plan: Any) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """Return the expressions of the left and the right side that must be equal, or None if there are none."""
    keys = static_member(session, f"{_CATALYST}.planning.ExtractEquiJoinKeys.unapply")(plan)
    if keys.isEmpty():
        return None
    return tuple(scala_items(keys.get()._2())), tuple(scala_items(keys.get()._3()))


def _unique(kind: str, sides: Sequence[Changelog], equal: tuple[Sequence[Any], Sequence[Any]]) -> Unique:
    """Return the column sets that identify a row of the join.

    Usually they combine columns of both sides. The columns of one side are enough if each of its rows has
    only one match.
    """
    left, right = (side.unique for side in sides)
    if kind in {"LEFT SEMI", "LEFT ANTI"}:
        return left
    unique = {one | other for one in left for other in right}
    keys = [
        {expression_id(each) for each in side if class_name(each) == "AttributeReference"} for side in equal
    ]
    if kind in _INNER | {"LEFT OUTER"} and any(each <= keys[1] for each in right):
        unique |= left
    if kind in _INNER | {"RIGHT OUTER"} and any(each <= keys[0] for each in left):
        unique |= right
    return frozenset(unique)
