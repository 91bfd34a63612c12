"""The times that apply while a processor handles a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from pyspark.sql import Row

from mt_core.plans.policies import TtlTimeCharacteristic

_EVENT = TtlTimeCharacteristic.EVENT_TIME


class KeyTimes:
    """The batch time, the watermark and the current row's event time, in milliseconds since 1970."""

    def __init__(self, event_time: str | None) -> None:
        self.processing_time = self.watermark = -1
        self.row_time: int | None = None
        self._event_time = event_time

    @property
    def has_event_time(self) -> bool:
        """True if rows have an event time."""
        return self._event_time is not None

    def begin(self, processing_time: int, watermark: int) -> None:
        """Start to handle a key, before its first row."""
        self.processing_time, self.watermark, self.row_time = processing_time, watermark, None

    def of_each(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield *rows*. While a row is processed, its event time is the time of accesses to state."""
        for row in rows:
            if self._event_time is not None:
                self.row_time = _milliseconds(row[self._event_time])
            yield row

    def now(self, time: TtlTimeCharacteristic) -> int:
        """Return the current time, which decides whether an entry has expired."""
        return self.watermark if time is _EVENT else self.processing_time

    def at(self, time: TtlTimeCharacteristic) -> int:
        """Return the time of an access: in event time, the event time of the current row, or else `now`."""
        return self.row_time if time is _EVENT and self.row_time is not None else self.now(time)


def _milliseconds(value: datetime | int | None) -> int | None:
    # Convert via microseconds, which a float represents exactly.
    return round(value.timestamp() * 1_000_000) // 1000 if isinstance(value, datetime) else value
