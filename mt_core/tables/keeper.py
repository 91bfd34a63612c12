"""The keeper port: keepers decide when each table is refreshed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mt_core.model.table import MaterializedTable


class KeeperState(StrEnum):
    """Whether a keeper refreshes a table, has paused it, or does not have it."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    MISSING = "MISSING"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperReport:
    """A keeper's report on a table; an optional value of None means unknown.

    `next_run` is a UTC instant. `changed_by` is the user who paused or resumed the table in the keeper, and
    `reason` is the reason for it. `on_schedule` is True if the keeper follows the table's freshness and time
    zone.
    """

    state: KeeperState
    next_run: datetime | None = None
    changed_by: str | None = None
    changed_at: datetime | None = None
    reason: str | None = None
    on_schedule: bool | None = None


class Keeper(Protocol):
    """Decides when tables are refreshed. Every method is thread-safe and may raise WorkflowError.

    A *handle* identifies what a keeper stores for a table. It is versioned text, opaque to everyone else.
    Changes to one table are ordered by `MaterializedTable.token`: if a keeper can, it rejects a change that
    is older than the last one.
    """

    def objection(self, table: MaterializedTable) -> str:
        """Return why the keeper can never keep *table* fresh, and how to fix that, or "" if it can."""

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        """Begin to keep *table* fresh, without checking for an existing workflow, and return the handle.

        Repeated calls return the same handle.
        """

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        """Make the table active or paused, creating it if it is missing, and return its previous state.

        *options* replace the dynamic options of the table's refreshes; None leaves them unchanged.
        """

    def reschedule(self, table: MaterializedTable) -> None:
        """Follow the current freshness of *table*, without changing its state.

        A missing table is created in the state that matches its status.
        """

    def remove(self, table_id: str, handle: str | None = None) -> None:
        """Remove a table; *handle* is None if it is unknown.

        Idempotent, and harmless for a handle of another keeper.
        """

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        """Return a report on each of *tables*, by table id, with one call for all of them."""

    def page_url(self, table: MaterializedTable) -> str | None:
        """Return the URL of what keeps *table* fresh, in the keeper's own web interface; None if it has none.

        No request is sent.
        """

    def handle_of(self, table: MaterializedTable) -> str:
        """Return the handle that *table* has or would get from `create`, without calling the scheduler."""
