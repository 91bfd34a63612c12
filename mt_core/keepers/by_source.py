"""KeeperBySource: a streaming job keeps the tables over streams, another keeper all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mt_core.model.table import MaterializedTable
from mt_core.streaming.keeper import StreamKeeper
from mt_core.tables.keeper import Keeper, KeeperReport, KeeperState


@dataclass(frozen=True, slots=True)
class KeeperBySource:
    """Implements `Keeper`. No table changes from one to the other."""

    stream: StreamKeeper
    others: Keeper

    def objection(self, table: MaterializedTable) -> str:
        return self._of(table).objection(table)

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        return self._of(table).create(table, active=active)

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        return self._of(table).ensure(table, active=active, options=options)

    def reschedule(self, table: MaterializedTable) -> None:
        self._of(table).reschedule(table)

    def remove(self, table_id: str, handle: str | None = None) -> None:
        # What the table was is not known; each keeper passes over one that it does not have.
        self.stream.remove(table_id, handle)
        self.others.remove(table_id, handle)

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        every = list(tables)
        streamed = [table for table in every if table.definition.streams]
        others = [table for table in every if not table.definition.streams]
        return {**self.stream.observe(streamed), **self.others.observe(others)}

    def handle_of(self, table: MaterializedTable) -> str:
        return self._of(table).handle_of(table)

    def _of(self, table: MaterializedTable) -> Keeper:
        return self.stream if table.definition.streams else self.others
