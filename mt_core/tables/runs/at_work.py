"""The refreshes at work in this process; one that must be alone excludes all others.

A run of the ledger is at work from its claim to its end, a CONTINUOUS table only during each batch. A refresh
that must be alone waits for the others to end, and no other begins before it; else it might wait forever. It
waits for `LONGEST_WAIT` at most and then begins anyway, since one of the others may hang.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

LONGEST_WAIT = timedelta(minutes=10)
log = logging.getLogger(__name__)


class AtWork:
    """The names of the refreshes at work. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alone: dict[str, bool] = {}
        self._waiter: str | None = None
        self._waits_since = timedelta(0)

    def begin(self, name: str, *, alone: bool, waits_as: str, elapsed: timedelta) -> bool:
        """Begin a refresh and return True; return False if it has to wait for others to end.

        *waits_as* is the name under which it waits: while it does, only that name may begin, until it does or
        it calls `stop_waiting`. *elapsed* is the elapsed time of the clock. Harmless if the refresh has begun
        already.
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
        """End a refresh; harmless if it is not at work."""
        with self._lock:
            self._alone.pop(name, None)

    def stop_waiting(self, waits_as: str) -> None:
        """Withdraw the waiter *waits_as*; no effect if it is not waiting."""
        with self._lock:
            if self._waiter == waits_as:
                self._waiter = None
