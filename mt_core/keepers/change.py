"""Keeps tables that the gateway's source watcher refreshes, with no state outside the table's row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.keeper import KeeperReport, KeeperState
from mt_core.workflow.handlers import RefreshHandler

SOURCE_WATCHER = "continuous"


class ChangeKeeper:
    """Implements `Keeper` for tables in refresh mode CONTINUOUS."""

    def objection(self, table: MaterializedTable) -> str:
        if table.definition.streams:
            return "This gateway does not run streams, and a table over an unbounded source needs one."
        return ""

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        return self.handle_of(table)

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        return _state_of(table)

    def reschedule(self, table: MaterializedTable) -> None:
        """Do nothing: the source watcher reads the freshness from the table's row."""

    def remove(self, table_id: str, handle: str | None = None) -> None:
        """Do nothing: the source watcher stops watching a table once its row has been deleted."""

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        return {table.table_id: KeeperReport(state=_state_of(table)) for table in tables}

    def page_url(self, table: MaterializedTable) -> str | None:
        return None

    def handle_of(self, table: MaterializedTable) -> str:
        location = {"identifier": str(table.identifier)}
        return RefreshHandler(
            scheduler=SOURCE_WATCHER, workflow_id=table.table_id, location=location
        ).serialize()


def _state_of(table: MaterializedTable) -> KeeperState:
    return KeeperState.PAUSED if table.status is RefreshStatus.SUSPENDED else KeeperState.ACTIVE
