"""A clock for tests, which stands still until a test advances it."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from mt_core.clock import Clock

# The longest real time, in seconds, until a waiting thread notices that its event was set.
_NOTICE_S = 0.002


class FakeClock(Clock):
    """A clock for tests. Thread-safe."""

    def __init__(self, start: datetime) -> None:
        self._now, self._elapsed = start, timedelta(days=1)
        self._changed = threading.Condition()
        # For each waiting thread, the elapsed time and the event for which it waits.
        self._asleep: dict[threading.Thread, tuple[timedelta | None, threading.Event]] = {}
        self._awake: set[threading.Thread] = set()
        super().__init__()

    def now(self) -> datetime:
        with self._changed:
            return self._now

    def elapsed(self) -> timedelta:
        with self._changed:
            return self._elapsed

    def advance(self, delta: timedelta) -> None:
        """Advance the clock by *delta* and wake the threads whose waiting time has elapsed.

        A negative *delta* sets the clock back, and no time elapses.
        """
        with self._changed:
            self._now += delta
            self._elapsed += max(delta, timedelta(0))
            self._changed.notify_all()

    def put(self, delta: timedelta) -> None:
        """Move the clock by *delta*, forward or back. No time elapses, so no thread wakes."""
        with self._changed:
            self._now += delta

    def wait_until(self, instant: datetime | None, event: threading.Event) -> bool:
        """Block until the clock reaches *instant* or *event* is set. Return whether the event was set."""
        thread = threading.current_thread()
        with self._changed:
            self._awake.discard(thread)
            until = None if instant is None else self._elapsed + (instant - self._now)
            self._asleep[thread] = (until, event)
            self._changed.notify_all()
            while not self._is_due(until, event):
                self._changed.wait(_NOTICE_S)
            del self._asleep[thread]
            self._awake.add(thread)
            return event.is_set()

    def settle(self, *, threads: str = "", timeout_s: float = 5.0) -> bool:
        """Wait until every woken thread waits again or has ended, or return False after *timeout_s*.

        *threads* restricts this to threads whose names have that prefix, because a thread that waits only
        once and then keeps working never settles.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._is_settled(threads), timeout_s)

    def wait_asleep(self, thread: str, timeout_s: float = 5.0) -> bool:
        """Wait until the thread named *thread* waits on this clock, or return False after *timeout_s*."""
        with self._changed:
            return self._changed.wait_for(
                lambda: any(each.name == thread for each in self._asleep), timeout_s
            )

    def _is_due(self, until: timedelta | None, event: threading.Event) -> bool:
        return event.is_set() or (until is not None and until <= self._elapsed)

    def _is_settled(self, prefix: str) -> bool:
        self._awake = {thread for thread in self._awake if thread.is_alive()}
        busy = self._awake - {threading.current_thread()}
        due = [thread for thread, wait in self._asleep.items() if self._is_due(*wait)]
        return not any(thread.name.startswith(prefix) for thread in (*busy, *due))
