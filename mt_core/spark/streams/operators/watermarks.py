"""Watermarks: whether that of a source reaches the rows of a plan."""

from __future__ import annotations

from typing import Any

from mt_core.spark.driver.jvm_objects import class_name, scala_items


def is_reached(plan: Any) -> bool:
    """Return whether the rows of *plan* come with a watermark.

    Spark passes none through an operator whose timers run in processing time: what is above it has that of 1970 for ever, whatever
    the metadata of its columns say.
    """
    match class_name(plan):
        case "EventTimeWatermark":
            return True
        case "TransformWithState" if class_name(plan.timeMode()) == "ProcessingTime$":
            return False
    return any(map(is_reached, scala_items(plan.children())))
