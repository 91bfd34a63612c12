"""Our classes in the JVM: the operators that Spark does not have."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.spark.driver.jvm_objects import own_class

_PACKAGE = "freshtable.operators"


def java_operator(session: SparkSession, name: str, need: str) -> Any:
    """Return our class *name*; raises Unsupported, saying what would *need* it, if Spark was started without our operators."""
    found = own_class(session, f"{_PACKAGE}.{name}")
    if found is None:
        raise Unsupported(
            f"{need} needs the operators of freshtable, which this installation has not compiled: install the wheel, or a JDK for "
            "a checkout, and start the gateway again."
        )
    return found
