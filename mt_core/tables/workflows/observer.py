"""Observes workflows for statements that show tables, with a time limit.

It returns the scheduler's current report if that arrives in time, or else the last one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from queue import Empty, SimpleQueue

from mt_core.base.background import start_thread
from mt_core.errors import MtError
from mt_core.model.table import MaterializedTable
from mt_core.tables.keeper import KeeperReport
from mt_core.tables.services import TableServices
from mt_core.tables.workflows.differences import adopt, observe

# The maximum number of threads that wait for a scheduler that does not respond.
MOST_WAITING = 4
_LATE = "the scheduler has not answered yet"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWorkflow:
    """The last report on a table, None if there has been none yet.

    `as_of` is the time of the report (None: now), and `error` is the reason why it is not current.
    """

    report: KeeperReport | None
    as_of: datetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowObserver:
    """Reads the scheduler's reports and adopts the changes of users, as the reconciler does. Thread-safe.

    Unlike the reconciler, it waits only for a limited time.
    """

    services: TableServices
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_WAITING))

    def observe(self, tables: Sequence[MaterializedTable], now: datetime) -> dict[str, ObservedWorkflow]:
        """Return the workflows of *tables*, which were read at *now*, keyed by table id."""
        error = self._ask(tables, now) if tables else ""
        observed: dict[str, ObservedWorkflow] = {}
        for table in tables:
            at, report = self.services.reports.get(table.table_id, (now, None))
            old = report is None or at < now
            observed[table.table_id] = ObservedWorkflow(
                report=report, as_of=at if at < now else None, error=error if old else ""
            )
        return observed

    def _ask(self, tables: Sequence[MaterializedTable], now: datetime) -> str:
        """Request the reports in another thread; return why they were not received in time, or ""."""
        answer = SimpleQueue[str]()
        if not self.waiting.acquire(blocking=False):
            return _LATE

        def ask() -> None:
            problem = ""
            try:
                adopt(self.services, observe(self.services, tables, now))
            except MtError as error:
                log.info(
                    "the scheduler could not be observed: %s", error, extra={"action": "observing_failed"}
                )
                problem = str(error)
            finally:
                self.waiting.release()
                answer.put(problem)

        start_thread("observer", ask)
        try:
            return answer.get(timeout=self.services.settings.observe_wait_s)
        except Empty:
            return _LATE
