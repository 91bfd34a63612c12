"""The workload of Spark: its running jobs and tasks, its executors, and the memory of its JVM."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jobs import handle_of
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.tables.engine import EngineWorkload

ANSWER_S = 5.0
"""In seconds: a JVM that takes longer does not count as answering."""


def workload_of(session: SparkSession) -> EngineWorkload | None:
    """Return the workload of the JVM of *session*, by one call, or None if the call fails."""
    try:
        text = own_class(session, "freshtable.driver.Workload").of(handle_of(session.sparkContext).spark)
    except (*SPARK_ERRORS, AttributeError, AssertionError, TypeError):
        return None
    jobs, tasks, executors, heap, nonheap = json.loads(text)
    memory = {"heap": heap, "nonheap": nonheap}
    return EngineWorkload(jobs=jobs, tasks=tasks, executors=executors, memory=memory)
