"""The fake engine's tables: sources with versions, and storage tables with snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.shape import Occurrence, QueryShape
from mt_core.model.partition import Scope
from mt_core.model.storage import PIN, STATES, TABLE_ID, Snapshot, StorageMetadata
from mt_core.model.table import Column
from mt_core.tables.engine import StorageSpec
from tests.support.blocks import block_over
from tests.support.marks import mark

Row = Mapping[str, Any]
NO_COMMIT = 0
"""The version of a source without any commit, which has no rows."""


@dataclass
class FakeSource:
    """A source table: its versions, and the current one."""

    uuid: str
    columns: tuple[Column, ...]
    versions: dict[int, tuple[Row, ...]]
    current: int
    parents: dict[int, int | None]
    replaces: set[int] = field(default_factory=set)
    committed: dict[int, datetime] = field(default_factory=dict)
    expired: set[int] = field(default_factory=set)
    # Increases with every change of the columns.
    schema: int = 0

    def data_version(self) -> int:
        """Return the nearest earlier version that was not a compaction."""
        version = self.current
        while version in self.replaces:
            parent = self.parents[version]
            assert parent is not None
            version = parent
        return version

    def change(self, old: int, new: int) -> SourceChange:
        """Return the change between two versions. Each row counts as one byte."""
        if old == NO_COMMIT:
            rows = len(self.versions[new])
            kind = ChangeKind.APPENDS if rows else ChangeKind.NOTHING
            return SourceChange(kind=kind, rows=rows, size=rows, from_nothing=True)
        if old in self.expired:
            reason = f"snapshot {old} has expired"
            return SourceChange(kind=ChangeKind.UNKNOWN, rows=None, size=None, base_live=False, reason=reason)
        then, now = self.versions[old], self.versions[new]
        kind = ChangeKind.NOTHING if then == now else ChangeKind.ROWS
        if kind is ChangeKind.ROWS and now[: len(then)] == then:
            kind = ChangeKind.APPENDS
        difference = abs(len(now) - len(then))
        return SourceChange(kind=kind, rows=difference, size=difference)

    def changed_rows(self, old: int, new: int) -> list[Row]:
        """Return the rows that only one of the two versions has."""
        before, after = (
            Counter(tuple(row.items()) for row in self.versions[version]) for version in (old, new)
        )
        return [dict(row) for row in (before - after) + (after - before)]


@dataclass
class StoredSnapshot:
    """A snapshot of a storage table with all its rows."""

    facts: Snapshot
    parent: str | None
    rows: tuple[Row, ...]


@dataclass
class FakeStorage:
    """A storage table: snapshots, branches and properties. Each committed snapshot has the next number."""

    spec: StorageSpec
    snapshots: dict[str, StoredSnapshot]
    main: str
    columns: tuple[Column, ...]
    epoch: int = 0
    last_run: str | None = None
    branches: dict[str, str] = field(default_factory=dict)
    last_number: int = 0
    states: str | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of main."""
        return self.snapshots[self.main].rows

    def commit(self, facts: Snapshot, rows: Iterable[Row]) -> None:
        """Commit a snapshot with *rows* to main."""
        self.snapshots[facts.snapshot_id] = StoredSnapshot(facts, self.main, tuple(rows))
        self.main = facts.snapshot_id
        self.last_number += 1

    def metadata(self) -> StorageMetadata:
        return StorageMetadata(
            location=self.spec.location,
            properties={
                TABLE_ID: self.spec.table_id,
                **mark(self.epoch, self.last_run),
                **({} if self.states is None else {STATES: self.states}),
            },
            main=self.main,
            branches=dict(self.branches),
            columns=tuple(column.name for column in self.columns),
            last_number=self.last_number,
        )

    def as_source(self) -> FakeSource:
        """Return the table as a source, whose versions are the table's snapshots."""
        snapshots = {int(snapshot_id): snapshot for snapshot_id, snapshot in self.snapshots.items()}
        return FakeSource(
            uuid=self.spec.table_id,
            columns=tuple(self.columns),
            versions={number: snapshot.rows for number, snapshot in snapshots.items()},
            current=int(self.main),
            parents={number: int(each.parent) if each.parent else None for number, each in snapshots.items()},
            replaces={number for number, each in snapshots.items() if each.facts.replace},
        )


def version_at(version: Mapping[str, Any] | None) -> int:
    """Return the version number in an entry of a vector."""
    return int((version or {}).get(PIN, NO_COMMIT))


def shape_of_columns(columns: Sequence[Column]) -> QueryShape:
    """Return the shape of a query that only selects columns of one source."""
    return QueryShape(
        occurrences={0: Occurrence()},
        lineage=tuple({0: column.name} for column in columns),
        keys=tuple(range(len(columns))),
        merge="the aggregate is not on top",
        rows=block_over(0),
    )


def text_of(value: object) -> str | None:
    """Return a value as in partition names, or None for NULL."""
    return None if value is None else str(value)


def inside(row: Row, scope: Scope) -> bool:
    """Return whether a row belongs to the partitions of *scope*."""
    if scope.specs is None:
        return True
    return any(all(text_of(row.get(key)) == value for key, value in spec.items) for spec in scope.specs)
