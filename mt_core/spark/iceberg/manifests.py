"""Manifests of Iceberg's tables: few are read in the thread that asks, in less time than Iceberg's threads take to begin."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import static_member, text_map

MOST_MANIFESTS = 32
"""Manifests up to which that is so."""
_THIS_THREAD = "org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors.newDirectExecutorService"


def this_thread(session: SparkSession) -> Any:
    """Return Java's form of the calling thread as threads of its own: whoever waits for others looks every 10 ms."""
    return static_member(session, _THIS_THREAD)()


def has_few_manifests(session: SparkSession, snapshot: Any | None) -> bool:
    """Return whether *snapshot* of a table says that it has few manifests."""
    summary = {} if snapshot is None else text_map(session, snapshot.summary())
    found = [summary.get(f"manifests-{which}") for which in ("kept", "created")]
    return None not in found and sum(int(each or 0) for each in found) <= MOST_MANIFESTS
