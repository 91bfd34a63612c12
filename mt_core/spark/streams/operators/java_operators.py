"""Our classes in the JVM: the operators that Spark does not have."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class

_PACKAGE = "freshtable.operators"


def java_operator(session: SparkSession, name: str) -> Any:
    """Return our class *name*."""
    return own_class(session, f"{_PACKAGE}.{name}")
