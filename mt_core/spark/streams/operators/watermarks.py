"""Watermarks: whether a source's watermark reaches the rows of a plan, and which rows advance it."""

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
    """Return whether the rows of *plan* have a watermark.

    Spark does not propagate watermarks through an operator with processing-time timers: above it the
    watermark stays at 1970, whatever the column metadata say.
    """
    match class_name(plan):
        case "EventTimeWatermark":
            return True
        case "TransformWithState" if class_name(plan.timeMode()) == "ProcessingTime$":
            return False
    return any(map(is_reached, scala_items(plan.children())))


def of_all_rows(session: SparkSession, plan: Any) -> Any:
    """Return the analysed *plan* with each watermark advanced by all rows of its source.

    Spark would push a filter below the watermark, which would then only advance with rows that pass the
    filter. It does not push filters below an observed metric.
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
        # The View node of an analysed plan must not get another child.
        return plan if after[0].equals(plan.child()) else after[0]
    return with_children(session, plan, after)
