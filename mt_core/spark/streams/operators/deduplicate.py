"""Deduplication: of each key the row that comes first, in the place of a ROW_NUMBER by processing time that is filtered by = 1.

The statement is Flink's: `rn = 1` over `ROW_NUMBER() OVER (PARTITION BY … ORDER BY <processing time>) AS rn`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.plans.operators import OperatorState
from mt_core.spark.driver.jvm_objects import class_name, scala_items, scala_sequence, static_member
from mt_core.spark.streams.operators.changelog import Changelog
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.operator_nodes import operator_of
from mt_core.spark.streams.operators.row_numbers import NumberedRows, definition, numbered_rows
from mt_core.spark.streams.operators.stateless import expression_id
from mt_core.spark.streams.operators.walk import Walk

_CATALYST = "org.apache.spark.sql.catalyst"
_NOW = frozenset({"CurrentTimestamp", "Now", "LocalTimestamp"})
_MILLISECOND = timedelta(milliseconds=1)
_STATE = "deduplicateState"
_WAY_OUT = (
    "Keep the rows in a table, and the result as a materialized table over it, or run the statement in batch mode: "
    "SET 'execution.runtime-mode' = 'batch'."
)
_ORDER = "order by the time at which rows are read, a column AS PROCTIME() or current_timestamp()"


def deduplicated(walk: Walk, plan: Any) -> Changelog | None:
    """Return the changelog of the filter *plan* if it lets the first row of each key pass; else None.

    Raises Unsupported for rows that would change once they are given.
    """
    numbered = numbered_rows(plan)
    if numbered is None:
        return None
    _check(walk.session, numbered)
    rows = walk.changelog(numbered.window.child())
    if rows.updates:
        raise Unsupported(
            f"{numbered.number.name()} = 1 over rows that change: the first row may be taken back. {_WAY_OUT}"
        )
    return numbered.over(walk.session, _first_rows(walk, numbered, rows))


def _first_rows(walk: Walk, numbered: NumberedRows, rows: Changelog) -> Changelog:
    """Return the first of *rows* by key, numbered 1, in the place of the window."""
    session, window = walk.session, numbered.window
    ttl = walk.ttls.of(numbered.position)
    keys = static_member(session, "scala.jdk.javaapi.CollectionConverters.asJava")(window.partitionSpec())
    operator = java_operator(session, "FirstRows", "The first row of each key")
    first = operator.of(rows.plan, keys, ttl // _MILLISECOND)
    one = static_member(session, f"{_CATALYST}.expressions.Literal.create")(1, numbered.number.dataType())
    number = numbered.number.withNewChildren(scala_sequence(session, [one]))
    columns = scala_sequence(session, [*scala_items(rows.plan.output()), number])
    return Changelog(
        plan=static_member(session, f"{_CATALYST}.plans.logical.Project")(columns, first),
        operator=operator_of(
            window, "deduplicate", [rows.operator], states=[OperatorState(index=0, name=_STATE, ttl=ttl)]
        ),
        unique=_key(scala_items(window.partitionSpec())),
    )


def _key(expressions: Iterable[Any]) -> frozenset[frozenset[int]]:
    """Return the columns by which rows are told apart; nothing if they are told apart by what is computed of columns."""
    key = list(expressions)
    if any(class_name(each) != "AttributeReference" for each in key):
        return frozenset()
    return frozenset({frozenset(map(expression_id, key))})


def _check(session: SparkSession, numbered: NumberedRows) -> None:
    """Raise Unsupported for what takes rows back that it has given."""
    window, name = numbered.window, str(numbered.number.name())
    if numbered.bound != 1:
        raise Unsupported(
            f"{name} <= {numbered.bound}: of each key a stream keeps the first row alone; write {name} = 1. {_WAY_OUT}"
        )
    if window.partitionSpec().isEmpty():
        raise Unsupported(f"{name} = 1: a stream keeps the first row of each key; name its columns in PARTITION BY.")
    is_stable = static_member(session, f"{_CATALYST}.util.UnsafeRowUtils.isBinaryStable")
    if not all(is_stable(key.dataType()) for key in scala_items(window.partitionSpec())):
        raise Unsupported(
            f"{name} = 1: a stream cannot keep keys of which several texts are equal; give each column with a COLLATION in "
            "PARTITION BY one form, such as lower(c) COLLATE UTF8_BINARY."
        )
    orders = list(scala_items(window.orderSpec()))
    if any(str(order.direction().sql()) == "DESC" for order in orders):
        raise Unsupported(
            f"{name} = 1 with ORDER BY … DESC: each row of a key would replace the one before, and a stream only adds rows; "
            f"write ASC for the first row. {_WAY_OUT}"
        )
    if not all(_is_now(order.child(), window.child()) for order in orders):
        raise Unsupported(
            f"{name} = 1: in that ORDER BY a row that comes later may be the first one, and would replace one that the stream "
            f"has given; {_ORDER}. {_WAY_OUT}"
        )


def _is_now(expression: Any, plan: Any) -> bool:
    """Return whether *expression*, over the rows of *plan*, is the time at which a row is read."""
    kind = class_name(expression)
    if kind in _NOW:
        return True
    if kind in {"Alias", "Cast"}:
        return _is_now(expression.child(), plan)
    if kind != "AttributeReference":
        return False
    match class_name(plan):
        case "Project":
            found = definition(plan.projectList(), expression)
            return found is not None and _is_now(found, plan.child())
        case "SubqueryAlias" | "Filter" | "View" | "EventTimeWatermark":
            return _is_now(expression, plan.child())
        case _:
            return False
