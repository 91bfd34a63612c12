"""Time, as something that is passed in and can be moved by tests."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from datetime import UTC, datetime


class Clock(ABC):
    """What the core knows of time."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the present as an aware UTC datetime."""

    @abstractmethod
    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        """Block until *instant* (None: for ever) or until *event* is set; return whether the event was set."""


class SystemClock(Clock):
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        if instant is None:
            return event.wait()
        return event.wait(max(0.0, (instant - self.now()).total_seconds()))
