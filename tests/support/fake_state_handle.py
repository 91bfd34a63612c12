"""Spark's handle of a processor for one key, with states and timers in memory.

A batch processes its rows first, then the timers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

from mt_core.spark.streams.state.processor import PolicyProcessor
from mt_core.state import KeyedProcessor, TtlTimeCharacteristic
from tests.support.state_commands import Command
from tests.support.state_model import Moment


class _Value:
    def __init__(self) -> None:
        self.stored: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.stored

    def update(self, value: tuple[Any, ...]) -> None:
        self.stored = value

    def clear(self) -> None:
        self.stored = None


class _List:
    def __init__(self) -> None:
        self.stored: list[tuple[Any, ...]] = []

    def get(self) -> Iterator[tuple[Any, ...]]:
        return iter(list(self.stored))

    def put(self, values: list[tuple[Any, ...]]) -> None:
        self.stored = list(values)

    def appendList(self, values: list[tuple[Any, ...]]) -> None:  # noqa: N802
        self.stored += values

    def clear(self) -> None:
        self.stored = []


class _Map:
    def __init__(self) -> None:
        self.stored: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802
        return self.stored.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        self.stored[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        self.stored.pop(key, None)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return iter(self.stored.items())

    def clear(self) -> None:
        self.stored = {}


class FakeStateHandle:
    """The states of one key by name, and its timers."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}
        self.timers: set[int] = set()

    def getValueState(self, name: str, schema: str) -> Any:  # noqa: N802
        return self.states.setdefault(name, _Value())

    def getListState(self, name: str, schema: str) -> Any:  # noqa: N802
        return self.states.setdefault(name, _List())

    def getMapState(self, name: str, key: str, schema: str) -> Any:  # noqa: N802
        return self.states.setdefault(name, _Map())

    def registerTimer(self, at: int) -> None:  # noqa: N802
        assert at not in self.timers, "Spark warns of a timer that is there"
        self.timers.add(at)

    def deleteTimer(self, at: int) -> None:  # noqa: N802
        assert at in self.timers, "Spark warns of a timer that is not there"
        self.timers.discard(at)


class FakeKey:
    """One key of a stream that *processor* processes, with timers that run in *time*."""

    def __init__(self, processor: KeyedProcessor, time: TtlTimeCharacteristic) -> None:
        self.handle = FakeStateHandle()
        self.start(processor, time)

    def start(self, processor: KeyedProcessor, time: TtlTimeCharacteristic) -> None:
        """Start, or resume the same state with another processor."""
        self._time = time
        self._processor = PolicyProcessor(processor, time, "ts")
        self._processor.init(cast(StatefulProcessorHandle, self.handle))

    def feed(self, moment: Moment, *commands: Command) -> list[Any]:
        """Run a batch with a row of *commands*, or without rows.

        Return the results of the row, then those of the timers.
        """
        times = TimerValues(moment.processing, moment.watermark)
        row = Row(commands=json.dumps(commands), ts=moment.row)
        given = list(self._processor.handleInputRows(("k",), iter([row]), times)) if commands else []
        now = moment.watermark if self._time is TtlTimeCharacteristic.EVENT_TIME else moment.processing
        for at in sorted(at for at in self.handle.timers if at <= now):
            given += self._processor.handleExpiredTimer(("k",), times, ExpiredTimerInfo(at))
            self.handle.timers.discard(at)
        return [json.loads(row["seen"]) for row in given]

    def stored(self, state: str) -> Sequence[tuple[Any, ...]]:
        """Return the stored entries, including expired ones."""
        stored = self.handle.states[state].stored
        if state == "value":
            return [] if stored is None else [stored]
        return list(stored.values()) if state == "map" else list(stored)
