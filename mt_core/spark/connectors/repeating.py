"""Sinks that know nothing of batches, and get each at least once: one that is repeated is written again."""

from __future__ import annotations

from abc import abstractmethod

from pyspark.sql import DataFrame

from mt_core.model.stream_plan import SinkTarget
from mt_core.spark.connectors.sink import PUBLISHED, Check, Sink, SinkAttempt


class RepeatingSink(Sink):
    """One attempt of one job on a table of a connector that stores no batch with its rows."""

    keeps_batch = False

    def __init__(self, target: SinkTarget, attempt: SinkAttempt) -> None:
        self._target, self._attempt = target, attempt

    @abstractmethod
    def write(self, rows: DataFrame, batch: int) -> int:
        """Write *rows*, and return how many."""

    def open(self) -> None:
        """Nothing has to be taken over."""

    def close(self) -> None:
        """Nothing is kept from being written."""

    def forget(self) -> None:
        """Nothing is stored."""

    def last_batch(self) -> int | None:
        """Return None: the table does not say what it has."""
        return None

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        check("write")
        count = self.write(rows, batch)
        check(PUBLISHED)
        self.batch = batch
        return count
