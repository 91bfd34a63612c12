"""Watermarks: whether the rows of a plan have a watermark, and which rows advance it."""

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

    Spark does not propagate watermarks through an operator with processing-time timers. Above such an
    operator, the watermark remains at 1970, even if the column metadata contain a watermark.
    """
    match class_name(plan):
        case "EventTimeWatermark":
            return True
        case "TransformWithState" if class_name(plan.timeMode()) == "ProcessingTime$":
            return False
    return any(map(is_reached, scala_items(plan.children())))


def of_all_rows(session: SparkSession, plan: Any) -> Any:
    """Return the analysed *plan* with each watermark advanced by all rows of its source.

    Without this, Spark would push a filter below the watermark, which then advances only with the rows that
    pass the filter. Spark does not push filters below an observed metric.
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
        # Spark does not permit a View node of an analysed plan to get another child.
        return plan if after[0].equals(plan.child()) else after[0]
    return with_children(session, plan, after)
