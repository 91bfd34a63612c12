"""Catching up: missed ticks at a limited rate, which a stall does not exceed afterwards.

Pure; the caller locks.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mt_core.clock import is_ahead
from scheduler_plugins.memory.outbox import Tick

# Timers are always a little late: this much of a delay is made up for,
# so that the rate is reached nevertheless.
_SLACK = timedelta(seconds=0.1)


@dataclass(slots=True)
class CatchUp:
    """At most one missed tick for each workflow, by its id;
    from the instant `next` on one of them is due after each `gap`.
    """

    ticks: OrderedDict[str, Tick] = field(default_factory=OrderedDict)
    gap: timedelta = timedelta(0)
    next: datetime | None = None

    def drop(self, workflow_id: str) -> None:
        self.ticks.pop(workflow_id, None)

    def next_instant(self) -> datetime | None:
        """Return when the next tick is due, or None if there is none."""
        return self.next if self.ticks else None

    def take(self, now: datetime, *, room: bool) -> list[Tick]:
        """Remove and return the ticks that are due; without *room* for them they wait,
        and so do those behind them.
        """
        if self.next is None or is_ahead(self.next, now, self.gap):
            return []
        if not room:
            self.next = now + self.gap
            return []
        due: list[Tick] = []
        self.next = min(max(self.next, now - _SLACK), now)
        while self.ticks and self.next <= now:
            due.append(self.ticks.popitem(last=False)[1])
            self.next += self.gap
        return due
