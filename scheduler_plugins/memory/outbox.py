"""The outbox: ticks that the gateway has not accepted yet. Pure; the caller locks."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime

from scheduler_plugins.memory.timer import Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One grid point of one workflow; `attempt` counts from 1, and `setback` is how often the clock had been
    set back.
    """

    workflow_id: str
    point: datetime
    attempt: int = 1
    setback: int = 0


@dataclass(slots=True)
class Outbox:
    """At most one tick per workflow, that of its latest point, with at most one in flight.

    The gateway itself takes all due points of a table, so older points need no request. A tick is first
    `delayed` until its time, then `ready`, then `in_flight`.
    """

    delayed: Timer = field(default_factory=Timer)
    ready: OrderedDict[str, None] = field(default_factory=OrderedDict)
    in_flight: dict[str, Tick] = field(default_factory=dict)
    _waiting: dict[str, Tick] = field(default_factory=dict)

    def put(self, tick: Tick) -> None:
        """Add *tick*, ready at once, in place of an older one."""
        name = tick.workflow_id
        if any(
            each and each.point >= tick.point for each in (self._waiting.get(name), self.in_flight.get(name))
        ):
            return
        self._waiting[name] = tick
        self.delayed.drop(name)
        if name not in self.in_flight:
            self.ready[name] = None

    def drop(self, workflow_id: str) -> None:
        """Remove the workflow's tick; one in flight may still be accepted, but is not retried."""
        self._waiting.pop(workflow_id, None)
        self.delayed.drop(workflow_id)
        self.ready.pop(workflow_id, None)
        self.in_flight.pop(workflow_id, None)

    def release(self, now: datetime) -> None:
        """Make delayed ticks ready whose time has come."""
        self.ready.update(dict.fromkeys(self.delayed.pop_due(now)))

    def take(self) -> Tick | None:
        """Return the tick that has been ready longest and mark it as in flight; None if no tick is ready."""
        if not self.ready:
            return None
        name, _ = self.ready.popitem(last=False)
        tick = self.in_flight[name] = self._waiting.pop(name)
        return tick

    def finish(self, tick: Tick, *, retry_at: datetime | None = None) -> None:
        """Remove *tick* from those in flight; retry it at *retry_at* (None: never) unless a newer
        one waits.
        """
        name = tick.workflow_id
        if self.in_flight.get(name) is not tick:
            return
        del self.in_flight[name]
        if name in self._waiting:
            self.ready[name] = None
        elif retry_at is not None:
            self._waiting[name] = replace(tick, attempt=tick.attempt + 1)
            self.delayed.set(name, retry_at)
