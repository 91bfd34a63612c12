"""The contract of refresh engines: subclass `EngineContract` in a test module and give it fixtures `engine` and `source`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

import pytest

from mt_core.errors import CommitConflict, QueryFailed, StorageMissing, TableExists
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.storage import Snapshot, run_summary
from mt_core.model.table import Column, TableIdentifier
from mt_core.tables.engine import (
    MetadataChange,
    Query,
    RefreshEngine,
    SourceVector,
    Staged,
    StorageMetadata,
    StorageSpec,
    Write,
)

COLUMNS = (Column(name="ds", type="string"), Column(name="k", type="int"), Column(name="v", type="int"))
Row = Mapping[str, Any]
_numbers = count(1)


class SourceTables(Protocol):
    """What the contract does behind the engine's back. Names are `lake.default.<name>`; rows have columns ds, k and v."""

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Make a source table with *rows*."""

    def append(self, name: str, rows: Sequence[Row]) -> None:
        """Commit more rows to a source."""

    def compact(self, name: str) -> None:
        """Commit a rewrite of a source which leaves its rows as they are."""

    def rollback(self, name: str) -> None:
        """Bring back the rows which a source had before its last commit."""

    def write_foreign(self, identifier: TableIdentifier, rows: Sequence[Row]) -> None:
        """Add rows to a storage table as somebody else would."""

    def rows(self, identifier: TableIdentifier) -> Sequence[Row]:
        """Return what a reader of a storage table sees."""


def row(ds: str, k: int, v: int) -> Row:
    return {"ds": ds, "k": k, "v": v}


def day(*values: str) -> Scope:
    return Scope.of(PartitionSpec.of({"ds": value}) for value in values)


class _Steps:
    """A storage table over a source of its own, and the steps of runs on it."""

    def __init__(self, engine: RefreshEngine, source: SourceTables) -> None:
        self.engine, self.source = engine, source
        number = f"{next(_numbers)}_{uuid4().hex[:8]}"
        self.source_name = f"lake.default.src_{number}"
        self.identifier = TableIdentifier("lake", ("default",), f"mt_{number}")
        self.query = Query(text=f"SELECT * FROM {self.source_name}", catalog="lake", namespace=("default",))
        self.table_id = str(uuid4())

    def spec(self, *, table_id: str | None = None) -> StorageSpec:
        return StorageSpec(
            identifier=self.identifier, table_id=table_id or self.table_id, columns=COLUMNS, partition_keys=("ds",)
        )

    def load(self) -> StorageMetadata:
        return self.engine.load(self.identifier)

    def swap(self, change: MetadataChange) -> None:
        self.engine.swap(self.identifier, self.load(), change)

    def stage(self, run: str, scope: Scope = WHOLE, vector: SourceVector | None = None) -> Staged:
        """Open a branch for *run* and write to it."""
        self.swap(MetadataChange(epoch=self.load().epoch + 1, branch=f"run_{run}"))
        return self.engine.write(self.write(run, scope, vector))

    def write(self, run: str, scope: Scope = WHOLE, vector: SourceVector | None = None) -> Write:
        read = vector or self.engine.read_vector(self.query)
        summary = run_summary(
            run_id=run,
            scope=scope,
            sources=read.to_json(),
            fingerprint="fingerprint-1",
            schedule_time=datetime(2026, 3, 30, tzinfo=UTC),
        )
        return Write(
            job_id=uuid4().hex,
            table=self.identifier,
            branch=f"run_{run}",
            query=self.query,
            columns=COLUMNS,
            vector=read,
            scope=scope,
            summary=summary,
        )

    def publish(self, run: str, staged: Staged) -> None:
        change = MetadataChange(publish=staged.snapshot_id, drop=(f"run_{run}",), last_run=run)
        self.engine.swap(self.identifier, staged.metadata, change)

    def refresh(self, run: str, scope: Scope = WHOLE) -> Staged:
        staged = self.stage(run, scope)
        self.publish(run, staged)
        return staged

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted((row["ds"], row["k"], row["v"]) for row in self.source.rows(self.identifier))

    def facts(self) -> tuple[Any, ...]:
        found = self.load()
        return found.epoch, found.last_run, found.main, dict(found.branches)

    def snapshots(self) -> list[Snapshot]:
        return list(self.engine.ancestors(self.load()))


def versions(vector: SourceVector) -> list[Mapping[str, Any]]:
    """Return the versions of a vector as runs compare them: without the snapshot they were pinned at."""
    return [{key: value for key, value in (entry.version or {}).items() if key != "at"} for entry in vector.sources]


class EngineContract:
    """What the manager relies on."""

    @pytest.fixture
    def steps(self, engine: RefreshEngine, source: SourceTables) -> Iterator[_Steps]:
        steps = _Steps(engine, source)
        source.create(steps.source_name, [row("a", 1, 10), row("b", 2, 20)])
        engine.create_storage(steps.spec())
        yield steps
        engine.drop_storage(steps.identifier, steps.table_id, "")

    # ------------------------------------------------------------------------------------------------------ storage

    def test_a_new_table_is_empty_with_one_snapshot_of_ours(self, steps: _Steps) -> None:
        found = steps.load()

        assert (found.table_id, found.epoch, found.last_run, dict(found.branches)) == (steps.table_id, 0, None, {})
        assert found.columns == ("ds", "k", "v")
        assert steps.snapshots() == [Snapshot(snapshot_id=str(found.main), created=True)]
        assert steps.rows() == []

    def test_creating_again_with_the_same_id_changes_nothing(self, steps: _Steps) -> None:
        steps.refresh("r1")
        before = steps.facts(), steps.rows()

        steps.engine.create_storage(steps.spec())

        assert (steps.facts(), steps.rows()) == before

    def test_creating_with_another_id_is_refused_and_changes_nothing(self, steps: _Steps) -> None:
        before = steps.facts()

        with pytest.raises(TableExists, match=steps.identifier.name):
            steps.engine.create_storage(steps.spec(table_id=str(uuid4())))

        assert steps.facts() == before
        assert steps.load().table_id == steps.table_id

    def test_dropping_takes_the_table_away_and_twice_is_harmless(self, steps: _Steps) -> None:
        steps.engine.drop_storage(steps.identifier, steps.table_id, "")
        steps.engine.drop_storage(steps.identifier, steps.table_id, "")

        assert not steps.engine.relation_exists(steps.identifier)
        with pytest.raises(StorageMissing, match=steps.identifier.name):
            steps.load()

    def test_dropping_with_another_id_leaves_the_table(self, steps: _Steps) -> None:
        steps.refresh("r1")
        before = steps.facts(), steps.rows()

        steps.engine.drop_storage(steps.identifier, str(uuid4()), "")

        assert steps.engine.relation_exists(steps.identifier)
        assert (steps.facts(), steps.rows()) == before

    def test_a_dropped_name_can_be_used_again_at_once(self, steps: _Steps) -> None:
        steps.refresh("r1")
        steps.engine.drop_storage(steps.identifier, steps.table_id, "")
        steps.table_id = str(uuid4())

        steps.engine.create_storage(steps.spec())

        assert steps.load().table_id == steps.table_id
        assert steps.rows() == []

    def test_columns_are_appended_once(self, steps: _Steps) -> None:
        added = (Column(name="k", type="int"), Column(name="note", type="string"))

        steps.engine.add_columns(steps.identifier, added)
        steps.engine.add_columns(steps.identifier, added)

        assert steps.load().columns == ("ds", "k", "v", "note")

    # ----------------------------------------------------------------------------------------------------- metadata

    def test_a_swap_sets_the_epoch_and_opens_a_branch_at_main(self, steps: _Steps) -> None:
        main = steps.load().main

        steps.swap(MetadataChange(epoch=7, branch="run_r1"))

        assert steps.facts() == (7, None, main, {"run_r1": main})

    def test_a_swap_drops_branches(self, steps: _Steps) -> None:
        steps.swap(MetadataChange(branch="run_r1"))
        steps.swap(MetadataChange(branch="run_r2", drop=("run_r1",)))

        assert list(steps.load().branches) == ["run_r2"]

    def test_a_stale_swap_is_refused_and_changes_nothing(self, steps: _Steps) -> None:
        stale = steps.load()
        steps.swap(MetadataChange(epoch=2))
        before = steps.facts()

        with pytest.raises(CommitConflict, match=steps.identifier.name):
            steps.engine.swap(steps.identifier, stale, MetadataChange(epoch=3, branch="run_r1", last_run="r1"))

        assert steps.facts() == before

    def test_of_two_swaps_from_the_same_metadata_exactly_one_wins(self, steps: _Steps) -> None:
        first, second = steps.load(), steps.load()

        steps.engine.swap(steps.identifier, second, MetadataChange(epoch=5))
        with pytest.raises(CommitConflict):
            steps.engine.swap(steps.identifier, first, MetadataChange(epoch=4))

        assert steps.load().epoch == 5

    def test_a_swap_to_the_same_epoch_still_fences_what_was_read_before(self, steps: _Steps) -> None:
        steps.swap(MetadataChange(epoch=3))
        in_flight = steps.load()

        steps.swap(MetadataChange(epoch=3))

        with pytest.raises(CommitConflict):
            steps.engine.swap(steps.identifier, in_flight, MetadataChange(epoch=3, branch="run_r1"))

    def test_a_swap_is_stale_after_a_write_to_a_branch(self, steps: _Steps) -> None:
        steps.swap(MetadataChange(epoch=1, branch="run_r1"))
        before = steps.load()
        steps.engine.write(steps.write("r1"))

        with pytest.raises(CommitConflict):
            steps.engine.swap(steps.identifier, before, MetadataChange(drop=("run_r1",)))

        assert "run_r1" in steps.load().branches

    def test_what_a_write_read_back_is_stale_after_another_commit(self, steps: _Steps) -> None:
        staged = steps.stage("r1")
        steps.swap(MetadataChange(epoch=2))
        before = steps.facts()

        with pytest.raises(CommitConflict):
            steps.publish("r1", staged)

        assert (steps.facts(), steps.rows()) == (before, [])

    # ------------------------------------------------------------------------------------------------------- writes

    def test_rows_on_a_branch_are_not_seen_before_publish(self, steps: _Steps) -> None:
        main = steps.load().main

        staged = steps.stage("r1")

        found = steps.load()
        assert (found.main, dict(found.branches)) == (main, {"run_r1": staged.snapshot_id})
        assert staged.rows == 2
        assert steps.rows() == []

    def test_publish_shows_the_rows_and_remembers_the_run(self, steps: _Steps) -> None:
        staged = steps.refresh("r1")

        assert steps.facts() == (1, "r1", staged.snapshot_id, {})
        assert steps.rows() == [("a", 1, 10), ("b", 2, 20)]

    def test_a_whole_table_run_replaces_all_rows(self, steps: _Steps) -> None:
        steps.refresh("r1")
        steps.source.append(steps.source_name, [row("c", 3, 30)])

        steps.refresh("r2")

        assert steps.rows() == [("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]

    def test_a_partition_run_replaces_exactly_its_partitions(self, steps: _Steps) -> None:
        steps.refresh("r1")
        steps.source.append(steps.source_name, [row("a", 4, 40), row("b", 5, 50), row("c", 6, 60)])

        staged = steps.refresh("r2", day("b", "c"))

        assert staged.rows == 3
        assert steps.rows() == [("a", 1, 10), ("b", 2, 20), ("b", 5, 50), ("c", 6, 60)]

    def test_a_partition_that_became_empty_loses_its_rows(self, steps: _Steps) -> None:
        steps.source.append(steps.source_name, [row("c", 3, 30)])
        steps.refresh("r1")
        steps.source.rollback(steps.source_name)

        staged = steps.refresh("r2", day("c"))

        assert staged.rows == 0
        assert steps.rows() == [("a", 1, 10), ("b", 2, 20)]

    def test_a_run_without_any_rows_is_recorded_all_the_same(self, steps: _Steps) -> None:
        steps.refresh("r1", day("nowhere"))

        assert [snapshot.run_id for snapshot in steps.snapshots()] == ["r1", None]
        assert steps.rows() == []

    def test_a_write_reads_its_sources_at_the_versions_of_its_vector(self, steps: _Steps) -> None:
        vector = steps.engine.read_vector(steps.query)
        steps.source.append(steps.source_name, [row("c", 3, 30)])

        staged = steps.stage("r1", vector=vector)
        steps.publish("r1", staged)

        assert steps.rows() == [("a", 1, 10), ("b", 2, 20)]

    # ------------------------------------------------------------------------------------------------------ history

    def test_ancestors_come_newest_first_with_what_their_runs_wrote(self, steps: _Steps) -> None:
        vector = steps.engine.read_vector(steps.query)
        first, second = steps.refresh("r1"), steps.refresh("r2", day("a"))

        newest, older, oldest = steps.snapshots()

        assert (newest.snapshot_id, newest.run_id, newest.scope) == (second.snapshot_id, "r2", day("a"))
        assert (older.snapshot_id, older.run_id, older.scope) == (first.snapshot_id, "r1", WHOLE)
        assert json.loads(newest.sources or "") == json.loads(json.dumps(vector.to_json()))
        assert (newest.fingerprint, newest.created, newest.replace) == ("fingerprint-1", False, False)
        assert oldest.created

    def test_a_staged_run_is_no_ancestor_of_main(self, steps: _Steps) -> None:
        steps.refresh("r1")

        steps.stage("r2")

        assert [snapshot.run_id for snapshot in steps.snapshots()] == ["r1", None]

    def test_a_foreign_commit_shows_as_one_without_a_run(self, steps: _Steps) -> None:
        steps.refresh("r1")

        steps.source.write_foreign(steps.identifier, [row("z", 9, 90)])

        newest = steps.snapshots()[0]
        assert (newest.run_id, newest.scope, newest.created) == (None, None, False)
        assert ("z", 9, 90) in steps.rows()

    # ------------------------------------------------------------------------------------------------------ sources

    def test_the_vector_stays_while_nothing_changes(self, steps: _Steps) -> None:
        first = steps.engine.read_vector(steps.query)

        second = steps.engine.read_vector(steps.query)

        assert first == second
        assert [source.name for source in first.sources] == [steps.source_name]
        assert (first.unstable, first.unpinnable, first.unversioned) == (None, None, ())

    def test_the_vector_changes_with_new_rows(self, steps: _Steps) -> None:
        before = versions(steps.engine.read_vector(steps.query))

        steps.source.append(steps.source_name, [row("c", 3, 30)])

        assert versions(steps.engine.read_vector(steps.query)) != before

    def test_compaction_of_a_source_leaves_the_vector_as_it_is(self, steps: _Steps) -> None:
        steps.source.append(steps.source_name, [row("a", 3, 30)])
        before = versions(steps.engine.read_vector(steps.query))

        steps.source.compact(steps.source_name)

        assert versions(steps.engine.read_vector(steps.query)) == before

    def test_a_rollback_of_a_source_brings_its_old_version_back(self, steps: _Steps) -> None:
        before = versions(steps.engine.read_vector(steps.query))
        steps.source.append(steps.source_name, [row("c", 3, 30)])

        steps.source.rollback(steps.source_name)

        assert versions(steps.engine.read_vector(steps.query)) == before

    def test_a_missing_source_is_named(self, steps: _Steps) -> None:
        with pytest.raises(QueryFailed, match="nowhere") as caught:
            steps.engine.read_vector(Query(text="SELECT * FROM lake.default.nowhere"))

        assert caught.value.error_class == "TABLE_OR_VIEW_NOT_FOUND"
