"""The contract of refresh engines about upkeep, which is a part of `EngineContract`."""

from __future__ import annotations

from uuid import uuid4

import pytest

from mt_core.errors import EngineError
from mt_core.model.storage import MetadataChange
from mt_core.tables.engine import Fragments
from tests.support.engine_steps import STATES_NAMED, EngineSteps, row


class UpkeepContract:
    """The behaviour on which compaction relies."""

    def test_small_files_are_staged_as_fewer_with_the_same_rows_by_a_commit_that_says_what_main_says(
        self, steps: EngineSteps
    ) -> None:
        first = steps.engine.sources.read_vector(steps.query)
        steps.refresh("r1")
        steps.source.append(steps.source_name, [row("a", 3, 30)])
        steps.apply("r2", first)
        before, rows = steps.snapshots()[0], steps.rows()
        assert steps.engine.housekeeping.fragments(steps.identifier) == Fragments(
            small_files=1, delete_files=0
        )

        staged = steps.engine.housekeeping.rewrite_files(steps.identifier, uuid4().hex)

        assert staged is not None
        facts = staged.snapshot
        assert (facts.replace, facts.added_rows >= 2, facts.data_files < before.data_files) == (
            True,
            True,
            True,
        )
        assert (facts.run_id, facts.scope, facts.pinned) == (before.run_id, before.scope, before.pinned)
        assert (facts.sources, facts.fingerprint) == (before.sources, before.fingerprint)
        assert facts.states == before.states == STATES_NAMED
        assert (steps.load().main, steps.rows()) == (before.snapshot_id, rows)
        change = MetadataChange(publish=facts.snapshot_id, pending=staged.pending)
        steps.engine.metadata.swap(steps.identifier, staged.metadata, change)
        assert steps.engine.housekeeping.fragments(steps.identifier) == Fragments(
            small_files=0, delete_files=0
        )
        assert steps.rows() == rows

    def test_what_was_staged_is_staged_again_on_what_was_added_since_but_not_without_its_files(
        self, steps: EngineSteps
    ) -> None:
        versions = [steps.engine.sources.read_vector(steps.query)]
        steps.refresh("r1")
        for number, run in enumerate(("r2", "r3")):
            steps.source.append(steps.source_name, [row("a", 3 + number, 30)])
            versions.append(steps.engine.sources.read_vector(steps.query))
            steps.apply(run, versions[number])
            if number == 0:
                staged = steps.engine.housekeeping.rewrite_files(steps.identifier, uuid4().hex)
        assert staged is not None
        before, rows = steps.snapshots()[0], steps.rows()

        again = steps.engine.housekeeping.restage(steps.identifier, staged)

        facts = again.snapshot
        assert (facts.replace, facts.data_files < before.data_files) == (True, True)
        assert (facts.run_id, facts.sources, facts.pinned) == (before.run_id, before.sources, before.pinned)
        steps.engine.metadata.swap(
            steps.identifier, again.metadata, MetadataChange(publish=facts.snapshot_id, pending=again.pending)
        )
        assert steps.rows() == rows
        steps.refresh("r4")
        with pytest.raises(EngineError):
            steps.engine.housekeeping.restage(steps.identifier, again)
        assert steps.rows() == rows

    def test_files_that_are_large_enough_are_not_written_anew(self, steps: EngineSteps) -> None:
        steps.refresh("r1")

        assert steps.engine.housekeeping.rewrite_files(steps.identifier, uuid4().hex) is None
