"""Observes workflows for statements that show tables: what the scheduler reports within a moment, or what it reported last."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, SimpleQueue

from mt_core.errors import MtError
from mt_core.model.table import MaterializedTable
from mt_core.tables.keeper import KeeperReport
from mt_core.tables.services import TableServices
from mt_core.tables.workflows.differences import adopt, observe

# At most so many threads wait for a scheduler that hangs.
MOST_WAITING = 4
_LATE = "the scheduler has not answered yet"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWorkflow:
    """The last report on a table; None: there was none yet. `as_of` is its instant, None for now; `error` why it is not of now."""

    report: KeeperReport | None
    as_of: datetime | None = None
    error: str = ""


class WorkflowObserver:
    """Asks the scheduler, and adopts what users did in it, as the reconciler does, but waits only so long. Thread-safe."""

    def __init__(self, services: TableServices) -> None:
        self._services = services
        self._waiting = threading.Semaphore(MOST_WAITING)

    def observe(self, tables: Sequence[MaterializedTable], now: datetime) -> dict[str, ObservedWorkflow]:
        """Return the workflows of *tables*, which were read at *now*, by table id."""
        error = self._ask(tables, now) if tables else ""
        return {table.table_id: self._last(table, now, error) for table in tables}

    def _ask(self, tables: Sequence[MaterializedTable], now: datetime) -> str:
        """Ask in another thread; return why there is no report in time, "" if there is."""
        answer = SimpleQueue[str]()
        if not self._waiting.acquire(blocking=False):
            return _LATE

        def ask() -> None:
            problem = ""
            try:
                adopt(self._services, observe(self._services, tables, now))
            except MtError as error:
                log.info("the scheduler could not be observed: %s", error, extra={"action": "observing_failed"})
                problem = str(error)
            finally:
                self._waiting.release()
                answer.put(problem)

        threading.Thread(target=ask, name="observer", daemon=True).start()
        try:
            return answer.get(timeout=self._services.settings.observe_wait_s)
        except Empty:
            return _LATE

    def _last(self, table: MaterializedTable, now: datetime, error: str) -> ObservedWorkflow:
        last = self._services.reports.of(table.table_id)
        if last is None:
            return ObservedWorkflow(report=None, error=error)
        at, report = last
        return ObservedWorkflow(report=report) if at >= now else ObservedWorkflow(report=report, as_of=at, error=error)
