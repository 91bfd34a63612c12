"""Polls the scheduler's health in the background, so that readers do not have to wait."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from mt_core.clock import Clock
from mt_core.errors import MtError
from mt_core.workflow.scheduler import SchedulerHealth, WorkflowScheduler

# A scheduler that has not responded for this long counts as unhealthy.
LIMIT = timedelta(minutes=1)
log = logging.getLogger(__name__)


class SchedulerWatch:
    """Caches the scheduler's health.

    One thread calls `poll`. `trouble` is thread-safe and does not block.
    """

    def __init__(self, scheduler: WorkflowScheduler, clock: Clock) -> None:
        self._scheduler, self._clock = scheduler, clock
        self._health: SchedulerHealth | None = None
        # Wall-clock time and elapsed time at the start of the poll in progress.
        self._asked_at: tuple[datetime, timedelta] | None = None

    def poll(self) -> None:
        """Poll the scheduler's health and log if it has changed."""
        asked_at = self._clock.now()
        # After an error other than MtError, the poll counts as still in progress.
        self._asked_at = self._asked_at or (asked_at, self._clock.elapsed())
        try:
            health = self._scheduler.health()
        except MtError as error:
            health = SchedulerHealth(trouble=str(error))
        before = self._health
        if health is not None and health.trouble and health.since is None:
            was_ill = before is not None and before.trouble
            health = SchedulerHealth(
                trouble=health.trouble, since=before.since if before and was_ill else asked_at
            )
        self._health, self._asked_at = health, None
        self._log(before, health)

    def trouble(self) -> str | None:
        """Return the problem with its start and how to fix it.

        The result is "" if the scheduler is healthy and None if its health is unknown.
        """
        health, asked_at = self._health, self._asked_at
        if asked_at is not None and self._clock.elapsed() - asked_at[1] > LIMIT:
            text = "it has not answered a health check since then; see its log, and restart the gateway"
            return self._text(SchedulerHealth(trouble=text, since=asked_at[0]))
        if health is None:
            return None
        return self._text(health) if health.trouble else ""

    def _text(self, health: SchedulerHealth) -> str:
        return (
            f"{self._scheduler.identifier} is UNHEALTHY since {health.since:%Y-%m-%d %H:%M:%S} "
            f"UTC: {health.trouble}"
        )

    def _log(self, before: SchedulerHealth | None, now: SchedulerHealth | None) -> None:
        was_ill, is_ill = bool(before and before.trouble), bool(now and now.trouble)
        if now is not None and is_ill and not was_ill:
            log.warning("scheduler %s", self._text(now), extra={"action": "scheduler_ill"})
        elif was_ill and not is_ill:
            identifier = self._scheduler.identifier
            log.info("scheduler %s is healthy again", identifier, extra={"action": "scheduler_well"})
