"""Catching up: missed ticks at a limited rate, which a stall does not exceed afterwards. Pure; the caller locks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime, timedelta

from scheduler_plugins.memory.outbox import Tick

# Timers are never quite on time: so much of a delay is made up for, so that the rate is reached all the same.
_SLACK = timedelta(seconds=0.1)


class CatchUp:
    """At most one missed tick for each workflow, in the order in which they were added."""

    def __init__(self) -> None:
        self._ticks: OrderedDict[str, Tick] = OrderedDict()
        self._gap = timedelta(0)
        self._next: datetime | None = None

    def put(self, ticks: Iterable[Tick], *, per_second: float, now: datetime) -> None:
        """Add *ticks*; from *now* on *per_second* of all ticks here are due each second."""
        self._ticks.update((tick.workflow_id, tick) for tick in ticks)
        self._gap, self._next = timedelta(seconds=1 / per_second), now

    def drop(self, workflow_id: str) -> None:
        self._ticks.pop(workflow_id, None)

    def next_instant(self) -> datetime | None:
        """Return when the next tick is due, or None if there is none."""
        return self._next if self._ticks else None

    def take(self, now: datetime, *, room: bool) -> list[Tick]:
        """Remove and return the ticks that are due; without *room* for them they wait, and so do those behind them."""
        if self._next is None or now < self._next:
            return []
        if not room:
            self._next = now + self._gap
            return []
        due: list[Tick] = []
        self._next = max(self._next, now - _SLACK)
        while self._ticks and self._next <= now:
            due.append(self._ticks.popitem(last=False)[1])
            self._next += self._gap
        return due
