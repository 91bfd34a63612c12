"""Loads the jars of the Kafka connector into a running Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from mt_core.errors import ConfigError
from mt_core.spark.driver.jars import JAR_SETS, KAFKA, local_jars
from mt_core.spark.driver.spark_driver import SparkDriver


def load_kafka(driver: SparkDriver, session: SparkSession) -> None:
    """Load the classes of Spark's Kafka connector. Raises ConfigError if its jars are not installed."""
    packages = JAR_SETS[KAFKA].packages
    jars = local_jars(driver.settings.jars_dir, packages)
    if jars is None:
        raise ConfigError(
            f"Connector '{KAFKA}' needs jars that are not in {driver.settings.jars_dir} on the gateway's "
            f"machine: run `freshtable jars add {KAFKA}` there, or put {', '.join(packages)} into that "
            "folder, then repeat the statement; no restart is needed."
        )
    driver.added_jars.ensure(session, [str(jar) for jar in jars])
