"""How many jobs a Spark context has started, which a test compares before and after."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def started_jobs(session: SparkSession) -> int:
    """Return the number that Spark's scheduler has counted; asking starts no job and marks no thread."""
    context: Any = session.sparkContext._jsc.sc()
    return int(context.dagScheduler().numTotalJobs())
