"""The clock, which is passed to whatever needs the time, so that tests can set it.

The machine's clock can be put ahead or back by any amount, by its administrator, by NTP, or when a virtual
machine goes on after a pause. So what is compared within one process is measured by `elapsed`, which no
jump changes, and `now` is for instants that others see, or that are stored. Those are compared with care:
an instant of a clock that was ahead may lie far in the future.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from datetime import UTC, datetime, timedelta

_READINGS, _READ_EVERY = 25, timedelta(hours=1)


class Clock(ABC):
    """The present, and waiting."""

    def __init__(self) -> None:
        self._readings: deque[tuple[datetime, timedelta]] = deque(maxlen=_READINGS)
        self._note()

    @abstractmethod
    def now(self) -> datetime:
        """Return the present as an aware UTC datetime."""

    @abstractmethod
    def elapsed(self) -> timedelta:
        """Return the time since some instant before this process began,
        whatever happens to the machine's clock.
        """

    @abstractmethod
    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        """Block until *instant* (None: no limit) or until *event* is set; return whether the event was set.

        The machine's clock is read once: a jump makes the wait no shorter and no longer.
        """

    def wait(self, time: timedelta, event: threading.Event) -> bool:
        """Block for so long or until *event* is set; return whether the event was set."""
        return self.wait_until(self.now() + max(time, timedelta(0)), event)

    def surely(self) -> datetime:
        """Return an instant that has come for sure: the present, but for a jump ahead since a day ago.

        For what deletes by age.
        """
        elapsed = self._note()
        return min(self.now(), *(now + (elapsed - then) for now, then in tuple(self._readings)))

    def _note(self) -> timedelta:
        """Read the clock once an hour, and keep the readings of a day."""
        elapsed = self.elapsed()
        if not self._readings or elapsed - self._readings[-1][1] >= _READ_EVERY:
            self._readings.append((self.now(), elapsed))
        return elapsed


class SystemClock(Clock):
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> timedelta:
        return timedelta(seconds=time.monotonic())

    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        self._note()
        return event.wait() if instant is None else self.wait(instant - self.now(), event)

    def wait(self, time: timedelta, event: threading.Event) -> bool:
        return event.wait(max(0.0, time.total_seconds()))


def is_ahead(instant: datetime | None, now: datetime, most: timedelta) -> bool:
    """Whether a stored *instant*, which was at most so far ahead when it was stored, is still to come.

    One that is further ahead was stored before the clock was put back, and is not waited for.
    """
    return instant is not None and now < instant <= now + most
