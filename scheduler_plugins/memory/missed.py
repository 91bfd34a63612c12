"""Missed ticks, made up at so many a second; what a stall held up does not follow all at once. Pure; the caller locks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime, timedelta

from scheduler_plugins.memory.outbox import Tick

# How much of a delay is caught up with: timers are never quite on time, and the rate should be reached all the same.
_SLACK = timedelta(seconds=0.1)


class MissedTicks:
    """At most one tick per workflow, in the order they came."""

    def __init__(self) -> None:
        self._ticks: OrderedDict[str, Tick] = OrderedDict()
        self._gap = timedelta(0)
        self._next: datetime | None = None

    def put(self, ticks: Iterable[Tick], *, per_second: float, now: datetime) -> None:
        """Add *ticks*, of which, as of all others here, *per_second* are let out from *now* on."""
        self._ticks.update((tick.workflow_id, tick) for tick in ticks)
        self._gap, self._next = timedelta(seconds=1 / per_second), now

    def drop(self, workflow_id: str) -> None:
        self._ticks.pop(workflow_id, None)

    def next_instant(self) -> datetime | None:
        """Return when to look here again, or None when nothing is left."""
        return self._next if self._ticks else None

    def take(self, now: datetime, *, room: bool) -> list[Tick]:
        """Return the ticks whose time has come; without *room* for them they wait, and so do those behind them."""
        if self._next is None or now < self._next:
            return []
        if not room:
            self._next = now + self._gap
            return []
        taken: list[Tick] = []
        self._next = max(self._next, now - _SLACK)
        while self._ticks and self._next <= now:
            taken.append(self._ticks.popitem(last=False)[1])
            self._next += self._gap
        return taken
