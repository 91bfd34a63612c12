"""Lookup joins: rows of a stream joined with the rows that a table has when their batch runs.

Append-only rows are joined without state. For rows that change, the operator retains the matches of each
row, because the table may have changed by the time the row is retracted.
"""

from __future__ import annotations

from typing import Any

from mt_core.plans.operators import OperatorState
from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.driver.jvm_objects import scala_items, scala_sequence
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_state
from mt_core.spark.streams.operators.operator_nodes import operator_of
from mt_core.spark.streams.operators.state_ttls import names_of, position_of
from mt_core.spark.streams.operators.stateless import carried
from mt_core.spark.streams.operators.walk import Walk

_NEED = "A lookup join of rows that change"
_BOTH_SIDES = frozenset({"INNER", "CROSS"})
_OUTER = (frozenset({"LEFT OUTER", "LEFT SEMI", "LEFT ANTI"}), frozenset({"RIGHT OUTER"}))
"""The outer and semi joins of a stream with a table that Spark supports, by the stream's position."""


def looked_up(walk: Walk, plan: Any) -> Changelog:
    """Return the changelog of a join of a stream with a table."""
    session, kind = walk.session, str(plan.joinType().sql())
    inputs = list(scala_items(plan.children()))
    sides = [walk.changelog(each) for each in inputs]
    stream = next(place for place, each in enumerate(inputs) if each.isStreaming())
    rows = sides[stream]
    if not rows.updates or kind not in _BOTH_SIDES | _OUTER[stream]:
        return carried(session, plan, sides)
    [policy] = walk.ttls.of_join(position_of(plan), [frozenset(names_of(inputs[stream]))])
    state = OperatorState.of(0, "lookupJoinState", policy)
    whole = plan.withNewChildren(scala_sequence(session, [side.plan for side in sides]))
    operator = java_operator(session, "LookupJoin")
    return Changelog(
        plan=operator.of(whole, stream, java_state(session, state, rows.plan, _NEED)),
        operator=operator_of(
            plan, "lookup-join", [side.operator for side in sides], changes=rows.changes, states=[state]
        ),
        unique=rows.unique if kind in {"LEFT SEMI", "LEFT ANTI"} else frozenset(),
    )
