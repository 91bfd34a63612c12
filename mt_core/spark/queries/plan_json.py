"""The JSON of plans, in time that is in proportion to them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class

_SHORT_LISTS = "freshtable.plans.ShortLists"


def json_of(session: SparkSession, plan: Any) -> str:
    """Return the JSON of a plan, in which several IN with short lists, joined by OR,
    stand for one with a long list.

    Spark takes as long for a long list as the square of its length.
    """
    return str(own_class(session, _SHORT_LISTS).of(plan).toJSON())
