"""A signal that the ledger or a table changed: workers and waiters sleep on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_POLL_S = 0.5


class Signal:
    """Thread-safe. Changes that another process makes are found by looking again twice a second."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._generation = 0

    def set(self) -> None:
        """Wake everybody who waits."""
        with self._changed:
            self._generation += 1
            self._changed.notify_all()

    def wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Block until *done*, at most *timeout_s* seconds; return whether it is done."""
        deadline = time.monotonic() + timeout_s
        while True:
            seen = self._generation
            if done():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with self._changed:
                if seen == self._generation:
                    self._changed.wait(min(left, _POLL_S))
