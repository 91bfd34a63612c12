"""The keeper port: what decides when each table is refreshed, and what the manager asks of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mt_core.model.table import MaterializedTable


class KeeperState(StrEnum):
    """Whether a keeper refreshes a table, has stopped doing so, or does not have the table at all."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    MISSING = "MISSING"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperReport:
    """What a keeper says of a table; `next_run` is a UTC instant, `changed_by` who paused or resumed it there, if known.

    `on_schedule` says whether it follows the table's freshness and time zone; None: the keeper does not know.
    """

    state: KeeperState
    next_run: datetime | None = None
    changed_by: str | None = None
    changed_at: datetime | None = None
    on_schedule: bool | None = None


class KeeperReports:
    """The last report on each table, by table id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, tuple[datetime, KeeperReport]] = {}

    def note(self, at: datetime, reports: Mapping[str, KeeperReport]) -> None:
        """Store reports on tables that were read at *at*."""
        with self._lock:
            self._last |= {table_id: (at, report) for table_id, report in reports.items()}

    def of(self, table_id: str) -> tuple[datetime, KeeperReport] | None:
        """Return the last report and the instant it was noted for; None if there is none."""
        with self._lock:
            return self._last.get(table_id)


class Keeper(Protocol):
    """Keeps tables fresh. Every method is thread-safe and raises WorkflowError.

    A *handle* is how a keeper finds again what it has for a table: versioned text, opaque to all others. Changes of one table
    are ordered by `MaterializedTable.token`: a keeper that can, refuses one that is older than what it has done.
    """

    def objection(self, table: MaterializedTable) -> str:
        """Return why the keeper can never keep *table* fresh by its definition, with the way out; "" if it can."""

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        """Begin to keep *table*, without asking what there is, and return the handle; repeated, the handle is the same."""

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        """Make the table active or paused, created if it was missing, and return its state before.

        *options* replace the dynamic options of its refreshes; None keeps them.
        """

    def reschedule(self, table: MaterializedTable) -> None:
        """Follow the freshness of *table*; active or paused it stays, and one that was missing is created by its status."""

    def remove(self, table_id: str, handle: str | None = None) -> None:
        """Forget a table, of which perhaps only the id is known; harmless to repeat."""

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        """Return a report on each of *tables*, by table id, from one call for all of them."""

    def handle_of(self, table: MaterializedTable) -> str:
        """Return the handle of *table*, or the one that creating it would give; asks nothing."""

    def owns(self, handle: str) -> bool:
        """Return whether *handle* is one of this keeper's; asks nothing."""
