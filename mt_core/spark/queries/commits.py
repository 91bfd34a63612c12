"""Commits: the names of Iceberg tables to which this process commits rows, as Iceberg tells its listeners of them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import bound_function, java_class, static_member

MOST_UNHEARD = 1000
"""Commits that wait to be heard of; further ones are found when the tables are looked at."""
_EVENTS = "org.apache.iceberg.events"


class Commits:
    """Hears of the commits of one JVM after the other. For one thread."""

    def __init__(self) -> None:
        self._heard: tuple[Any, Any] | None = None

    def next(self, session: SparkSession, timeout_s: float) -> str | None:
        """Wait for the next commit and return the name of its table, with the catalog; None if there was none in time.

        The thread of the commit waits for nobody, and this one asks the JVM for nothing while it waits.
        """
        millis = static_member(session, "java.util.concurrent.TimeUnit.MILLISECONDS")
        event = self._queue(session).poll(round(timeout_s * 1000), millis)
        return None if event is None else str(event.tableName())

    def _queue(self, session: SparkSession) -> Any:
        """Return the queue that takes the commits of the JVM; it takes them from the first call on."""
        jvm = session._jvm
        if self._heard is None or self._heard[0] is not jvm:
            queue = static_member(session, "java.util.concurrent.LinkedBlockingQueue")(MOST_UNHEARD)
            listener = bound_function(
                session, "java.util.Queue.offer", "java.lang.Object", queue, interface=f"{_EVENTS}.Listener"
            )
            event = java_class(session, f"{_EVENTS}.CreateSnapshotEvent")
            static_member(session, f"{_EVENTS}.Listeners.register")(listener, event)
            self._heard = jvm, queue
        return self._heard[1]
