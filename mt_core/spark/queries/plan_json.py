"""The JSON of plans, created in time linear in the size of the plan."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class

_SHORT_LISTS = "freshtable.plans.ShortLists"


def json_of(session: SparkSession, plan: Any) -> str:
    """Return the JSON of a plan, with long IN lists split into short ones that are combined by OR.

    Without this, the time would be quadratic in the length of an IN list.
    """
    return str(own_class(session, _SHORT_LISTS).of(plan).toJSON())
