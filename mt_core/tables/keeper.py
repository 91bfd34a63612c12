"""The keeper port: what decides when each table is refreshed, and what the manager asks it to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mt_core.model.table import MaterializedTable


class KeeperState(StrEnum):
    """Whether a keeper refreshes a table, has paused it, or does not know it."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    MISSING = "MISSING"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperReport:
    """A keeper's report on a table; None means unknown for every optional fact.

    `next_run` is a UTC instant. `changed_by` is who paused or resumed the table there, and `reason` why.
    `fresh_at` is an instant as of which the table is known to be fresh. `on_schedule` says whether the keeper
    follows the table's freshness and time zone.
    """

    state: KeeperState
    next_run: datetime | None = None
    changed_by: str | None = None
    changed_at: datetime | None = None
    reason: str | None = None
    on_schedule: bool | None = None
    fresh_at: datetime | None = None


class Keeper(Protocol):
    """Decides when tables are refreshed. Every method is thread-safe and raises WorkflowError.

    A *handle* identifies what a keeper has for a table: versioned text, opaque to all others. Changes of one
    table are ordered by `MaterializedTable.token`: a keeper that can do so rejects a change older than its
    last one.
    """

    def objection(self, table: MaterializedTable) -> str:
        """Return why the keeper can never keep *table* fresh by its definition, with the way out; "" if it
        can.
        """

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        """Begin to keep *table* fresh, without checking for an existing workflow, and return the handle.

        A repeated call returns the same handle.
        """

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        """Make the table active or paused, creating it if it is missing, and return its previous state.

        *options* replace the dynamic options of its refreshes; None leaves them unchanged.
        """

    def reschedule(self, table: MaterializedTable) -> None:
        """Follow the current freshness of *table*, without changing its state.

        A missing table is created in the state of its status.
        """

    def remove(self, table_id: str, handle: str | None = None) -> None:
        """Remove a table; *handle* may be unknown (None). Harmless to repeat, and for a handle of another
        keeper.
        """

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        """Return a report on each of *tables*, by table id, from one call for all of them."""

    def handle_of(self, table: MaterializedTable) -> str:
        """Return the handle that *table* has, or would get from `create`; makes no call."""
