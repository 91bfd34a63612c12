"""Commits to Iceberg tables by this process, as reported to an Iceberg listener."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class

QUEUE_CAPACITY = 1000
"""The capacity of the listener's queue. Further commits are detected when the tables are polled."""
_COMMITS = "freshtable.queries.Commits"


class Commits:
    """Receives the commits of the current JVM. Not thread-safe."""

    def __init__(self) -> None:
        self._jvm_listener: tuple[Any, Any] | None = None

    def next(self, session: SparkSession, timeout_s: float) -> str | None:
        """Return the table name of the next commit, with its catalog, or None after *timeout_s* seconds.

        The committing thread is not blocked, and the JVM is not polled.
        """
        table = self._listener(session).next(round(timeout_s * 1000))
        return None if table is None else str(table)

    def _listener(self, session: SparkSession) -> Any:
        """Return the listener of the session's JVM, registered at the first call."""
        jvm = session._jvm
        if self._jvm_listener is None or self._jvm_listener[0] is not jvm:
            self._jvm_listener = jvm, own_class(session, _COMMITS).listening(QUEUE_CAPACITY)
        return self._jvm_listener[1]
