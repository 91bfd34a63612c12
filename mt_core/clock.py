"""The clock, which is passed to all code that needs the time, so that tests can control it.

An administrator, NTP, or a virtual machine that resumes after a pause can move the machine's clock by any
amount. Durations within one process are therefore measured by `elapsed`, which is monotonic; `now` is only
for instants that are stored or that others see. Compare stored instants with care: if the clock was ahead
when an instant was stored, the instant may lie far in the future.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from datetime import UTC, datetime, timedelta

_READINGS, _READ_EVERY = 25, timedelta(hours=1)


class Clock(ABC):
    """The current time, and methods that wait for a later time."""

    def __init__(self) -> None:
        self._readings: deque[tuple[datetime, timedelta]] = deque(maxlen=_READINGS)
        self._note()

    @abstractmethod
    def now(self) -> datetime:
        """Return the current time as an aware UTC datetime."""

    @abstractmethod
    def elapsed(self) -> timedelta:
        """Return the time since an arbitrary instant before this process began. It never decreases."""

    @abstractmethod
    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        """Block until *instant* (None for no limit) or until *event* is set.

        Return whether the event was set.

        The machine's clock is read only once, so a jump of the clock does not change the length of the wait.
        """

    def wait(self, time: timedelta, event: threading.Event) -> bool:
        """Block for *time* or until *event* is set; return whether the event was set."""
        return self.wait_until(self.now() + max(time, timedelta(0)), event)

    def surely(self) -> datetime:
        """Return an instant that has certainly passed, for code that deletes by age.

        This is the current time, unless the machine's clock jumped ahead within the last day; such a jump is
        subtracted.
        """
        elapsed = self._note()
        return min(self.now(), *(now + (elapsed - then) for now, then in tuple(self._readings)))

    def _note(self) -> timedelta:
        """Record a reading of the clock once an hour. The readings of the last day are retained."""
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
    """Return whether a stored *instant* is still in the future.

    No instant is stored more than *most* ahead of the clock. An instant that is further ahead was stored
    before the clock was set back. It counts as past, so that nothing waits for it.
    """
    return instant is not None and now < instant <= now + most
