"""Steps of runs for the contract of refresh engines, on a storage table and its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

from mt_core.incremental.strategy import Way, choose_partitions
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.storage import MetadataChange, Snapshot, StorageMetadata, run_summary, state_summary
from mt_core.model.table import Column, TableIdentifier
from mt_core.tables.engine import (
    Comparison,
    ComparisonResult,
    Maintenance,
    Query,
    RefreshEngine,
    SourceChanges,
    SourceVector,
    Staged,
    StorageSpec,
    Write,
)
from mt_core.tables.refresh.forecast import strategy_for
from tests.support.marks import epoch_of, last_run_of, mark
from tests.support.registry_facts import a_table

COLUMNS = (Column(name="ds", type="string"), Column(name="k", type="int"), Column(name="v", type="int"))
STATES_NAMED = {"0123456789abcdef": "1"}
"""The states that each run names, by stage."""
Row = Mapping[str, Any]
_numbers = count(1)


class SourceTables(Protocol):
    """Changes that the engine does not make itself.

    Names are `lake.default.<name>`; rows have the columns ds, k and v.
    """

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Create a source table with *rows*."""

    def create_without_commit(self, name: str) -> None:
        """Create a source table without a commit."""

    def add_column(self, name: str) -> None:
        """Add a first column to a source without a commit."""

    def append(self, name: str, rows: Sequence[Row]) -> None:
        """Commit more rows to a source."""

    def compact(self, name: str) -> None:
        """Commit a rewrite of a source that preserves its rows."""

    def rollback(self, name: str) -> None:
        """Roll a source back to the rows before its last commit."""

    def write_foreign(self, identifier: TableIdentifier, rows: Sequence[Row]) -> None:
        """Add rows to a storage table as another writer."""

    def rows(self, identifier: TableIdentifier) -> Sequence[Row]:
        """Return a storage table's rows as a reader sees them."""


def row(ds: str, k: int, v: int) -> Row:
    return {"ds": ds, "k": k, "v": v}


def day(*values: str) -> Scope:
    return Scope.of(PartitionSpec.of({"ds": value}) for value in values)


