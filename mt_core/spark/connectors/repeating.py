"""The base of sinks that do not record batches: a repeated batch is written again (at least once)."""

from __future__ import annotations

from abc import abstractmethod

from pyspark.sql import DataFrame

from mt_core.model.stream_plan import SinkTarget
from mt_core.spark.connectors.sink import PUBLISHED, Check, Sink, SinkAttempt


class RepeatingSink(Sink):
    """The sink of one attempt of a job whose table does not record batches."""

    records_batch = False

    def __init__(self, target: SinkTarget, attempt: SinkAttempt) -> None:
        self._target, self._attempt = target, attempt

    @abstractmethod
    def write(self, rows: DataFrame, batch: int) -> int:
        """Write *rows* and return the row count."""

    def open(self) -> None:
        """Do nothing, because there is no state to take over."""

    def close(self) -> None:
        """Do nothing, because the table cannot fence writers."""

    def forget(self) -> None:
        """Do nothing, because the table has no state of the job."""

    def last_batch(self) -> int | None:
        """Return None, because the table does not record batches."""
        return None

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        check("write")
        count = self.write(rows, batch)
        check(PUBLISHED)
        self.batch = batch
        return count
