"""The time at which a row is read, as a column of a query: PROCTIME() or current_timestamp()."""

from __future__ import annotations

from typing import Any

from mt_core.spark.driver.jvm_objects import class_name
from mt_core.spark.streams.operators.row_numbers import definition

_NOW = frozenset({"CurrentTimestamp", "Now", "LocalTimestamp"})


def is_processing_time(expression: Any, plan: Any) -> bool:
    """Return whether *expression*, over the rows of *plan*, is the time at which a row is read."""
    kind = class_name(expression)
    if kind in _NOW:
        return True
    if kind in {"Alias", "Cast"}:
        return is_processing_time(expression.child(), plan)
    if kind != "AttributeReference":
        return False
    match class_name(plan):
        case "Project":
            found = definition(plan.projectList(), expression)
            return found is not None and is_processing_time(found, plan.child())
        case "SubqueryAlias" | "Filter" | "View" | "EventTimeWatermark":
            return is_processing_time(expression, plan.child())
        case _:
            return False
