"""The refreshes at work in this process, of which one that must be alone has no other beside it.

A run of the ledger is at work from its claim to its end, a CONTINUOUS table during each batch: an idle
stretch does nothing. One that has to be alone and finds others at work waits for their end; no other begins
before it, for else it would wait for ever. It waits for `LONGEST_WAIT` at most, and begins beside the others
then: one of them may hang.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

LONGEST_WAIT = timedelta(minutes=10)
log = logging.getLogger(__name__)


class AtWork:
    """Names of refreshes; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alone: dict[str, bool] = {}
        self._waiter: str | None = None
        self._waits_since = timedelta(0)

    def begin(self, name: str, *, alone: bool, waits_as: str, elapsed: timedelta) -> bool:
        """Begin a refresh, unless it was, and return True; False if it has to wait for others to end.

        *waits_as* is for whom all others wait then, until that begins a refresh or `gives_up`;
        *elapsed* is the time by the clock.
        """
        with self._lock:
            others = [each for other, each in self._alone.items() if other != name]
            if any(others) or self._waiter not in {None, waits_as}:
                return False
            if alone and others:
                if self._waiter is None:
                    self._waiter, self._waits_since = waits_as, elapsed
                    log.info(
                        "%s has to be alone, and waits for %s", name, ", ".join(self._alone.keys() - {name})
                    )
                if elapsed - self._waits_since < LONGEST_WAIT:
                    return False
            self._waiter, self._alone[name] = None, alone and not others
            return True

    def end(self, name: str) -> None:
        """End a refresh; harmless if it is not at work."""
        with self._lock:
            self._alone.pop(name, None)

    def gives_up(self, waits_as: str) -> None:
        """Wait no longer for a refresh of *waits_as* to begin; harmless if none waits."""
        with self._lock:
            if self._waiter == waits_as:
                self._waiter = None
