"""The timer: names in a heap, sorted by due instant. Pure; the caller must lock."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from datetime import datetime

_SLACK = 64


@dataclass(slots=True)
class Timer:
    """Up to one instant per name, in `instants`; setting a name again replaces its instant."""

    instants: dict[str, datetime] = field(default_factory=dict)
    _heap: list[tuple[datetime, str]] = field(default_factory=list)

    def set(self, name: str, instant: datetime) -> None:
        if self.instants.get(name) == instant:
            return
        self.instants[name] = instant
        heapq.heappush(self._heap, (instant, name))
        # Stale entries of moved or removed names must not make the heap grow without limit.
        if len(self._heap) > 2 * len(self.instants) + _SLACK:
            self._heap = [(instant, name) for name, instant in self.instants.items()]
            heapq.heapify(self._heap)

    def drop(self, name: str) -> None:
        """Remove *name*; harmless if it is not set."""
        self.instants.pop(name, None)

    def next_instant(self) -> datetime | None:
        """Return the earliest instant, or None if there are no names."""
        # A stale entry is removed only when it is the first one.
        while self._heap and self.instants.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: datetime) -> list[str]:
        """Remove and return the names whose instant is not later than *now*, earliest first."""
        due = []
        while (instant := self.next_instant()) is not None and instant <= now:
            _, name = heapq.heappop(self._heap)
            del self.instants[name]
            due.append(name)
        return due
