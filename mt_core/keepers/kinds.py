"""The keeper for each kind of table: a workflow, the source watcher, or a streaming job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from mt_core.model.table import MaterializedTable, RefreshMode
from mt_core.tables.keeper import Keeper, KeeperReport, KeeperState


class KeeperKind(Enum):
    """The kind of a table's keeper.

    A table over streams never changes its kind. The kind of any other table follows its refresh mode.
    """

    WORKFLOW = auto()
    CHANGE = auto()
    STREAM = auto()

    @classmethod
    def of(cls, table: MaterializedTable) -> KeeperKind:
        if table.definition.streams:
            return cls.STREAM
        return cls.CHANGE if table.definition.refresh_mode is RefreshMode.CONTINUOUS else cls.WORKFLOW


@dataclass(frozen=True, slots=True)
class Keepers:
    """Implements `Keeper` by passing each table to the keeper of its kind; there is one keeper per kind.

    The kind of a deleted table is unknown, so `remove` calls all keepers, in the order of *of_kind*.
    """

    of_kind: Mapping[KeeperKind, Keeper]

    def with_streams(self, keeper: Keeper) -> Keepers:
        """Return these keepers with *keeper* for tables over streams."""
        return Keepers({**self.of_kind, KeeperKind.STREAM: keeper})

    def objection(self, table: MaterializedTable) -> str:
        return self._of(table).objection(table)

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        return self._of(table).create(table, active=active)

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        return self._of(table).ensure(table, active=active, options=options)

    def reschedule(self, table: MaterializedTable) -> None:
        if KeeperKind.of(table) is KeeperKind.CHANGE:
            # The table has a workflow to remove if its refresh mode was FULL before.
            self.of_kind[KeeperKind.WORKFLOW].remove(table.table_id)
        self._of(table).reschedule(table)

    def remove(self, table_id: str, handle: str | None = None) -> None:
        # Each keeper ignores tables that it does not have.
        for keeper in self.of_kind.values():
            keeper.remove(table_id, handle)

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        of_kind: dict[KeeperKind, list[MaterializedTable]] = {kind: [] for kind in self.of_kind}
        for table in tables:
            of_kind[KeeperKind.of(table)].append(table)
        reports: dict[str, KeeperReport] = {}
        for kind, group in of_kind.items():
            reports |= self.of_kind[kind].observe(group)
        return reports

    def page_url(self, table: MaterializedTable) -> str | None:
        return self._of(table).page_url(table)

    def handle_of(self, table: MaterializedTable) -> str:
        return self._of(table).handle_of(table)

    def _of(self, table: MaterializedTable) -> Keeper:
        return self.of_kind[KeeperKind.of(table)]
