"""The timer's heap: which of many names is due first. Pure; the caller locks."""

from __future__ import annotations

import heapq
from datetime import datetime

_SLACK = 64


class Timer:
    """At most one instant per name; setting it again moves it."""

    def __init__(self) -> None:
        self._instants: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []

    def set(self, name: str, instant: datetime) -> None:
        if self._instants.get(name) == instant:
            return
        self._instants[name] = instant
        heapq.heappush(self._heap, (instant, name))
        self._compact()

    def drop(self, name: str) -> None:
        """Remove *name*; harmless if it is not set."""
        self._instants.pop(name, None)
        self._compact()

    def instant_of(self, name: str) -> datetime | None:
        return self._instants.get(name)

    def next_instant(self) -> datetime | None:
        """Return the earliest instant, or None if nothing is set."""
        # An entry whose name was moved or dropped since is left behind in the heap.
        while self._heap and self._instants.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: datetime) -> list[str]:
        """Remove and return the names whose instant is not later than *now*, earliest first."""
        due = []
        while (instant := self.next_instant()) is not None and instant <= now:
            _, name = heapq.heappop(self._heap)
            del self._instants[name]
            due.append(name)
        return due

    def _compact(self) -> None:
        # Entries that are left behind must not grow the heap without bound.
        if len(self._heap) > 2 * len(self._instants) + _SLACK:
            self._heap = [(instant, name) for name, instant in self._instants.items()]
            heapq.heapify(self._heap)
