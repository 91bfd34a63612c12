"""The outbox: ticks that the gateway has not accepted yet. Pure; the caller must lock."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime

from scheduler_plugins.memory.timer import Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One schedule time of one workflow.

    `attempt` counts from 1, and `setback` is the number of times that the clock had been set back before.
    """

    workflow_id: str
    point: datetime
    attempt: int = 1
    setback: int = 0


@dataclass(slots=True)
class Outbox:
    """Up to one waiting tick per workflow, for its latest schedule time, and up to one in flight.

    The gateway itself handles all due schedule times of a table, so older ones need no request. A tick is
    `delayed` until its time, then `ready`, then `in_flight`.
    """

    delayed: Timer = field(default_factory=Timer)
    ready: OrderedDict[str, None] = field(default_factory=OrderedDict)
    in_flight: dict[str, Tick] = field(default_factory=dict)
    _waiting: dict[str, Tick] = field(default_factory=dict)

    def put(self, tick: Tick) -> None:
        """Add *tick* as ready, replacing an older tick of the workflow.

        Ignored if a tick of the workflow that is not older is waiting or in flight.
        """
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
        """Remove the workflow's ticks; a tick in flight may still be accepted, but is not retried."""
        self._waiting.pop(workflow_id, None)
        self.delayed.drop(workflow_id)
        self.ready.pop(workflow_id, None)
        self.in_flight.pop(workflow_id, None)

    def release(self, now: datetime) -> None:
        """Make delayed ticks ready if their time has passed."""
        self.ready.update(dict.fromkeys(self.delayed.pop_due(now)))

    def take(self) -> Tick | None:
        """Return the tick that has been ready longest and mark it as in flight, or None if none is ready."""
        if not self.ready:
            return None
        name, _ = self.ready.popitem(last=False)
        tick = self.in_flight[name] = self._waiting.pop(name)
        return tick

    def finish(self, tick: Tick, *, retry_at: datetime | None = None) -> None:
        """Remove *tick* from those in flight and retry it at *retry_at* (None: never).

        It is not retried if a newer tick is waiting.
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
