"""KeeperByMode: a workflow keeps tables of refresh mode FULL, the look-out those of CONTINUOUS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mt_core.keepers.change import ChangeKeeper
from mt_core.keepers.workflow import WorkflowKeeper
from mt_core.model.table import MaterializedTable, RefreshMode
from mt_core.tables.keeper import Keeper, KeeperReport, KeeperState


@dataclass(frozen=True, slots=True)
class KeeperByMode:
    """Implements `Keeper`: each table is kept by the keeper of its mode, and a table that changes its mode leaves the other."""

    workflow: WorkflowKeeper
    change: ChangeKeeper

    def objection(self, table: MaterializedTable) -> str:
        return self._of(table).objection(table)

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        return self._of(table).create(table, active=active)

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        return self._of(table).ensure(table, active=active, options=options)

    def reschedule(self, table: MaterializedTable) -> None:
        if _is_continuous(table):
            self.workflow.remove(table.table_id)
        self._of(table).reschedule(table)

    def remove(self, table_id: str, handle: str | None = None) -> None:
        # The other keeper has nothing to remove.
        self.workflow.remove(table_id, handle)

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        by_keeper: dict[bool, list[MaterializedTable]] = {True: [], False: []}
        for table in tables:
            by_keeper[_is_continuous(table)].append(table)
        return {**self.change.observe(by_keeper[True]), **self.workflow.observe(by_keeper[False])}

    def handle_of(self, table: MaterializedTable) -> str:
        return self._of(table).handle_of(table)

    def _of(self, table: MaterializedTable) -> Keeper:
        return self.change if _is_continuous(table) else self.workflow


def _is_continuous(table: MaterializedTable) -> bool:
    return table.definition.refresh_mode is RefreshMode.CONTINUOUS
