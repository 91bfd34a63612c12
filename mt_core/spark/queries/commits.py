"""Commits: the names of Iceberg tables to which this process commits rows,
as Iceberg tells its listeners of them.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import own_class

MOST_UNHEARD = 1000
"""Commits that wait to be heard of; further ones are found when the tables are looked at."""
_COMMITS = "freshtable.queries.Commits"


class Commits:
    """Hears of the commits of one JVM after the other. For one thread."""

    def __init__(self) -> None:
        self._heard: tuple[Any, Any] | None = None

    def next(self, session: SparkSession, timeout_s: float) -> str | None:
        """Wait for the next commit and return the name of its table, with the catalog;
        None if there was none in time.

        The thread of the commit waits for nobody, and this one asks the JVM for nothing while it waits.
        """
        table = self._listener(session).next(round(timeout_s * 1000))
        return None if table is None else str(table)

    def _listener(self, session: SparkSession) -> Any:
        """Return what hears of the commits of the JVM, from the first call on."""
        jvm = session._jvm
        if self._heard is None or self._heard[0] is not jvm:
            self._heard = jvm, own_class(session, _COMMITS).listening(MOST_UNHEARD)
        return self._heard[1]
