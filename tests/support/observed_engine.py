"""ObservedEngine: a FakeEngine that records the contents of every snapshot.

It also records every past position of its sources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mt_core.model.partition import PartitionSpec
from mt_core.model.storage import FINGERPRINT, RUN_ID, SOURCES
from mt_core.model.table import TableIdentifier
from mt_core.tables.engine import Query, SourceVector, Staged, Write
from tests.support.fake_engine import FakeEngine
from tests.support.fake_tables import FakeStorage, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The contents of a partition.

    `run_id` is the run that wrote it, or None for another writer. `position` is the position of the sources
    that the run read, `at` the version of `source` that it read, and `version` the same version without
    compactions.
    """

    run_id: str | None
    position: int = -1
    source: str = ""
    at: int = 0
    version: int = 0
    fingerprint: str = ""


Cells = Mapping[PartitionSpec, Cell]


class ObservedEngine(FakeEngine):
    """A FakeEngine for one table, which may be partitioned by `ds`, and sources with rows for each day."""

    def __init__(self, days: Sequence[str], sources: Sequence[str]) -> None:
        super().__init__()
        self.days = tuple(days)
        self.partitions = tuple(PartitionSpec.of({"ds": day}) for day in days)
        self.positions: list[Mapping[str, int]] = []
        self._cells: dict[str, Cells] = {}
        self._reads: list[tuple[SourceVector, int]] = []
        for name in sources:
            self.create_source(name, self._new_rows())
        self._moved()

    # ------------------------------------------------------------------------------------------------ sources

    def _new_rows(self) -> list[Row]:
        number = int(self._next_id())
        return [{"ds": day, "amount": number} for day in self.days]

    def _moved(self) -> None:
        self.positions.append({name: source.data_version() for name, source in self.sources.items()})

    def commit_sources(self) -> None:
        """Commit new rows to every source."""
        for name in self.sources:
            self.commit(name, self._new_rows())
        self._moved()

    def compact_sources(self) -> None:
        """Commit a new version with the same rows to every source."""
        for name, source in self.sources.items():
            self.commit(name, source.versions[source.current], compaction=True)
        self._moved()

    def roll_back_sources(self) -> bool:
        """Roll back to the version before the current one. Return False if there is none."""
        earlier = {name: source.parents[source.current] for name, source in self.sources.items()}
        for name, version in earlier.items():
            if version is not None:
                self.roll_back(name, version)
        self._moved()
        return all(version is not None for version in earlier.values())

    def read_vector(self, query: Query) -> SourceVector:
        vector = super().read_vector(query)
        self._reads.append((vector, len(self.positions) - 1))
        return vector

    # ------------------------------------------------------------------------------------------------ storage

    @property
    def storage(self) -> FakeStorage:
        """The only storage table."""
        (storage,) = self.storages.values()
        return storage

    def cells(self, snapshot_id: str | None = None) -> Cells:
        """Return the contents of all partitions ever written, as of a snapshot, or of main if it is None."""
        return self._cells.get(snapshot_id or self.storage.main, {})

    def rows_in(self, spec: PartitionSpec, snapshot_id: str) -> list[Row]:
        """Return the rows of a partition as of a snapshot."""
        return [
            row for row in self.storage.snapshots[snapshot_id].rows if row["ds"] == dict(spec.items)["ds"]
        ]

    def read_rows(self, spec: PartitionSpec, cell: Cell) -> list[Row]:
        """Return the rows that the run of *cell* must have read for the partition."""
        return [
            row for row in self.sources[cell.source].versions[cell.at] if row["ds"] == dict(spec.items)["ds"]
        ]

    def write(self, write: Write) -> Staged:
        staged = super().write(write)
        position = next(at for vector, at in reversed(self._reads) if vector is write.vector)
        source = write.vector.sources[0]
        version = source.version or {}
        cell = Cell(
            run_id=write.summary[RUN_ID],
            position=position,
            source=source.name,
            at=version["at"],
            version=version["snapshot"],
            fingerprint=write.summary[FINGERPRINT],
        )
        assert json.loads(write.summary[SOURCES]) == list(write.vector.to_json())
        before = self._cells.get(write.base, {})
        own = {spec: cell for spec in self.partitions if write.scope.covers(spec)}
        self._cells[staged.snapshot.snapshot_id] = {**before, **own}
        return staged

    def _add_empty(self, storage: FakeStorage) -> None:
        before = self.cells()
        super()._add_empty(storage)
        self._cells[storage.main] = before

    def write_foreign(self, identifier: TableIdentifier, rows: Sequence[Row]) -> None:
        before = self.cells()
        super().write_foreign(identifier, rows)
        theirs = {PartitionSpec.of({"ds": str(row["ds"])}): Cell(run_id=None) for row in rows}
        self._cells[self.storage.main] = {**before, **theirs}
