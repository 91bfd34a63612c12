"""The trigger: watches a run at the gateway while its task occupies no worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from freshtable_airflow.conversation import cancel, close_session
from freshtable_airflow.errors import FreshtableError, GatewayRefused, GatewayUnavailable
from freshtable_airflow.hook import FreshtableHook
from freshtable_airflow.request import RunAddress
from freshtable_airflow.watch import Terms, watch

CANCEL_TRIES = 3


class RefreshTrigger(BaseTrigger):
    """Fires when the run ends, when its deadline passes, or when the gateway is unreachable for too long.

    The trigger enforces the deadline, because Airflow's own timeout ends a deferred task without notice, and
    Spark would continue to work.
    """

    def __init__(self, *, run: dict[str, Any], freshtable_conn_id: str, terms: dict[str, Any]) -> None:
        super().__init__()
        self.freshtable_conn_id = freshtable_conn_id
        self.hook = FreshtableHook(freshtable_conn_id)
        self.watched = RunAddress(**run)
        self.terms = Terms(**terms)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "run": asdict(self.watched),
            "freshtable_conn_id": self.freshtable_conn_id,
            "terms": asdict(self.terms),
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        event = await self._watched()
        # Airflow notices with a delay that a task has been deferred. If the task is resumed before that,
        # Airflow marks it as failed.
        await asyncio.sleep(max(0.0, self.terms.not_before - time.time()))
        yield TriggerEvent(event)

    async def on_kill(self) -> None:
        """Cancel the run, because a user failed, cleared or ended the task, or deleted its DAG."""
        self.log.info(
            "The task was ended manually: refresh of %s %s", self.watched.table, await self._cancel()
        )
        with suppress(FreshtableError):
            async with await self.hook.aget_conn() as gateway:
                await gateway.hold(close_session(self.watched))

    async def _watched(self) -> dict[str, Any]:
        """Return the event: how the watch ended, and the run with the session to use next."""
        try:
            async with await self.hook.aget_conn() as gateway:
                self.watched, progress = await gateway.hold(
                    watch(self.watched, self.terms, self._log_progress)
                )
        except GatewayRefused as error:
            return self._event("refused", str(error))
        except FreshtableError as error:
            return self._event("unreachable", str(error))
        if progress.ended:
            return self._event(progress.status)
        overdue_s = time.time() - (self.terms.until or 0)
        self.log.warning(
            "Past its deadline by %.0f s: refresh of %s %s",
            overdue_s,
            self.watched.table,
            await self._cancel(),
        )
        return self._event("late")

    def _event(self, end: str, problem: str = "") -> dict[str, Any]:
        return {"end": end, "problem": problem, "run": asdict(self.watched)}

    async def _cancel(self) -> str:
        """Cancel the run; return its status, or why it was not cancelled.

        The request is retried a few times while the gateway is unreachable.
        """
        answer = ""
        for _ in range(CANCEL_TRIES):
            try:
                async with await self.hook.aget_conn() as gateway:
                    self.watched, answer = await gateway.hold(cancel(self.watched))
                    return answer
            except GatewayUnavailable as error:
                answer = answer or f"not cancelled: {error}"
            except FreshtableError as error:
                return f"not cancelled: {error}"
        return answer

    def _log_progress(self, line: str) -> None:
        self.log.info("Refresh of %s: %s", self.watched.table, line)
