"""The clock, which is passed to whatever needs the time, so that tests can set it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from datetime import UTC, datetime


class Clock(ABC):
    """The present, and waiting."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the present as an aware UTC datetime."""

    @abstractmethod
    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        """Block until *instant* (None: no limit) or until *event* is set; return whether the event was set."""


class SystemClock(Clock):
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        if instant is None:
            return event.wait()
        return event.wait(max(0.0, (instant - self.now()).total_seconds()))
