"""Kept plans: what a session has made of a query, for the next change of what it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, ref

from pyspark.sql import SparkSession

from mt_core.model.table import Column
from mt_core.spark.queries.lineage import Lineage

P = TypeVar("P")


class KeptPlans(Generic[P]):
    """A plan for each query: to make it takes longer than few rows do.

    A lineage holds until the columns of a source, a view or a function change.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Lineage, tuple[ReferenceType[SparkSession], tuple[Column, ...], P]] = (
            WeakKeyDictionary()
        )

    def of(self, session: SparkSession, lineage: Lineage, columns: tuple[Column, ...], make: Callable[[], P]) -> P:
        """Return the plan of a query of *columns*; *make* gives it if it is not kept."""
        kept = self._kept.get(lineage)
        if kept is None or kept[0]() is not session or kept[1] != columns:
            kept = self._kept[lineage] = ref(session), columns, make()
        return kept[2]
