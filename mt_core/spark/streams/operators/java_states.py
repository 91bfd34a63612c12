"""Operator states and their TTL policies, converted to parameters of the Java operators."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.plans.operators import OperatorState
from mt_core.plans.policies import StateAccess, TtlTimeCharacteristic
from mt_core.spark.driver.jvm_objects import class_name, scala_items
from mt_core.spark.streams.operators import watermarks
from mt_core.spark.streams.operators.java_operators import java_operator

_WATERMARK = "spark.watermarkDelayMs"
_MILLISECOND = timedelta(milliseconds=1)


def java_state(session: SparkSession, state: OperatorState, rows: Any, need: str) -> Any:
    """Return the name and policy of *state* for the Java operator that reads the plan *rows*.

    Raises Unsupported if the policy uses event time and the rows have none. *need* describes the operator
    in the error message.
    """
    return java_operator(session, "KeptState")(state.name, java_policy(session, state, rows, need))


def java_policy(session: SparkSession, state: OperatorState, rows: Any, need: str) -> Any:
    """Return the policy of *state*, with the parameters and errors of `java_state`."""
    policy, in_event_time = state.policy, state.time is TtlTimeCharacteristic.EVENT_TIME
    if in_event_time and not any(map(_has_watermark, scala_items(rows.output()))):
        raise Unsupported(
            f"EVENT TIME for the TTL of {state.name}: {need} reads rows without a watermark column. "
            "Define one for the table, WATERMARK FOR t AS t - INTERVAL …, and select its column, "
            "or use a TTL of PROCESSING TIME."
        )
    if in_event_time and not watermarks.is_reached(rows):
        raise Unsupported(
            f"EVENT TIME for the TTL of {state.name}: {need} reads the rows of an operator with a TTL "
            "of PROCESSING TIME, above which Spark has no watermark. Use EVENT TIME there too "
            "('0 EVENT TIME' retains its rows for ever), or PROCESSING TIME here."
        )
    return java_operator(session, "TtlPolicy")(
        policy.ttl // _MILLISECOND,
        policy.is_modified_by(StateAccess.READ),
        policy.is_modified_by(StateAccess.WRITE),
        in_event_time,
    )


def _has_watermark(column: Any) -> bool:
    return bool(column.metadata().contains(_WATERMARK)) and class_name(column.dataType()) == "TimestampType$"
