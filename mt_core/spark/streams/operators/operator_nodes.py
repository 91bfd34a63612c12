"""Converts nodes of Spark's plans to operators with Flink's names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.types import StructType

from mt_core.base.identifiers import display_name
from mt_core.plans.operators import ADDS, Operator, OperatorState, RowKind
from mt_core.spark.connectors.changelog import ROW_KIND
from mt_core.spark.driver.jvm_objects import class_name, scala_items

_TYPES = {
    "Project": "calc",
    "Filter": "calc",
    "Union": "union",
    "Generate": "correlate",
    "Expand": "expand",
    "EventTimeWatermark": "watermark-assigner",
    # Other aggregates are our operators.
    "Aggregate": "group-window-aggregate",
    # These are joins of a stream with a table. Other joins are our operators.
    "Join": "lookup-join",
}
_TRANSPARENT = frozenset({"SubqueryAlias", "View", "ResolvedHint", "Repartition", "RepartitionByExpression"})
"""Nodes that change neither rows nor columns."""
_MOST_FIELDS = 25
# Parts of Spark's text that differ between analyses: column numbers, marks of streaming nodes, and object
# addresses.
_VOLATILE = re.compile(r"^~|#\d+L?|(?<=[a-z])@[0-9a-f]{1,8}\b")


def scan_of(plan: Any) -> Operator:
    """Return the operator that reads *plan*, which is a stream source or a query of tables."""
    return Operator(
        type="stream-exec-table-source-scan_2", description=_description(plan), output=_output(plan)
    )


def sink_of(table: Sequence[str], rows: Operator, states: Sequence[OperatorState] = ()) -> Operator:
    """Return the operator that writes *rows* to a table; *states* are those of its materialization."""
    fields = ", ".join(name for name, _type in rows.output)
    description = f"Sink(table=[{display_name(table)}], fields=[{fields}])"
    return Operator(
        type="stream-exec-sink_1",
        description=description,
        inputs=(rows,),
        changes=rows.changes,
        states=tuple(states),
        output=rows.output,
    )


def batch_operators(plan: Any) -> Operator:
    """Return the operators of an analysed *plan* that runs as a batch."""
    inputs = [batch_operators(child) for child in scala_items(plan.children())]
    operator = stateless_operator(plan, inputs, ADDS) if inputs else scan_of(plan)
    if operator in inputs:
        return operator
    return replace(operator, type=operator.type.replace("stream-exec-", "batch-exec-", 1))


def stateless_operator(plan: Any, inputs: Sequence[Operator], changes: frozenset[RowKind]) -> Operator:
    """Return the operator of a node that retains no state of ours."""
    kind = class_name(plan)
    if kind in _TRANSPARENT and len(inputs) == 1:
        return inputs[0]
    return operator_of(plan, _TYPES.get(kind) or _dashed(kind), inputs, changes=changes)


def operator_of(
    plan: Any,
    name: str,
    inputs: Sequence[Operator],
    *,
    changes: frozenset[RowKind] = ADDS,
    states: Sequence[OperatorState] = (),
) -> Operator:
    """Return Flink's operator *name*, version 1, for Spark's node *plan*."""
    return Operator(
        type=f"stream-exec-{name}_1",
        description=_description(plan),
        inputs=tuple(inputs),
        changes=changes,
        states=tuple(states),
        output=_output(plan),
    )


def _description(plan: Any) -> str:
    return _VOLATILE.sub("", str(plan.simpleString(_MOST_FIELDS))).strip()


def _output(plan: Any) -> tuple[tuple[str, str], ...]:
    schema = StructType.fromJson(json.loads(str(plan.schema().json())))
    return tuple(
        (field.name, field.dataType.simpleString()) for field in schema.fields if field.name != ROW_KIND
    )


def _dashed(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
