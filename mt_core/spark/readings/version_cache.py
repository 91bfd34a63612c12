"""A cache of facts about table snapshots. Snapshots are immutable, so entries never become invalid."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from mt_core.spark.queries.lineage import Shape

T = TypeVar("T")


class VersionCache(Generic[T]):
    """An LRU cache of facts about table snapshots, of a total size of up to *most*. Thread-safe.

    *size* returns the size of a fact; by default each fact has size 1. The newest fact is always cached.
    """

    def __init__(self, most: int, size: Callable[[T], int] = lambda fact: 1) -> None:
        self._most, self._size, self._lock = most, size, Lock()
        # Each entry records its JVM, because its Java objects are invalid in any other JVM, and its size,
        # which may be read from them.
        self._facts: OrderedDict[tuple[Shape, tuple[str, ...]], tuple[Any, int, T]] = OrderedDict()

    def of(self, session: SparkSession, table: Shape, *snapshots: str) -> T | None:
        """Return the fact cached for *snapshots* of *table*, or None if there is no such entry."""
        key = table, snapshots
        with self._lock:
            jvm, _, fact = self._facts.get(key, (None, 0, None))
            if fact is None or jvm is not session._jvm:
                return None
            self._facts.move_to_end(key)
            return fact

    def store(self, fact: T, session: SparkSession, table: Shape, *snapshots: str) -> None:
        """Cache *fact* for *snapshots* of *table*."""
        key, size = (table, snapshots), self._size(fact)
        with self._lock:
            self._facts[key] = session._jvm, size, fact
            self._facts.move_to_end(key)
            total = sum(each for _, each, _ in self._facts.values())
            while total > self._most and len(self._facts) > 1:
                total -= self._facts.popitem(last=False)[1][1]
