"""The outbox: ticks that the gateway has not accepted yet. Pure; the caller locks."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime

from scheduler_plugins.memory.timer import Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One grid point of one workflow; `attempt` counts from 1, `setback` how often the clock had been put back before it."""

    workflow_id: str
    point: datetime
    attempt: int = 1
    setback: int = 0


class Outbox:
    """Keeps at most one tick for each workflow, that of its latest point, with one in flight at a time.

    The gateway takes all due points of a table by itself, so an older point is never worth a request of its own.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Tick] = {}
        self._delayed = Timer()
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._in_flight: dict[str, Tick] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is ready or in flight (ticks that wait for their time do not count)."""
        return not self._ready and not self._in_flight

    @property
    def crowded(self) -> bool:
        """Whether a tick is ready and waits for a sender."""
        return bool(self._ready)

    def put(self, tick: Tick) -> None:
        """Add *tick* in place of an older one, ready at once."""
        name = tick.workflow_id
        if any(each and each.point >= tick.point for each in (self._waiting.get(name), self._in_flight.get(name))):
            return
        self._waiting[name] = tick
        self._delayed.drop(name)
        if name not in self._in_flight:
            self._ready[name] = None

    def drop(self, workflow_id: str) -> None:
        """Remove the workflow's tick; one in flight cannot be called back, but is not retried."""
        self._waiting.pop(workflow_id, None)
        self._delayed.drop(workflow_id)
        self._ready.pop(workflow_id, None)
        self._in_flight.pop(workflow_id, None)

    def next_instant(self) -> datetime | None:
        """Return when the next delayed tick may be taken, or None."""
        return self._delayed.next_instant()

    def release(self, now: datetime) -> None:
        """Make the delayed ticks ready whose time has come."""
        self._ready.update(dict.fromkeys(self._delayed.pop_due(now)))

    def take(self) -> Tick | None:
        """Return the tick that has been ready for longest, in flight from now on, or None."""
        if not self._ready:
            return None
        name, _ = self._ready.popitem(last=False)
        tick = self._in_flight[name] = self._waiting.pop(name)
        return tick

    def finish(self, tick: Tick, *, retry_at: datetime | None = None) -> None:
        """Take *tick* out of flight; retry it at *retry_at* (None: never) unless a newer one waits."""
        name = tick.workflow_id
        if self._in_flight.get(name) is not tick:
            return
        del self._in_flight[name]
        if name in self._waiting:
            self._ready[name] = None
        elif retry_at is not None:
            self._waiting[name] = replace(tick, attempt=tick.attempt + 1)
            self._delayed.set(name, retry_at)
