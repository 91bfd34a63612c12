"""Access to Freshtable's operator classes in the JVM."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class

_PACKAGE = "freshtable.operators"


def java_operator(session: SparkSession, name: str) -> Any:
    """Return the operator class *name*."""
    return own_class(session, f"{_PACKAGE}.{name}")