class EngineSteps:
    """A storage table with its source, and the steps of runs on it."""

    def __init__(self, engine: RefreshEngine, source: SourceTables) -> None:
        self.engine, self.source = engine, source
        number = f"{next(_numbers)}_{uuid4().hex[:8]}"
        self.source_name = f"lake.default.src_{number}"
        self.identifier = TableIdentifier("lake", ("default",), f"mt_{number}")
        self.query = Query(text=f"SELECT * FROM {self.source_name}", catalog="lake", namespace=("default",))
        self.table_id = str(uuid4())

    def spec(self, *, table_id: str | None = None) -> StorageSpec:
        return StorageSpec(
            identifier=self.identifier,
            table_id=table_id or self.table_id,
            columns=COLUMNS,
            partition_keys=("ds",),
        )

    def load(self) -> StorageMetadata:
        return self.engine.metadata.load(self.identifier)

    def swap(self, change: MetadataChange) -> None:
        self.engine.metadata.swap(self.identifier, self.load(), change)

    def stage(self, run: str, scope: Scope = WHOLE, vector: SourceVector | None = None) -> Staged:
        """Write the rows of *run* to a pending snapshot."""
        return self.engine.writes.write(self.write(run, scope, vector))

    def write(self, run: str, scope: Scope = WHOLE, vector: SourceVector | None = None) -> Write:
        read = vector or self.engine.sources.read_vector(self.query)
        summary = run_summary(
            run_id=run,
            scope=scope,
            sources=read.to_json(),
            fingerprint="fingerprint-1",
            schedule_time=datetime(2026, 3, 30, tzinfo=UTC),
            strategy="recompute",
        ) | state_summary(STATES_NAMED)
        main = self.load().main
        assert main is not None
        return Write(
            job_id=uuid4().hex,
            table=self.identifier,
            base=main,
            query=self.query,
            columns=COLUMNS,
            vector=read,
            scope=scope,
            summary=summary,
        )

    def changes(self, since: SourceVector) -> SourceChanges:
        """Return the changes of the source since a vector."""
        changes = self.engine.changes.changes_since(
            self.query, since, self.engine.sources.read_vector(self.query)
        )
        assert not isinstance(changes, str), changes
        return changes

    def apply(
        self, run: str, since: SourceVector, *, in_place: bool = False, partitions: bool = False
    ) -> Staged:
        """Apply the changes of the source since a vector to main, which has the rows of that vector.

        If *partitions* is set, replace the touched partitions.
        """
        return self._apply(run, replace(self._maintenance(since, partitions=partitions), in_place=in_place))

    def apply_days(self, run: str, since: SourceVector, *, most: int) -> Staged:
        """Apply the changes since a vector, but refuse if they affect more than *most* days."""
        maintenance = self._maintenance(since, partitions=True)
        strategy = replace(maintenance.strategy, way=Way.STAGES, by_key=True, most_keys=most)
        return self._apply(run, replace(maintenance, strategy=strategy))

    def _apply(self, run: str, maintenance: Maintenance) -> Staged:
        staged = self.engine.writes.write(replace(self.write(run), maintenance=maintenance))
        self.publish(run, staged)
        return staged

    def touched(self, since: SourceVector) -> frozenset[tuple[str | None, ...]]:
        """Return the days of the rows that changed since a vector."""
        maintenance, vector = (
            self._maintenance(since, partitions=True),
            self.engine.sources.read_vector(self.query),
        )
        return self.engine.writes.touched_partitions(uuid4().hex, self.query, vector, maintenance)

    def _maintenance(self, since: SourceVector, *, partitions: bool) -> Maintenance:
        changes, main = self.changes(since), self.load().main
        assert main is not None
        by_number = {number: changes.changes[source] for number, source in enumerate(changes.readings)}
        if partitions:
            columns = [column.name for column in changes.columns]
            strategy = choose_partitions(
                changes.shape, by_number, [0], columns=columns, relations=changes.readings
            )
        else:
            stored = replace(a_table().definition, columns=COLUMNS, options={}, partition_keys=())
            strategy = strategy_for(changes, by_number, stored)
        return Maintenance(strategy=strategy, changes=changes, since=since, base=main)

    def compare(self, vector: SourceVector, **changes: Any) -> ComparisonResult:
        """Compare main with the query at a vector."""
        main = self.load().main
        assert main is not None
        comparison = Comparison(
            job_id=uuid4().hex,
            table=self.identifier,
            snapshot_id=main,
            query=self.query,
            columns=COLUMNS,
            vector=vector,
            scope=WHOLE,
        )
        return self.engine.comparisons.compare(replace(comparison, **changes))

    def begin(self, branch: str) -> None:
        """Set a branch to main."""
        self.swap(MetadataChange(branches={branch: str(self.load().main)}))

    def publish(self, run: str, staged: Staged) -> None:
        change = MetadataChange(
            publish=staged.snapshot.snapshot_id,
            pending=staged.pending,
            properties=mark(epoch_of(staged.metadata) + 1, run),
        )
        self.engine.metadata.swap(self.identifier, staged.metadata, change)

    def refresh(self, run: str, scope: Scope = WHOLE) -> Staged:
        staged = self.stage(run, scope)
        self.publish(run, staged)
        return staged

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted((row["ds"], row["k"], row["v"]) for row in self.source.rows(self.identifier))

    def facts(self) -> tuple[Any, ...]:
        found = self.load()
        return epoch_of(found), last_run_of(found), found.main, dict(found.branches)

    def snapshots(self) -> list[Snapshot]:
        return list(self.engine.metadata.ancestors(self.load()))


def versions(vector: SourceVector) -> list[Mapping[str, Any]]:
    """Return the versions in a vector as runs compare them, without the pinned snapshot."""
    return [
        {key: value for key, value in (entry.version or {}).items() if key != "at"}
        for entry in vector.sources
    ]
