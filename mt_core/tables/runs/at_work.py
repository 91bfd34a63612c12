"""The refreshes running in this process; one that must be alone excludes all others.

A run of the ledger counts as running from its claim to its end, a CONTINUOUS table only during each batch. A
refresh that must be alone waits for the others to end, and no other begins before it, because it might wait
forever. After `LONGEST_WAIT` it begins anyway, because one of the others may hang.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

LONGEST_WAIT = timedelta(minutes=10)
log = logging.getLogger(__name__)


class AtWork:
    """The names of the running refreshes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alone: dict[str, bool] = {}
        self._waiter: str | None = None
        self._waits_since = timedelta(0)

    def begin(self, name: str, *, alone: bool, waits_as: str, elapsed: timedelta) -> bool:
        """Begin a refresh and return True, or return False if it has to wait for others to end.

        *waits_as* is the name under which it waits. Until it begins or calls `stop_waiting`, only refreshes
        with that name may begin. *elapsed* is the elapsed time of the clock. Harmless if the refresh has
        already begun.
        """
        with self._lock:
            others = [each for other, each in self._alone.items() if other != name]
            if any(others) or self._waiter not in {None, waits_as}:
                return False
            if alone and others:
                if self._waiter is None:
                    self._waiter, self._waits_since = waits_as, elapsed
                    log.info(
                        "%s must be alone and waits for %s", name, ", ".join(self._alone.keys() - {name})
                    )
                if elapsed - self._waits_since < LONGEST_WAIT:
                    return False
            self._waiter, self._alone[name] = None, alone and not others
            return True

    def end(self, name: str) -> None:
        """End a refresh; harmless if it is not running."""
        with self._lock:
            self._alone.pop(name, None)

    def stop_waiting(self, waits_as: str) -> None:
        """Stop waiting as *waits_as*; harmless if nothing waits as *waits_as*."""
        with self._lock:
            if self._waiter == waits_as:
                self._waiter = None
