"""The contract of refresh engines about source changes and the runs that apply them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from mt_core.incremental.changes import ChangeKind
from mt_core.incremental.strategy import ResultUnchanged, TooManyKeys
from mt_core.model.storage import late_summary
from mt_core.tables.runs.decide import has_same
from tests.support.engine_steps import EngineSteps, day, row


class ChangesContract:
    """A base of `EngineContract`, which provides `steps`."""

    def test_appended_rows_are_told_apart_from_changed_ones(self, steps: EngineSteps) -> None:
        first = steps.engine.sources.read_vector(steps.query)
        steps.source.append(steps.source_name, [row("c", 3, 30), row("c", 3, 30)])
        second = steps.engine.sources.read_vector(steps.query)
        appended = steps.changes(first).changes[steps.source_name]
        steps.source.rollback(steps.source_name)

        changed = steps.changes(second).changes[steps.source_name]

        assert (appended.kind, appended.rows, changed.kind) == (ChangeKind.APPENDS, 2, ChangeKind.ROWS)

    def test_a_source_without_a_commit_is_a_version_without_rows_and_all_come_after_it(
        self, steps: EngineSteps
    ) -> None:
        steps.source_name = f"{steps.source_name}_new"
        steps.query = replace(steps.query, text=f"SELECT ds, k, v FROM {steps.source_name}")
        steps.source.create_without_commit(steps.source_name)
        first = steps.engine.sources.read_vector(steps.query)
        steps.source.append(steps.source_name, [row("c", 3, 30), row("d", 4, 40)])
        change = steps.changes(first).changes[steps.source_name]
        staged = steps.stage("r1", vector=first)

        assert first.unpinnable is None
        assert (change.kind, change.rows, change.from_nothing) == (ChangeKind.APPENDS, 2, True)
        assert steps.touched(first) == {("c",), ("d",)}
        assert staged.snapshot.added_rows == 0
        assert steps.engine.changes.source_bytes(steps.query, first) == 0

    def test_columns_that_a_query_does_not_read_keep_versions_comparable_and_the_same(
        self, steps: EngineSteps
    ) -> None:
        steps.query = replace(steps.query, text=f"SELECT ds, k, v FROM {steps.source_name}")
        first = steps.engine.sources.read_vector(steps.query)
        steps.source.add_column(steps.source_name)
        altered = steps.engine.sources.read_vector(steps.query)
        steps.source.append(steps.source_name, [row("c", 3, 30)])
        rows = [
            steps.stage(run, vector=vector).snapshot.added_rows
            for run, vector in (("r1", first), ("r2", altered))
        ]

        assert has_same(first, altered)
        assert altered.unpinnable is None
        assert [steps.changes(since).changes[steps.source_name].rows for since in (first, altered)] == [1, 1]
        assert steps.touched(first) == steps.touched(altered) == {("c",)}
        assert rows == [2, 2]

    def test_another_column_of_those_that_a_query_reads_makes_its_changes_unknown(
        self, steps: EngineSteps
    ) -> None:
        first = steps.engine.sources.read_vector(steps.query)
        steps.source.add_column(steps.source_name)

        changes = steps.engine.changes.changes_since(
            steps.query, first, steps.engine.sources.read_vector(steps.query)
        )

        assert changes == f"the query reads other columns of {steps.source_name} than before"

    def test_the_size_of_what_a_query_reads_at_a_vector_is_known(self, steps: EngineSteps) -> None:
        first = steps.engine.sources.read_vector(steps.query)
        steps.source.append(steps.source_name, [row("c", 3, 30)])
        second = steps.engine.sources.read_vector(steps.query)

        sizes = [steps.engine.changes.source_bytes(steps.query, vector) for vector in (first, second, first)]

        changed = steps.changes(first).changed_bytes
        assert changed is not None
        assert [sizes[0], (sizes[0] or 0) + changed, sizes[0]] == sizes

    @pytest.mark.parametrize("in_place", [False, True], ids=["rewritten", "in place"])
    def test_a_run_that_takes_rows_out_gives_the_rows_of_the_query(
        self, steps: EngineSteps, in_place: bool
    ) -> None:
        steps.refresh("r1")
        before = steps.rows()
        steps.source.append(steps.source_name, [row("c", 3, 30), row("a", 1, 10), row("a", 1, 10)])
        since = steps.engine.sources.read_vector(steps.query)
        steps.refresh("r2")
        steps.source.rollback(steps.source_name)

        staged = steps.apply("r3", since, in_place=in_place)

        assert steps.changes(since).changes[steps.source_name].kind is ChangeKind.ROWS
        assert steps.rows() == before
        assert [snapshot.run_id for snapshot in steps.snapshots()] == ["r3", "r2", "r1", None]
        assert steps.snapshots()[0] == staged.snapshot

    def test_a_run_that_applies_appended_rows_gives_the_rows_of_the_query(self, steps: EngineSteps) -> None:
        first = steps.engine.sources.read_vector(steps.query)
        steps.refresh("r1")
        before = steps.rows()
        steps.source.append(steps.source_name, [row("c", 3, 30), row("c", 3, 30)])

        staged = steps.apply("r2", first)

        assert staged.snapshot.added_rows == 2
        assert steps.rows() == sorted([*before, ("c", 3, 30), ("c", 3, 30)])
        assert [snapshot.run_id for snapshot in steps.snapshots()] == ["r2", "r1", None]

    def test_the_partitions_of_rows_that_came_or_went_are_known(self, steps: EngineSteps) -> None:
        first = steps.engine.sources.read_vector(steps.query)
        steps.source.append(steps.source_name, [row("c", 3, 30), row("c", 4, 40), row("a", 1, 10)])
        came, second = steps.touched(first), steps.engine.sources.read_vector(steps.query)
        steps.source.rollback(steps.source_name)

        went = steps.touched(second)

        assert came == went == {("a",), ("c",)}

    def test_a_run_says_in_its_snapshot_which_partitions_it_leaves_behind(self, steps: EngineSteps) -> None:
        asked = steps.write("r1")
        left = steps.engine.writes.write(
            replace(asked, summary={**asked.summary, **late_summary(day("a", "b"))})
        )

        assert left.snapshot.late == day("a", "b")
        assert steps.refresh("r2").snapshot.late is None

    def test_a_run_that_replaces_partitions_leaves_the_others(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        since = steps.engine.sources.read_vector(steps.query)
        steps.source.append(steps.source_name, [row("b", 5, 50), row("c", 6, 60)])

        staged = steps.apply("r2", since, partitions=True)

        assert (staged.snapshot.added_rows, staged.snapshot.deleted_rows) == (3, 1)
        assert steps.rows() == [("a", 1, 10), ("b", 2, 20), ("b", 5, 50), ("c", 6, 60)]

    def test_a_run_that_would_replace_more_keys_than_pays_writes_nothing(self, steps: EngineSteps) -> None:
        steps.refresh("r1")
        since, before = steps.engine.sources.read_vector(steps.query), steps.rows()
        steps.source.append(steps.source_name, [row("b", 5, 50), row("c", 6, 60)])

        with pytest.raises(TooManyKeys, match="2 keys changed, more than the limit of 1"):
            steps.apply_days("r2", since, most=1)
        assert (steps.rows(), [snapshot.run_id for snapshot in steps.snapshots()]) == (before, ["r1", None])

        steps.apply_days("r3", since, most=2)
        assert steps.rows() == sorted([*before, ("b", 5, 50), ("c", 6, 60)])

    def test_a_run_that_finds_the_rows_of_all_partitions_as_they_were_writes_no_rows(
        self, steps: EngineSteps
    ) -> None:
        steps.source.append(steps.source_name, [row("c", 3, 30)])
        steps.refresh("r1")
        since = steps.engine.sources.read_vector(steps.query)
        steps.source.rollback(steps.source_name)
        steps.source.append(steps.source_name, [row("c", 3, 30)])

        # An engine that sees it only when it reads the changed rows stages nothing.
        with suppress(ResultUnchanged):
            steps.apply("r2", since, partitions=True)

        written = [each for each in steps.snapshots() if each.run_id == "r2"]
        assert all((each.added_rows, each.deleted_rows) == (0, 0) for each in written)
        assert steps.rows() == [("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]
