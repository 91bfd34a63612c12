"""The contract of refresh engines.

To test an engine, subclass `EngineContract` in a test module and provide the fixtures `engine` and `source`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

import pytest

from mt_core.errors import Canceled, CommitConflict, QueryFailed, StorageMissing, TableExists
from mt_core.model.partition import WHOLE
from mt_core.model.storage import CLOSED, STATES, MetadataChange, Snapshot
from mt_core.model.table import Column
from mt_core.tables.engine import Query, RefreshEngine, UnreadSources
from tests.support.engine_contract_changes import ChangesContract
from tests.support.engine_contract_upkeep import UpkeepContract
from tests.support.engine_steps import STATES_NAMED, EngineSteps, SourceTables, day, row, versions
from tests.support.marks import epoch_of, last_run_of, mark


class EngineContract(ChangesContract, UpkeepContract):
    """The behaviour on which the manager relies."""

    @pytest.fixture
    def steps(self, engine: RefreshEngine, source: SourceTables) -> Iterator[EngineSteps]:
        steps = EngineSteps(engine, source)
        source.create(steps.source_name, [row("a", 1, 10), row("b", 2, 20)])
        engine.storage.create_storage(steps.spec())
        yield steps
        engine.storage.drop_storage(steps.identifier, steps.table_id, "")

    # ------------------------------------------------------------------------------------------------ storage

    def test_a_new_table_is_empty_with_one_snapshot_of_ours(self, steps: EngineSteps) -> None:
        found = steps.load()

        assert (found.table_id, epoch_of(found), last_run_of(found), dict(found.branches)) == (
            steps.table_id,
            0,
            None,
            {},
        )
        assert found.columns == ("ds", "k", "v")
        assert steps.snapshots() == [Snapshot(snapshot_id=str(found.main), created=True)]
        assert steps.rows() == []

    def test_creating_again_with_the_same_id_changes_nothing(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        before = steps.facts(), steps.rows()

        steps.engine.storage.create_storage(steps.spec())

        assert (steps.facts(), steps.rows()) == before

    def test_creating_with_another_id_is_refused_and_changes_nothing(self, steps: EngineSteps) -> None:
        before = steps.facts()

        with pytest.raises(TableExists, match=steps.identifier.name):
            steps.engine.storage.create_storage(steps.spec(table_id=str(uuid4())))

        assert steps.facts() == before
        assert steps.load().table_id == steps.table_id

    def test_dropping_takes_the_table_away_and_twice_is_harmless(self, steps: EngineSteps) -> None:
        steps.engine.storage.drop_storage(steps.identifier, steps.table_id, "")
        steps.engine.storage.drop_storage(steps.identifier, steps.table_id, "")

        assert not steps.engine.catalogs.relation_exists(steps.identifier)
        with pytest.raises(StorageMissing, match=steps.identifier.name):
            steps.load()

    def test_dropping_with_another_id_leaves_the_table(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        before = steps.facts(), steps.rows()

        steps.engine.storage.drop_storage(steps.identifier, str(uuid4()), "")

        assert steps.engine.catalogs.relation_exists(steps.identifier)
        assert (steps.facts(), steps.rows()) == before

    def test_a_dropped_name_can_be_used_again_at_once(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        steps.engine.storage.drop_storage(steps.identifier, steps.table_id, "")
        steps.table_id = str(uuid4())

        steps.engine.storage.create_storage(steps.spec())

        assert steps.load().table_id == steps.table_id
        assert steps.rows() == []

    def test_columns_are_appended_once(self, steps: EngineSteps) -> None:
        added = (Column(name="k", type="int"), Column(name="note", type="string"))

        steps.engine.storage.add_columns(steps.identifier, added)
        steps.engine.storage.add_columns(steps.identifier, added)

        assert steps.load().columns == ("ds", "k", "v", "note")

    # -------------------------------------------------------------------------------------------------- looks

    def test_a_look_at_a_source_that_is_not_there_holds_up_no_other(self, steps: EngineSteps) -> None:
        missing = replace(steps.query, text=f"SELECT * FROM {steps.source_name}_missing")
        (before,) = steps.engine.sources.source_fingerprints([steps.query])

        failed, found = steps.engine.sources.source_fingerprints([missing, steps.query])

        assert isinstance(failed, UnreadSources)
        assert "_missing" in failed.reason
        assert found == before

    # ----------------------------------------------------------------------------------------------- metadata

    def test_a_swap_sets_the_mark_and_branches(self, steps: EngineSteps) -> None:
        main = steps.load().main

        steps.swap(MetadataChange(properties=mark(7), branches={"run_r1": str(main)}))

        assert steps.facts() == (7, None, main, {"run_r1": main})

    def test_a_swap_sets_and_removes_the_states_of_a_table(self, steps: EngineSteps) -> None:
        steps.swap(MetadataChange(properties={STATES: "{}"}))
        states = steps.load().properties[STATES]
        steps.swap(MetadataChange(removed=(STATES,)))

        assert (states, STATES in steps.load().properties) == ("{}", False)

    def test_a_swap_drops_branches(self, steps: EngineSteps) -> None:
        steps.begin("run_r1")
        steps.swap(MetadataChange(branches={"run_r2": str(steps.load().main)}, drop=("run_r1",)))

        assert list(steps.load().branches) == ["run_r2"]

    def test_of_two_publishes_on_the_same_main_exactly_one_wins(self, steps: EngineSteps) -> None:
        first, second = steps.stage("r1"), steps.stage("r2")

        steps.publish("r2", second)
        before = steps.facts()
        with pytest.raises(CommitConflict, match=steps.identifier.name):
            steps.publish("r1", first)

        assert (steps.facts(), last_run_of(steps.load())) == (before, "r2")

    def test_a_publish_is_refused_after_a_commit_of_another_writer(self, steps: EngineSteps) -> None:
        staged = steps.stage("r1")
        steps.source.write_foreign(steps.identifier, [row("z", 9, 90)])
        before = steps.facts(), steps.rows()

        with pytest.raises(CommitConflict):
            steps.publish("r1", staged)

        assert (steps.facts(), steps.rows()) == before

    def test_a_branch_is_dropped_only_from_where_it_was_read(self, steps: EngineSteps) -> None:
        steps.begin("run_r1")
        read = steps.load()
        steps.refresh("r1")
        steps.begin("run_r1")
        before = steps.facts()

        with pytest.raises(CommitConflict):
            steps.engine.metadata.swap(steps.identifier, read, MetadataChange(drop=("run_r1",)))

        assert steps.facts() == before

    # ------------------------------------------------------------------------------------------------ closing

    def test_closing_moves_main_to_a_snapshot_with_the_same_rows_that_says_what_main_says(
        self, steps: EngineSteps
    ) -> None:
        steps.refresh("r1")
        before, rows = steps.snapshots()[0], steps.rows()

        steps.swap(MetadataChange(properties=mark(7), closes={CLOSED: "7"}))

        closing = steps.snapshots()[0]
        assert closing.snapshot_id != before.snapshot_id
        assert (epoch_of(steps.load()), last_run_of(steps.load()), steps.rows()) == (7, "r1", rows)
        assert (closing.replace, closing.run_id, closing.scope) == (True, before.run_id, before.scope)
        assert (closing.sources, closing.fingerprint, closing.strategy) == (
            before.sources,
            before.fingerprint,
            before.strategy,
        )
        assert closing.states == before.states == STATES_NAMED
        assert (closing.added_rows, closing.deleted_rows) == (0, 0)
        assert (closing.total_rows, closing.data_files) == (before.total_rows, before.data_files)
        assert steps.snapshots()[1] == before

    def test_closing_a_new_table_leaves_it_never_refreshed(self, steps: EngineSteps) -> None:
        steps.swap(MetadataChange(closes={CLOSED: "1"}))

        assert [(each.created, each.replace, each.run_id) for each in steps.snapshots()] == [
            (True, True, None),
            (True, False, None),
        ]

    def test_nothing_that_was_staged_before_is_published_after_a_close(self, steps: EngineSteps) -> None:
        staged = steps.stage("r1")
        steps.swap(MetadataChange(closes={CLOSED: "2"}))

        with pytest.raises(CommitConflict):
            steps.publish("r1", staged)

        assert steps.rows() == []

    def test_of_a_close_and_a_publish_on_the_same_main_exactly_one_wins(self, steps: EngineSteps) -> None:
        staged, read = steps.stage("r1"), steps.load()
        steps.publish("r1", staged)
        before = steps.facts()

        with pytest.raises(CommitConflict):
            steps.engine.metadata.swap(steps.identifier, read, MetadataChange(closes={CLOSED: "2"}))

        assert steps.facts() == before

    def test_a_close_leaves_readers_of_the_table_with_the_same_version(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        reading = Query(text=f"SELECT * FROM {steps.identifier}")
        before = versions(steps.engine.sources.read_vector(reading))

        steps.swap(MetadataChange(closes={CLOSED: "2"}))

        assert versions(steps.engine.sources.read_vector(reading)) == before

    # ------------------------------------------------------------------------------------------------- writes

    def test_rows_are_not_seen_before_publish(self, steps: EngineSteps) -> None:
        before = steps.facts()

        staged = steps.stage("r1")

        assert steps.facts() == before
        assert staged.snapshot.added_rows == 2
        assert steps.rows() == []

    def test_staged_rows_are_published_though_another_snapshot_has_taken_their_number(
        self, steps: EngineSteps
    ) -> None:
        steps.refresh("r1")
        steps.source.append(steps.source_name, [row("c", 3, 30)])
        write = steps.write("r2")
        staged = steps.engine.writes.write(write)
        steps.swap(MetadataChange(closes={CLOSED: "2"}))

        repeated = steps.engine.writes.repeat(write, staged, steps.load())
        steps.publish("r2", repeated)

        assert steps.rows() == [("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]
        newest, before = steps.snapshots()[:2]
        assert (newest.snapshot_id, newest.run_id) == (repeated.snapshot.snapshot_id, "r2")
        assert (newest.added_rows, newest.deleted_rows) == (
            staged.snapshot.added_rows,
            staged.snapshot.deleted_rows,
        )
        assert before.snapshot_id == write.base

    def test_publish_shows_the_rows_and_remembers_the_run(self, steps: EngineSteps) -> None:
        staged = steps.refresh("r1")

        assert steps.facts() == (1, "r1", staged.snapshot.snapshot_id, {})
        assert steps.rows() == [("a", 1, 10), ("b", 2, 20)]

    def test_a_whole_table_run_replaces_all_rows(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        steps.source.append(steps.source_name, [row("c", 3, 30)])

        steps.refresh("r2")

        assert steps.rows() == [("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]

    def test_a_partition_run_replaces_exactly_its_partitions(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        steps.source.append(steps.source_name, [row("a", 4, 40), row("b", 5, 50), row("c", 6, 60)])

        staged = steps.refresh("r2", day("b", "c"))

        assert (staged.snapshot.added_rows, staged.snapshot.deleted_rows) == (3, 1)
        assert steps.rows() == [("a", 1, 10), ("b", 2, 20), ("b", 5, 50), ("c", 6, 60)]

    def test_a_partition_that_became_empty_loses_its_rows(self, steps: EngineSteps) -> None:
        steps.source.append(steps.source_name, [row("c", 3, 30)])
        steps.refresh("r1")
        steps.source.rollback(steps.source_name)

        staged = steps.refresh("r2", day("c"))

        assert staged.snapshot.added_rows == 0
        assert steps.rows() == [("a", 1, 10), ("b", 2, 20)]

    def test_a_run_without_any_rows_is_recorded_all_the_same(self, steps: EngineSteps) -> None:
        steps.refresh("r1", day("nowhere"))

        assert [snapshot.run_id for snapshot in steps.snapshots()] == ["r1", None]
        assert steps.rows() == []

    def test_a_write_reads_its_sources_at_the_versions_of_its_vector(self, steps: EngineSteps) -> None:
        vector = steps.engine.sources.read_vector(steps.query)
        steps.source.append(steps.source_name, [row("c", 3, 30)])

        staged = steps.stage("r1", vector=vector)
        steps.publish("r1", staged)

        assert steps.rows() == [("a", 1, 10), ("b", 2, 20)]

    # ------------------------------------------------------------------------------------------------ history

    def test_ancestors_come_newest_first_with_what_their_runs_wrote(self, steps: EngineSteps) -> None:
        vector = steps.engine.sources.read_vector(steps.query)
        first, second = steps.refresh("r1"), steps.refresh("r2", day("a"))

        newest, older, oldest = steps.snapshots()

        assert (newest.snapshot_id, newest.run_id, newest.scope) == (
            second.snapshot.snapshot_id,
            "r2",
            day("a"),
        )
        assert (older.snapshot_id, older.run_id, older.scope) == (first.snapshot.snapshot_id, "r1", WHOLE)
        assert json.loads(newest.sources or "") == json.loads(json.dumps(vector.to_json()))
        assert (newest.fingerprint, newest.created, newest.replace) == ("fingerprint-1", False, False)
        assert oldest.created

    def test_a_staged_run_is_no_ancestor_of_main(self, steps: EngineSteps) -> None:
        steps.refresh("r1")

        steps.stage("r2")

        assert [snapshot.run_id for snapshot in steps.snapshots()] == ["r1", None]

    def test_a_foreign_commit_shows_as_one_without_a_run(self, steps: EngineSteps) -> None:
        steps.refresh("r1")

        steps.source.write_foreign(steps.identifier, [row("z", 9, 90)])

        newest = steps.snapshots()[0]
        assert (newest.run_id, newest.scope, newest.created) == (None, None, False)
        assert ("z", 9, 90) in steps.rows()

    # ------------------------------------------------------------------------------------------------ sources

    def test_the_vector_stays_while_nothing_changes(self, steps: EngineSteps) -> None:
        first = steps.engine.sources.read_vector(steps.query)

        second = steps.engine.sources.read_vector(steps.query)

        assert first == second
        assert [source.name for source in first.sources] == [steps.source_name]
        assert (first.unstable, first.unpinnable, first.unversioned) == (None, None, ())

    def test_the_vector_changes_with_new_rows(self, steps: EngineSteps) -> None:
        before = versions(steps.engine.sources.read_vector(steps.query))

        steps.source.append(steps.source_name, [row("c", 3, 30)])

        assert versions(steps.engine.sources.read_vector(steps.query)) != before

    def test_a_commit_of_this_process_is_heard_of_once_by_the_name_of_its_table(
        self, steps: EngineSteps
    ) -> None:
        while steps.engine.sources.next_commit(0) is not None:
            pass

        steps.source.append(steps.source_name, [row("c", 3, 30)])

        assert steps.engine.sources.next_commit(30) == steps.source_name
        assert steps.engine.sources.next_commit(0) is None

    def test_the_vector_has_the_time_of_the_last_commit_of_rows(self, steps: EngineSteps) -> None:
        def committed() -> datetime:
            (version,) = versions(steps.engine.sources.read_vector(steps.query))
            return datetime.fromisoformat(version["committed"])

        before = committed()
        steps.source.append(steps.source_name, [row("c", 3, 30)])

        assert before.tzinfo is not None
        assert committed() >= before

    def test_compaction_of_a_source_leaves_the_vector_as_it_is(self, steps: EngineSteps) -> None:
        steps.source.append(steps.source_name, [row("a", 3, 30)])
        before = versions(steps.engine.sources.read_vector(steps.query))

        steps.source.compact(steps.source_name)

        assert versions(steps.engine.sources.read_vector(steps.query)) == before

    def test_a_rollback_of_a_source_brings_its_old_version_back(self, steps: EngineSteps) -> None:
        before = versions(steps.engine.sources.read_vector(steps.query))
        steps.source.append(steps.source_name, [row("c", 3, 30)])

        steps.source.rollback(steps.source_name)

        assert versions(steps.engine.sources.read_vector(steps.query)) == before

    def test_a_missing_source_is_named(self, steps: EngineSteps) -> None:
        with pytest.raises(QueryFailed, match="nowhere") as caught:
            steps.engine.sources.read_vector(Query(text="SELECT * FROM lake.default.nowhere"))

        assert caught.value.error_class == "TABLE_OR_VIEW_NOT_FOUND"

    # -------------------------------------------------------------------------------------------- comparisons

    def test_a_table_is_compared_with_its_query_at_the_vector_whatever_its_source_has_now(
        self, steps: EngineSteps
    ) -> None:
        steps.refresh("r1")
        at = steps.engine.sources.read_vector(steps.query)
        steps.source.append(steps.source_name, [row("c", 3, 30), row("c", 3, 30)])

        same, newer = steps.compare(at), steps.compare(steps.engine.sources.read_vector(steps.query))

        assert (same.different, same.differences.rows, same.rows, dict(same.left_out)) == (0, [], 2, {})
        assert [column.name for column in same.differences.columns] == [
            "difference",
            "copies",
            "ds",
            "k",
            "v",
        ]
        assert (newer.different, newer.differences.rows) == (2, [["missing", 2, "c", 3, 30]])

    def test_a_comparison_is_of_partitions_without_others_and_of_buckets(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        at = steps.engine.sources.read_vector(steps.query)
        steps.source.write_foreign(steps.identifier, [row("a", 7, 70), row("b", 2, 20)])

        scopes = [steps.compare(at, scope=day("a")), steps.compare(at, besides=day("a"))]
        buckets = [steps.compare(at, in_buckets=True), steps.compare(at, scope=day("z"), in_buckets=True)]

        assert [(each.rows, each.differences.rows) for each in scopes] == [
            (2, [["unexpected", 1, "a", 7, 70]]),
            (2, [["unexpected", 1, "b", 2, 20]]),
        ]
        assert [(each.rows, each.different > 0, each.differences.rows) for each in buckets] == [
            (4, True, []),
            (0, False, []),
        ]

    def test_a_comparison_whose_job_was_cancelled_ends(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        at = steps.engine.sources.read_vector(steps.query)
        steps.engine.jobs.cancel("comparison-1")

        with pytest.raises(Canceled, match="comparison-1"):
            steps.compare(at, job_id="comparison-1")
