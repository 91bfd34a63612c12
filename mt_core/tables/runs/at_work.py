"""The refreshes at work in this process, of which one that must be alone has no other beside it.

A run of the ledger is at work from its claim to its end, a CONTINUOUS table during each batch: an idle stretch does nothing.
One that has to be alone and finds others at work waits for their end; no other begins before it, for else it would wait for ever.
"""

from __future__ import annotations

import threading


class AtWork:
    """Names of refreshes; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alone: dict[str, bool] = {}
        self._waiter: str | None = None

    def begin(self, name: str, *, alone: bool, waits_as: str) -> bool:
        """Begin a refresh, unless it was, and return True; False if it has to wait for others to end.

        *waits_as* is for whom all others wait then, until that begins a refresh or `gives_up`.
        """
        with self._lock:
            others = [each for other, each in self._alone.items() if other != name]
            if any(others) or self._waiter not in {None, waits_as}:
                return False
            waits = alone and bool(others)
            self._waiter = waits_as if waits else None
            if not waits:
                self._alone[name] = alone
            return not waits

    def end(self, name: str) -> None:
        """End a refresh; harmless if it is not at work."""
        with self._lock:
            self._alone.pop(name, None)

    def gives_up(self, waits_as: str) -> None:
        """Wait no longer for a refresh of *waits_as* to begin; harmless if none waits."""
        with self._lock:
            if self._waiter == waits_as:
                self._waiter = None
