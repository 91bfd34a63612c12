"""A signal that the ledger or a table has changed, for workers and other waiting threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

_POLL_S = 0.5
T = TypeVar("T")


class Signal:
    """A signal that threads wait for. Thread-safe.

    If another process makes the change, waiting threads notice it within half a second.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._generation = 0
        self._events: tuple[threading.Event, ...] = ()

    def set(self) -> None:
        """Wake all waiting threads."""
        with self._changed:
            self._generation += 1
            self._changed.notify_all()
            for event in self._events:
                event.set()

    def also_set(self, event: threading.Event) -> None:
        """Also set *event* at each change, for a thread that waits for other events too."""
        with self._changed:
            self._events = (*self._events, event)

    @property
    def generation(self) -> int:
        """The number of changes so far."""
        return self._generation

    def until(self, probe: Callable[[], T | None], timeout_s: float) -> T | None:
        """Block until *probe* returns a value other than None and return it, or None after *timeout_s*.

        *probe* runs in the calling thread, at least once and after every change.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            generation = self._generation
            result = probe()
            if result is not None:
                return result
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            with self._changed:
                if generation == self._generation:
                    self._changed.wait(min(remaining, _POLL_S))

    def wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Block until *done* returns True, but no longer than *timeout_s* seconds; return whether it did."""
        return self.until(lambda: done() or None, timeout_s) is not None
