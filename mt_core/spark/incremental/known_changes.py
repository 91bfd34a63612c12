"""Known changes: what was found of versions of tables, for the next query that reads the same ones;
a version never changes.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from mt_core.spark.queries.lineage import Shape

T = TypeVar("T")


class Known(Generic[T]):
    """What was found of tables at some snapshots, of the last *most* ones that were asked for.

    Thread-safe.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        # Beside each, the JVM in which its objects are.
        self._found: OrderedDict[tuple[Shape, tuple[str, ...]], tuple[Any, T]] = OrderedDict()

    def of(self, session: SparkSession, table: Shape, *snapshots: str) -> T | None:
        """Return what was kept of *table*, with the columns that it has, at *snapshots*."""
        key = table, snapshots
        with self._lock:
            jvm, found = self._found.get(key, (None, None))
            if found is None or jvm is not session._jvm:
                return None
            self._found.move_to_end(key)
            return found

    def keep(self, found: T, session: SparkSession, table: Shape, *snapshots: str) -> None:
        """Keep what was found of *table* at *snapshots*."""
        key = table, snapshots
        with self._lock:
            self._found[key] = session._jvm, found
            self._found.move_to_end(key)
            while len(self._found) > self._most:
                self._found.popitem(last=False)
