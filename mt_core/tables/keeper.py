"""The keeper port: what decides when each table is refreshed, and what the manager asks of it."""

from __future__ import annotations

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
    """What a keeper says of a table; `next_run` is a UTC instant, `changed_by` who paused
    or resumed it there, if known, and `reason` why.

    `fresh_at` is an instant of which the table is known to show its sources, None if the keeper does
    not know one. `on_schedule` says whether it follows the table's freshness and time zone; None:
    the keeper does not know.
    """

    state: KeeperState
    next_run: datetime | None = None
    changed_by: str | None = None
    changed_at: datetime | None = None
    reason: str | None = None
    on_schedule: bool | None = None
    fresh_at: datetime | None = None


class Keeper(Protocol):
    """Keeps tables fresh. Every method is thread-safe and raises WorkflowError.

    A *handle* is how a keeper finds what it has for a table: versioned text, opaque to all others.
    Changes of one table are ordered by `MaterializedTable.token`: a keeper that can refuses one that is
    older than what it has done.
    """

    def objection(self, table: MaterializedTable) -> str:
        """Return why the keeper can never keep *table* fresh by its definition, with the way out;
        "" if it can.
        """

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        """Begin to keep *table*, without asking whether it is kept already, and return the handle,
        the same each time.
        """

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        """Make the table active or paused, created if it was missing, and return its state before.

        *options* replace the dynamic options of its refreshes; None keeps them.
        """

    def reschedule(self, table: MaterializedTable) -> None:
        """Follow the freshness of *table*, in the state that it has;
        one that was missing is created by its status.
        """

    def remove(self, table_id: str, handle: str | None = None) -> None:
        """Stop keeping a table, whose handle may be unknown (None); harmless to repeat,
        and for a handle of another keeper.
        """

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        """Return a report on each of *tables*, by table id, from one call for all of them."""

    def handle_of(self, table: MaterializedTable) -> str:
        """Return the handle of *table*, or the one that creating it would give; makes no call."""
