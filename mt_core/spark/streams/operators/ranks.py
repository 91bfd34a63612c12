"""Top-N and deduplication: a filter with an upper bound on ROW_NUMBER, replaced by a ranking operator.

These are Flink's statements for both. Top-N has `rn <= n` over `ROW_NUMBER() OVER (PARTITION BY … ORDER BY
…) AS rn`. Deduplication has `rn = 1` and an order by processing time.
"""

from __future__ import annotations

from typing import Any

from mt_core.errors import Unsupported
from mt_core.plans.operators import ADDS, OperatorState
from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.driver.jvm_objects import class_name, scala_items, scala_sequence
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_state
from mt_core.spark.streams.operators.operator_nodes import operator_of
from mt_core.spark.streams.operators.rankings import (
    Ranking,
    check_keys,
    column_set,
    java_keys,
    literal,
    with_column,
)
from mt_core.spark.streams.operators.row_numbers import NumberedRows, definition, numbered_rows
from mt_core.spark.streams.operators.stateless import carried
from mt_core.spark.streams.operators.walk import Walk


def ranked(walk: Walk, plan: Any) -> Changelog | None:
    """Return the changelog of the filter *plan* if it bounds a row number, or None.

    Raises Unsupported for RANK and DENSE_RANK.
    """
    numbered = numbered_rows(plan)
    return None if numbered is None else _ranked(walk, numbered, is_read=True)


def ranked_without_number(walk: Walk, plan: Any) -> Changelog | None:
    """Return the changelog of the projection *plan* if it drops a filtered row number, or None.

    If the number is not in the result, a row does not change when only its number changes.
    """
    path, below = [plan], plan.child()
    while class_name(below) == "SubqueryAlias":
        path.append(below)
        below = below.child()
    numbered = numbered_rows(below) if class_name(below) == "Filter" and below.isStreaming() else None
    if numbered is None or numbered.is_read_by(scala_items(plan.projectList())):
        return None
    changelog = _ranked(walk, numbered, is_read=False)
    for node in reversed(path):
        changelog = carried(walk.session, node, [changelog])
    return changelog


def _ranked(walk: Walk, numbered: NumberedRows, *, is_read: bool) -> Changelog:
    window, name = numbered.window, str(numbered.number.name())
    if numbered.function != "RowNumber":
        raise Unsupported(
            f"{name} <= {numbered.last}: a stream only numbers rows by ROW_NUMBER(), "
            "not by RANK() or DENSE_RANK(), which assign one number to several rows."
        )
    keys, orders = list(scala_items(window.partitionSpec())), list(scala_items(window.orderSpec()))
    check_keys(walk.session, keys, f"PARTITION BY of {name}")
    rows, policy = walk.changelog(window.child()), walk.ttls.of(numbered.position)
    by_arrival = all(is_processing_time(order.child(), window.child()) for order in orders)
    state = "deduplicateState" if by_arrival and numbered.last == 1 else "rankState"
    ranking = Ranking(
        keys=keys,
        order=() if by_arrival else orders,
        latest=by_arrival and str(orders[0].direction().sql()) == "DESC",
        first=numbered.first,
        last=numbered.last,
        state=OperatorState.of(0, state, policy),
    )
    return numbered.over(walk.session, _ranked_rows(walk, numbered, rows, ranking, is_read=is_read))


def _ranked_rows(
    walk: Walk, numbered: NumberedRows, rows: Changelog, ranking: Ranking, *, is_read: bool
) -> Changelog:
    """Return the changelog of the ranked *rows*, which replaces the window.

    The number is meaningful only if *is_read* is true.
    """
    session, number = walk.session, numbered.number
    single = ranking.first == ranking.last
    only_first = ranking.state.name == "deduplicateState" and not ranking.latest and not rows.updates
    changes = ADDS if only_first else ranking.changes_of(rows)
    if single or not is_read:
        plan = _first_rows(walk, rows, ranking) if only_first else ranking.plan_of(session, rows)
        value = literal(session, ranking.first if single else 0)
        constant = number.withNewChildren(scala_sequence(session, [value]))
        plan = with_column(session, plan, constant, updates=changes != ADDS)
    else:
        plan = ranking.plan_of(session, rows, number.toAttribute())
    identity = column_set(ranking.keys if single else [*ranking.keys, number.toAttribute()])
    kind = "deduplicate" if ranking.state.name == "deduplicateState" else "rank"
    return Changelog(
        plan=plan,
        operator=operator_of(numbered.window, kind, [rows.operator], changes=changes, states=[ranking.state]),
        unique=rows.unique | (identity if single or is_read else frozenset()),
    )


def _first_rows(walk: Walk, rows: Changelog, ranking: Ranking) -> Any:
    """Return the first row of *rows* for each key. Later rows do not replace it."""
    session, need = walk.session, "The first row of each key"
    keys, state = java_keys(session, ranking.keys), java_state(session, ranking.state, rows.plan, need)
    return java_operator(session, "FirstRows").of(rows.plan, keys, state)


_NOW = frozenset({"CurrentTimestamp", "Now", "LocalTimestamp"})


def is_processing_time(expression: Any, plan: Any) -> bool:
    """Return whether *expression*, over the rows of *plan*, is the time at which a row is processed."""
    kind = class_name(expression)
    if kind in _NOW:
        return True
    if kind in {"Alias", "Cast"}:
        return is_processing_time(expression.child(), plan)
    if kind != "AttributeReference":
        return False
    match class_name(plan):
        case "Project":
            column = definition(plan.projectList(), expression)
            return column is not None and is_processing_time(column, plan.child())
        case "SubqueryAlias" | "Filter" | "View" | "EventTimeWatermark":
            return is_processing_time(expression, plan.child())
        case _:
            return False
