"""Watermarks: whether that of a source reaches the rows of a plan, and which rows bring it forward."""

from __future__ import annotations

from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count as counted
from pyspark.sql.functions import lit

from mt_core.spark.driver.jvm_objects import class_name, java_dataset, scala_items
from mt_core.spark.streams.operators.stateless import with_children

_names = (f"freshtable.watermark{number}" for number in count())


def is_reached(plan: Any) -> bool:
    """Return whether the rows of *plan* come with a watermark.

    Spark passes none through an operator whose timers run in processing time:
    what is above it has that of 1970 for ever, whatever the metadata of its columns say.
    """
    match class_name(plan):
        case "EventTimeWatermark":
            return True
        case "TransformWithState" if class_name(plan.timeMode()) == "ProcessingTime$":
            return False
    return any(map(is_reached, scala_items(plan.children())))


def of_all_rows(session: SparkSession, plan: Any) -> Any:
    """Return the analysed *plan* with each watermark brought forward by all rows of its source.

    Spark would move a filter below the watermark, which then waited for the next row that passes:
    it moves none below an observed metric.
    """
    if not plan.isStreaming():
        return plan
    if class_name(plan) == "EventTimeWatermark":
        rows = DataFrame(java_dataset(session, plan), session).observe(
            next(_names), counted(lit(1)).alias("rows")
        )
        return rows._jdf.queryExecution().analyzed()
    after = [of_all_rows(session, child) for child in scala_items(plan.children())]
    if class_name(plan) == "View":
        # One of an analysed plan takes no other child.
        return plan if after[0].equals(plan.child()) else after[0]
    return with_children(session, plan, after)
