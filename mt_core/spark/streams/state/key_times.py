"""The times at which a processor handles a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from pyspark.sql import Row

from mt_core.plans.policies import TtlTimeCharacteristic

_EVENT = TtlTimeCharacteristic.EVENT_TIME


class KeyTimes:
    """In milliseconds since 1970: the time of the batch, the watermark,
    and the event time of the row at hand.
    """

    def __init__(self, event_time: str | None) -> None:
        self.processing_time = self.watermark = -1
        self.row_time: int | None = None
        self._event_time = event_time

    @property
    def has_event_time(self) -> bool:
        """Whether rows have an event time."""
        return self._event_time is not None

    def begin(self, processing_time: int, watermark: int) -> None:
        """Begin with a key: no row of it is at hand."""
        self.processing_time, self.watermark, self.row_time = processing_time, watermark, None

    def of_each(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield *rows*; while one is at hand, its event time is that of what is done with a state."""
        for row in rows:
            if self._event_time is not None:
                self.row_time = _milliseconds(row[self._event_time])
            yield row

    def now(self, time: TtlTimeCharacteristic) -> int:
        """Return the instant by which an entry has expired or not."""
        return self.watermark if time is _EVENT else self.processing_time

    def at(self, time: TtlTimeCharacteristic) -> int:
        """Return when an access comes: in event time with the row at hand, and with the watermark
        if there is none.
        """
        return self.row_time if time is _EVENT and self.row_time is not None else self.now(time)


def _milliseconds(value: datetime | int | None) -> int | None:
    # By way of microseconds, which a float holds exactly.
    return round(value.timestamp() * 1_000_000) // 1000 if isinstance(value, datetime) else value
