"""The metrics of Spark: whether it answers, what it does, and the memory of its JVM.

A scrape never asks Spark, which may not answer for minutes: it shows what the last pass was told.
"""

from __future__ import annotations

from datetime import timedelta

from mt_core.metrics import families
from mt_core.metrics.instruments import Instruments
from mt_core.metrics.sampled import Sampled
from mt_core.tables.engine import EngineState

_FAMILIES = (
    families.SPARK_UP,
    families.SPARK_JOBS,
    families.SPARK_TASKS,
    families.SPARK_EXECUTORS,
    families.JVM_MEMORY,
)


class SparkGauges:
    """Shows what Spark has answered in the last pass; only that it is down if it has not.

    `every` is the time between passes.
    """

    every = timedelta(seconds=15)

    def __init__(self, instruments: Instruments, engine: EngineState) -> None:
        self._engine = engine
        self._sampled = Sampled(instruments, _FAMILIES)
        self._sampled.values = {families.SPARK_UP: {(): 0}}
        instruments.read(families.SPARK_STARTS, lambda: {(): engine.starts()})

    def read(self) -> None:
        """Ask Spark: one pass of a loop."""
        load = self._engine.workload()
        if load is None:
            self._sampled.values = {families.SPARK_UP: {(): 0}}
            return
        self._sampled.values = {
            families.SPARK_UP: {(): 1},
            families.SPARK_JOBS: {(): load.jobs},
            families.SPARK_TASKS: {(): load.tasks},
            families.SPARK_EXECUTORS: {(): load.executors},
            families.JVM_MEMORY: {(area,): size for area, size in load.memory.items()},
        }
