"""A cache of facts about table snapshots. Snapshots are immutable, so entries never become invalid."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from mt_core.spark.queries.lineage import Shape

T = TypeVar("T")


class VersionCache(Generic[T]):
    """An LRU cache of up to *most* facts about table snapshots. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        # Each entry records its JVM, because its Java objects are invalid in any other JVM.
        self._facts: OrderedDict[tuple[Shape, tuple[str, ...]], tuple[Any, T]] = OrderedDict()

    def of(self, session: SparkSession, table: Shape, *snapshots: str) -> T | None:
        """Return the fact cached for *snapshots* of *table*, or None if there is no such entry."""
        key = table, snapshots
        with self._lock:
            jvm, fact = self._facts.get(key, (None, None))
            if fact is None or jvm is not session._jvm:
                return None
            self._facts.move_to_end(key)
            return fact

    def store(self, fact: T, session: SparkSession, table: Shape, *snapshots: str) -> None:
        """Cache *fact* for *snapshots* of *table*."""
        key = table, snapshots
        with self._lock:
            self._facts[key] = session._jvm, fact
            self._facts.move_to_end(key)
            while len(self._facts) > self._most:
                self._facts.popitem(last=False)
