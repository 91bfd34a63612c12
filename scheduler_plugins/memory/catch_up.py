"""Catching up: sends missed ticks at a limited rate, even after a stall.

Pure; the caller must lock.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mt_core.clock import is_ahead
from scheduler_plugins.memory.outbox import Tick

# Timers fire slightly late. A delay up to this is made up for, so that the average rate is reached.
_SLACK = timedelta(seconds=0.1)


@dataclass(slots=True)
class CatchUp:
    """Up to one missed tick per workflow, keyed by workflow id.

    One tick is due at the instant `next`, and another after each `gap`.
    """

    ticks: OrderedDict[str, Tick] = field(default_factory=OrderedDict)
    gap: timedelta = timedelta(0)
    next: datetime | None = None

    def drop(self, workflow_id: str) -> None:
        self.ticks.pop(workflow_id, None)

    def next_instant(self) -> datetime | None:
        """Return when the next tick is due, or None if no ticks are left."""
        return self.next if self.ticks else None

    def take(self, now: datetime, *, room: bool) -> list[Tick]:
        """Remove and return the ticks that are due; if there is no *room*, they wait for another gap."""
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
