"""Delivery: the one timer thread over all workflows, and the few senders that hand ticks to the gateway."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta

from mt_core.clock import Clock
from mt_core.workflow.definitions import WorkflowDefinition
from scheduler_plugins.memory.missed import MissedTicks
from scheduler_plugins.memory.outbox import Outbox, Tick
from scheduler_plugins.memory.passing import Passing
from scheduler_plugins.memory.ticker import Answer, Outcome, Ticker
from scheduler_plugins.memory.timer import Timer

THREADS = "freshtable-memory-scheduler"
LONGEST_RETRY_S = 30.0
_JOIN_S = 2.0
# A wall clock can be set and a machine can sleep; neither ends a wait early, so the timer looks again this often.
_LOOK_AGAIN = timedelta(seconds=5)
_NOTICED_ATTEMPT = 3
# A clock that is adjusted by less only ticks a little later.
SETBACK = timedelta(seconds=2)
log = logging.getLogger(__name__)


class Delivery:
    """Ticks the workflows it is given, until closed; safe from any thread. It is not opened again: make a new one."""

    def __init__(self, *, clock: Clock, ticker: Ticker, senders: int) -> None:
        self._clock = clock
        self._ticker = ticker
        self._changed = threading.Condition()
        self._wake = threading.Event()
        self._closed = False
        self._unseen = True
        self._workflows: dict[str, WorkflowDefinition] = {}
        self._schedule = Timer()
        self._outbox = Outbox()
        self._missed = MissedTicks()
        self._latest = clock.now()
        self._setbacks = 0
        self._threads = [threading.Thread(target=self._keep_time, name=f"{THREADS}-timer", daemon=True)]
        self._threads += [
            threading.Thread(target=self._keep_sending, name=f"{THREADS}-sender-{number}", daemon=True)
            for number in range(senders)
        ]

    # ---------------------------------------------------------------------------------------------------- what is asked

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop soon: a tick in flight has a moment to end; the gateway's answer to it is not waited for any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._wake.set()
        for thread in self._threads:
            thread.join(_JOIN_S if thread is self._threads[0] else _JOIN_S / len(self._threads))
        self._ticker.close()

    def schedule(self, definition: WorkflowDefinition, next_point: datetime) -> None:
        """Tick the workflow from *next_point* on, in place of what was known of it, without its tick not sent yet."""
        with self._changed:
            self._put(definition)
            self._schedule.set(definition.workflow_id, next_point)
            self._wake_timer()

    def pause(self, definition: WorkflowDefinition) -> None:
        """Know the workflow, and do not tick it."""
        with self._changed:
            self._put(definition)
            self._schedule.drop(definition.workflow_id)

    def forget(self, workflow_id: str) -> None:
        with self._changed:
            self._workflows.pop(workflow_id, None)
            self._schedule.drop(workflow_id)
            self._drop_ticks(workflow_id)

    def send(self, tick: Tick) -> None:
        """Send a tick besides the scheduled ones."""
        with self._changed:
            self._outbox.put(tick)
            self._changed.notify_all()
            self._wake_timer()

    def make_up(self, missed: Iterable[Tick], *, per_second: float) -> None:
        """Send what was *missed*, so many ticks a second, and none while others wait to be sent."""
        with self._changed:
            self._missed.put(missed, per_second=per_second, now=self._clock.now())
            self._wake_timer()

    def look_up(self, workflow_ids: Iterable[str]) -> dict[str, tuple[WorkflowDefinition, datetime | None]]:
        """Return the known ones of *workflow_ids*, with their next point (None: paused)."""
        with self._changed:
            return {
                name: (self._workflows[name], self._schedule.instant_of(name))
                for name in workflow_ids
                if name in self._workflows
            }

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until every tick that is ready has been answered; return whether that was so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unseen and self._outbox.idle, timeout_s)

    def _wake_timer(self) -> None:
        self._unseen = True
        self._wake.set()

    def _put(self, definition: WorkflowDefinition) -> None:
        self._workflows[definition.workflow_id] = definition
        self._drop_ticks(definition.workflow_id)

    def _drop_ticks(self, workflow_id: str) -> None:
        self._outbox.drop(workflow_id)
        self._missed.drop(workflow_id)

    # ------------------------------------------------------------------------------------------------- the timer thread

    def _keep_time(self) -> None:
        while not self._closed:
            self._wake.clear()
            self._clock.wait_until(self._pass_points(), self._wake)

    def _pass_points(self) -> datetime | None:
        """Make ready what is due now, and return when to look again (None: when woken)."""
        now = self._clock.now()
        passing = Passing(now)
        with self._changed:
            if self._closed:
                return now
            self._unseen = False
            self._notice_setback(now, passing)
            names = self._schedule.pop_due(now)
            for name in names:
                points = passing.of(self._workflows[name].schedule)
                self._schedule.set(name, points.next)
                if points.passed is not None:
                    self._outbox.put(Tick(workflow_id=name, point=points.passed, setback=self._setbacks))
            self._outbox.release(now)
            for tick in self._missed.take(now, room=not self._outbox.crowded):
                self._outbox.put(tick)
            self._changed.notify_all()
            instants = [each.next_instant() for each in (self._schedule, self._outbox, self._missed)]
        known = [instant for instant in instants if instant is not None]
        return min(*known, now + _LOOK_AGAIN) if known else None

    def _notice_setback(self, now: datetime, passing: Passing) -> None:
        """Begin at *now* again after the clock was put back: what was the next point may be an hour, or years, away."""
        if now < self._latest - SETBACK:
            self._setbacks += 1
            log.warning("clock put back from %s to %s", self._latest, now, extra={"action": "clock_put_back"})
            for name in [name for name in self._workflows if self._schedule.instant_of(name) is not None]:
                self._schedule.set(name, passing.of(self._workflows[name].schedule).next)
                self._outbox.drop(name)
            self._latest = now
        self._latest = max(self._latest, now)

    # --------------------------------------------------------------------------------------------------------- senders

    def _keep_sending(self) -> None:
        while (taken := self._take()) is not None:
            definition, tick = taken
            answer = self._attempt(definition, tick)
            if not self._closed:
                _report(definition, tick, answer)
            self._finish(tick, answer)

    def _take(self) -> tuple[WorkflowDefinition, Tick] | None:
        """Wait for a tick; None when closed."""
        with self._changed:
            while not self._closed:
                tick = self._outbox.take()
                if tick is not None:
                    return self._workflows[tick.workflow_id], tick
                self._changed.wait()
        return None

    def _attempt(self, definition: WorkflowDefinition, tick: Tick) -> Answer:
        try:
            return self._ticker.deliver(definition, tick)
        except Exception as cause:  # a sender outlives whatever happens to one tick
            if not self._closed:
                log.exception("tick failed", extra={"action": "tick_failed", **_facts(definition, tick)})
            return Answer(outcome=Outcome.REFUSED, detail=str(cause))

    def _finish(self, tick: Tick, answer: Answer) -> None:
        retry_at = None
        if answer.outcome is Outcome.UNAVAILABLE:
            retry_at = self._clock.now() + timedelta(seconds=retry_delay_s(tick.attempt, answer.retry_after_s))
        with self._changed:
            self._outbox.finish(tick, retry_at=retry_at)
            self._changed.notify_all()
            if retry_at is not None:
                self._wake_timer()


def retry_delay_s(attempt: int, retry_after_s: float = 0.0) -> float:
    """Return the wait after failed *attempt*: 1 to 2 s at first, doubling up to 30 s, never the same for all."""
    longest = min(LONGEST_RETRY_S, 2.0**attempt) if attempt < 10 else LONGEST_RETRY_S
    return max(random.uniform(longest / 2, longest), min(retry_after_s, LONGEST_RETRY_S))


def _report(definition: WorkflowDefinition, tick: Tick, answer: Answer) -> None:
    facts = {"detail": answer.detail, **_facts(definition, tick)}
    match answer.outcome:
        case Outcome.ACCEPTED:
            log.debug("tick accepted", extra={"action": "tick_accepted", **facts})
        case Outcome.GONE:
            log.info("tick dropped: its table is gone", extra={"action": "tick_gone", **facts})
        case Outcome.REFUSED:
            log.error("tick refused: %s", answer.detail, extra={"action": "tick_refused", **facts})
        case Outcome.UNAVAILABLE:
            # One line per tick is enough: with thousands of workflows an outage would flood the log.
            level = logging.WARNING if tick.attempt == _NOTICED_ATTEMPT else logging.DEBUG
            log.log(level, "tick not accepted yet: %s", answer.detail, extra={"action": "tick_retried", **facts})


def _facts(definition: WorkflowDefinition, tick: Tick) -> dict[str, object]:
    return {
        "workflow_id": tick.workflow_id,
        "table": definition.identifier,
        "point": tick.point.isoformat(),
        "attempt": tick.attempt,
    }
