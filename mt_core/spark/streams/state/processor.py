"""Users' processors, which Spark's transformWithState runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, GroupedData, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import StructType

from mt_core.plans.policies import TtlTimeCharacteristic
from mt_core.spark.streams.state.key_times import KeyTimes
from mt_core.spark.streams.state.states import ProcessorStates, States


class KeyedProcessor(ABC):
    """Handles the rows of each key, with state per key."""

    @abstractmethod
    def open(self, states: States) -> None:
        """Open the states and store them as attributes; called before the first key of each batch."""

    @abstractmethod
    def rows(self, key: tuple[Any, ...], rows: Iterator[Row], times: KeyTimes) -> Iterator[Row]:
        """Handle the *rows* of *key* in one batch, in no particular order, and yield result rows."""

    def timer(self, key: tuple[Any, ...], name: str, times: KeyTimes) -> Iterator[Row]:
        """Handle the timer *name* of *key* and yield result rows."""
        return iter(())


class PolicyProcessor(StatefulProcessor):
    """The Spark processor that runs a `KeyedProcessor`."""

    def __init__(
        self, processor: KeyedProcessor, time: TtlTimeCharacteristic, event_time: str | None
    ) -> None:
        self._processor, self._time, self._event_time = processor, time, event_time

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the states."""
        self._times = KeyTimes(self._event_time)
        self._states = ProcessorStates(handle, self._times, self._time)
        self._processor.open(States(self._states))

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Pass the rows of a key to the processor."""
        self._begin(timerValues)
        yield from self._processor.rows(key, self._times.of_each(rows), self._times)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Remove expired entries, then pass the timers that fire to the processor."""
        self._begin(timerValues)
        for name in self._states.fired(expiredTimerInfo.getExpiryTimeInMs()):
            yield from self._processor.timer(key, name, self._times)

    def close(self) -> None:
        """Do nothing, because no resource is open."""

    def _begin(self, times: TimerValues) -> None:
        self._times.begin(times.getCurrentProcessingTimeInMs(), times.getCurrentWatermarkInMs())
        self._states.begin()


def transform_with_state(
    rows: GroupedData,
    processor: KeyedProcessor,
    *,
    output: StructType | str,
    time: TtlTimeCharacteristic,
    event_time: str | None = None,
    output_mode: str = "Append",
) -> DataFrame:
    """Return the results of *processor* for *rows*, with the schema *output*. Timers run in *time*.

    *event_time* is the column with each row's event time, a timestamp or a number of milliseconds. A state
    with an event-time policy requires this column, and a watermark on the stream.
    """
    given = PolicyProcessor(processor, time, event_time)
    return rows.transformWithState(
        given, outputStructType=output, outputMode=output_mode, timeMode=time.value
    )
