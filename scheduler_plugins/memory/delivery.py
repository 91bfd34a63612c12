"""Delivery: one timer thread for all workflows, and sender threads that deliver their ticks to the gateway.

Thousands of workflows may be due at the same instant, the gateway may be slow or unavailable, and the clock
may be set back. So one timer thread only moves due schedule times into the outbox and never does I/O, and a
fixed number of senders take ticks from there. The outbox has only the latest tick of each workflow, because
the gateway itself handles all due schedule times of a table. However long an outage, memory is limited by the
number of workflows, and the next accepted tick covers all earlier schedule times. Failed ticks are retried
with exponential backoff and jitter, up to 30 s. Ticks missed before a restart are sent at a limited rate and
only while no others are ready, so that catching up does not delay current ones. If the clock is set back by
more than `SETBACK`, every workflow is rescheduled by the new time. All state is guarded by `_changed`; the
pure classes (Timer, Outbox, CatchUp) do not lock.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from mt_core.clock import Clock
from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.scheduler import SchedulerHealth
from scheduler_plugins.memory.catch_up import CatchUp
from scheduler_plugins.memory.grid_cache import GridCache, Points
from scheduler_plugins.memory.outbox import Outbox, Tick
from scheduler_plugins.memory.ticker import Answer, Outcome, Ticker
from scheduler_plugins.memory.timer import Timer

THREADS = "freshtable-memory-scheduler"
LONGEST_RETRY_S = 30.0
_JOIN_S = 2.0
# A change of the clock or a suspended machine does not end a wait early, so the timer checks at this
# interval.
_CHECK_EVERY = timedelta(seconds=5)
# The delay after which the timer counts as stalled.
_STALLED_AFTER = timedelta(minutes=1)
_NOTICED_ATTEMPT = 3
# Smaller adjustments of the clock only delay ticks slightly.
SETBACK = timedelta(seconds=2)
log = logging.getLogger(__name__)


class Delivery:
    """Sends ticks of workflows until it is closed; it cannot be started again. Thread-safe."""

    def __init__(self, *, clock: Clock, ticker: Ticker, senders: int) -> None:
        self._clock = clock
        self._ticker = ticker
        self._changed = threading.Condition()
        self._wake = threading.Event()
        self._closed = False
        # Whether the timer thread still has to process a change.
        self._stale = True
        self._workflows: dict[str, WorkflowDefinition] = {}
        # Workflows whose start is later than now because the clock was set back.
        self._begun: set[str] = set()
        self._timer = Timer()
        self._outbox = Outbox()
        self._catch_up = CatchUp()
        self._latest = clock.now()
        # The latest time at which the timer thread wakes (None: only when it is woken).
        self._wakes_at: timedelta | None = None
        self._setbacks = 0
        self._threads = [threading.Thread(target=self._keep_time, name=f"{THREADS}-timer", daemon=True)]
        self._threads += [
            threading.Thread(target=self._keep_sending, name=f"{THREADS}-sender-{number}", daemon=True)
            for number in range(senders)
        ]

    # ---------------------------------------------------------------------------------- the scheduler's calls

    def start(self, missed: Iterable[Tick], *, per_second: float) -> None:
        """Start sending ticks, including the *missed* ones.

        Missed ticks are sent at up to *per_second* per second, and only while no others are ready.
        """
        with self._changed:
            ticks = OrderedDict((tick.workflow_id, tick) for tick in missed)
            self._catch_up = CatchUp(
                ticks=ticks, gap=timedelta(seconds=1 / per_second), next=self._clock.now()
            )
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop after waiting briefly for ticks in flight; later responses of the gateway are ignored."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._wake.set()
        for thread in self._threads:
            thread.join(_JOIN_S if thread is self._threads[0] else _JOIN_S / len(self._threads))
        self._ticker.close()

    def schedule(
        self,
        definition: WorkflowDefinition,
        next_point: datetime,
        *,
        missed: Tick | None = None,
        begun: bool = False,
    ) -> None:
        """Send *missed* now, and the workflow's ticks starting at *next_point* unless it is paused.

        Replaces an earlier definition and drops its unsent ticks. *begun* has the same meaning as in
        `GridCache`.
        """
        with self._changed:
            self.delete(definition.workflow_id)
            self._workflows[definition.workflow_id] = definition
            if begun:
                self._begun.add(definition.workflow_id)
            if not definition.paused:
                self._timer.set(definition.workflow_id, next_point)
            if missed is not None:
                self._outbox.put(missed)
            self._changed.notify_all()
            self._stale = True
            self._wake.set()

    def has_begun(self, workflow_id: str) -> bool:
        """Return whether the workflow ticks before its schedule starts, because the clock was set back."""
        with self._changed:
            return workflow_id in self._begun

    def delete(self, workflow_id: str) -> None:
        """Stop sending ticks of the workflow; harmless if it does not exist."""
        with self._changed:
            self._workflows.pop(workflow_id, None)
            self._begun.discard(workflow_id)
            self._timer.drop(workflow_id)
            self._outbox.drop(workflow_id)
            self._catch_up.drop(workflow_id)

    def look_up(self, workflow_ids: Iterable[str]) -> dict[str, tuple[WorkflowDefinition, datetime | None]]:
        """Return the workflows that exist here, each with its next schedule time (None: paused)."""
        with self._changed:
            return {
                name: (self._workflows[name], self._timer.instants.get(name))
                for name in workflow_ids
                if name in self._workflows
            }

    def health(self) -> SchedulerHealth:
        """Return whether the timer and the senders work; a problem is dated to the timer's last pass."""
        with self._changed:
            exited = [thread.name for thread in self._threads if not thread.is_alive()]
            is_stalled = (
                self._wakes_at is not None and self._clock.elapsed() > self._wakes_at + _STALLED_AFTER
            )
            if not exited and not is_stalled:
                return SchedulerHealth()
            what = (
                f"the thread {exited[0]} has exited"
                if exited
                else f"the thread {self._threads[0].name} is stalled"
            )
            way_out = "see the gateway log for the error, and restart the gateway"
            return SchedulerHealth(trouble=f"{what}; {way_out}", since=self._latest)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until the gateway has answered every ready tick; return False after *timeout_s* seconds."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not (self._stale or self._outbox.ready or self._outbox.in_flight), timeout_s
            )

    # --------------------------------------------------------------------------------------- the timer thread

    def _keep_time(self) -> None:
        while not self._closed:
            self._wake.clear()
            self._clock.wait_until(self._pass_points(), self._wake)

    def _pass_points(self) -> datetime | None:
        """Move due ticks to the outbox and return when to check again (None: when woken)."""
        now = self._clock.now()
        grids = GridCache(now)
        with self._changed:
            if self._closed:
                return now
            self._stale = False
            self._notice_setback(now, grids)
            names = self._timer.pop_due(now)
            for name in names:
                points = self._around(name, grids)
                self._timer.set(name, points.next)
                if points.passed is not None:
                    self._outbox.put(Tick(workflow_id=name, point=points.passed, setback=self._setbacks))
            self._outbox.release(now)
            for tick in self._catch_up.take(now, room=not self._outbox.ready):
                self._outbox.put(tick)
            self._changed.notify_all()
            instants = [each.next_instant() for each in (self._timer, self._outbox.delayed, self._catch_up)]
            upcoming = [instant for instant in instants if instant is not None]
            wakes_at = min(*upcoming, now + _CHECK_EVERY) if upcoming else None
            self._wakes_at = None if wakes_at is None else self._clock.elapsed() + (wakes_at - now)
            return wakes_at

    def _around(self, name: str, grids: GridCache) -> Points:
        return grids.around(self._workflows[name].schedule, begun=name in self._begun)

    def _notice_setback(self, now: datetime, grids: GridCache) -> None:
        """Reschedule workflows after *now* if the clock was set back.

        By the old clock, the next schedule time may be an hour or years away.
        """
        if now < self._latest - SETBACK:
            self._setbacks += 1
            log.warning("clock set back from %s to %s", self._latest, now, extra={"action": "clock_put_back"})
            self._begun |= {name for name, each in self._workflows.items() if each.schedule.since > now}
            for name in list(self._timer.instants):
                self._timer.set(name, self._around(name, grids).next)
                self._outbox.drop(name)
            self._latest = now
        self._latest = max(self._latest, now)

    # ------------------------------------------------------------------------------------------------ senders

    def _keep_sending(self) -> None:
        while (job := self._wait_for_tick()) is not None:
            definition, tick = job
            facts = {
                "workflow_id": tick.workflow_id,
                "table": definition.identifier,
                "point": tick.point.isoformat(),
                "attempt": tick.attempt,
            }
            try:
                answer = self._ticker.deliver(definition, tick)
            except Exception as cause:  # a sender must survive any error of one tick
                answer = Answer(outcome=Outcome.REFUSED, detail=str(cause))
                if not self._closed:
                    log.exception("tick failed", extra={"action": "tick_failed", **facts})
            if not self._closed:
                _report(tick, answer, {"detail": answer.detail, **facts})
            retry_at = None
            if answer.outcome is Outcome.UNAVAILABLE:
                retry_at = self._clock.now() + timedelta(
                    seconds=retry_delay_s(tick.attempt, answer.retry_after_s)
                )
            with self._changed:
                self._outbox.finish(tick, retry_at=retry_at)
                self._changed.notify_all()
                if retry_at is not None:
                    self._stale = True
                    self._wake.set()

    def _wait_for_tick(self) -> tuple[WorkflowDefinition, Tick] | None:
        """Return the next ready tick, or None once the delivery is closed."""
        with self._changed:
            while not self._closed:
                tick = self._outbox.take()
                if tick is not None:
                    return self._workflows[tick.workflow_id], tick
                self._changed.wait()
        return None


def retry_delay_s(attempt: int, retry_after_s: float = 0.0) -> float:
    """Return the wait, with jitter, after the failed *attempt*: 1 to 2 s at first, doubling up to 30 s."""
    longest = min(LONGEST_RETRY_S, 2.0**attempt) if attempt < 10 else LONGEST_RETRY_S
    return max(random.uniform(longest / 2, longest), min(retry_after_s, LONGEST_RETRY_S))


def _report(tick: Tick, answer: Answer, facts: Mapping[str, object]) -> None:
    match answer.outcome:
        case Outcome.ACCEPTED:
            log.debug("tick accepted", extra={"action": "tick_accepted", **facts})
        case Outcome.GONE:
            log.info("tick dropped: its table was dropped", extra={"action": "tick_gone", **facts})
        case Outcome.REFUSED:
            log.error("tick refused: %s", answer.detail, extra={"action": "tick_refused", **facts})
        case Outcome.UNAVAILABLE:
            # Warn once per tick, because an outage with thousands of workflows would flood the log.
            level = logging.WARNING if tick.attempt == _NOTICED_ATTEMPT else logging.DEBUG
            log.log(
                level, "tick not accepted yet: %s", answer.detail, extra={"action": "tick_retried", **facts}
            )
