"""HastyClock: a clock that jumps to each instant for which a thread waits."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from mt_core.testing.fake_clock import FakeClock


class HastyClock(FakeClock):
    """A clock on which waiting for an instant takes no time."""

    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        if instant is not None and not event.is_set():
            self.advance(max(timedelta(0), instant - self.now()))
        return super().wait_until(instant, event)
