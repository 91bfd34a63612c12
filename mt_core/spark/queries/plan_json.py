"""The JSON of plans, in time that is in proportion to them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class

_SHORT_LISTS = "freshtable.plans.ShortLists"


def json_of(session: SparkSession, plan: Any) -> str:
    """Return the JSON of a plan, in which several IN with short lists, joined by OR, stand for one with a long list.

    If Spark was started without our classes it has the long ones, and takes as long as the square of their length.
    """
    rule = own_class(session, _SHORT_LISTS)
    return str((plan if rule is None else rule.of(plan)).toJSON())
