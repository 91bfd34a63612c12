"""A catalog of Spark whose server or database a test started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import uuid4

from pyspark.sql import SparkSession


@contextmanager
def spark_catalog(session: SparkSession, options: Mapping[str, str]) -> Iterator[str]:
    """Yield the name of a catalog of Spark with *options*."""
    name = f"served_{uuid4().hex[:8]}"
    prefix = f"spark.sql.catalog.{name}"
    settings = {prefix: "org.apache.iceberg.spark.SparkCatalog", f"{prefix}.cache-enabled": "false"}
    settings |= {f"{prefix}.{key}": value for key, value in options.items()}
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield name
    finally:
        for key in settings:
            session.conf.unset(key)
