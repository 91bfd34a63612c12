"""A glance at the scheduler, for statements that show tables: what it says within a moment, else what it said last."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mt_core.errors import MtError
from mt_core.model.table import MaterializedTable
from mt_core.tables.keeper import KeeperReport
from mt_core.tables.services import TableServices
from mt_core.tables.workflows.mirror import look, take_over

# A scheduler that hangs is waited for by so many threads at most.
MOST_WAITING = 4
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """What is known of a workflow: None, if nothing; `as_of` when that was seen, None for just now; `error` why not now."""

    workflow: KeeperReport | None
    as_of: datetime | None = None
    error: str = ""


class Glance:
    """Asks the scheduler and takes over what people did in it, as the reconciler does, but waits for it only so long."""

    def __init__(self, services: TableServices) -> None:
        self._services = services
        self._waiting = threading.Semaphore(MOST_WAITING)

    def at(self, tables: Sequence[MaterializedTable], now: datetime) -> dict[str, Glimpse]:
        """Return what is known of the workflows of *tables*, which were read at *now*, by table id."""
        answered, errors = self._ask(tables, now)
        late = "" if answered else "the scheduler has not answered yet"
        return {table.table_id: self._glimpse(table, now, errors[0] if errors else late) for table in tables}

    def _ask(self, tables: Sequence[MaterializedTable], now: datetime) -> tuple[bool, list[str]]:
        """Ask in another thread; return whether it was done in time, and with which error."""
        done, errors = threading.Event(), list[str]()
        if not self._waiting.acquire(blocking=False):
            return False, errors

        def work() -> None:
            try:
                seen = look(self._services, tables, now)
                self._services.sightings.note(now, seen.states)
                take_over(self._services, seen)
            except MtError as error:
                log.info("the scheduler was not read back: %s", error, extra={"action": "glance_failed"})
                errors.append(str(error))
            finally:
                self._waiting.release()
                done.set()

        threading.Thread(target=work, name="glance", daemon=True).start()
        return done.wait(self._services.settings.glance_s), errors

    def _glimpse(self, table: MaterializedTable, now: datetime, error: str) -> Glimpse:
        found = self._services.sightings.of(table.table_id)
        if found is None:
            return Glimpse(workflow=None, error=error)
        at, workflow = found
        return Glimpse(workflow=workflow) if at >= now else Glimpse(workflow=workflow, as_of=at, error=error)
