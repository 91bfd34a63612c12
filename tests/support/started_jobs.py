"""The number of jobs that a Spark context has started, for comparisons before and after."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def started_jobs(session: SparkSession) -> int:
    """Return the number of jobs that Spark's scheduler has started. Reading it starts no job."""
    context: Any = session.sparkContext._jsc.sc()
    return int(context.dagScheduler().numTotalJobs())
