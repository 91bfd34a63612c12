"""StreamEngineContract: the contract of stream engines, as tests for subclasses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import pytest

from mt_core.errors import EngineError, MtError
from mt_core.model.stream import StreamDefinition, StreamProgress
from mt_core.plans.compiled import fingerprint_of
from mt_core.streaming.engine import StreamEngine

WAIT_S = 120.0
LONGEST_PAUSE_S = 0.5
"""The number of seconds after which a condition is checked again even if no stream makes progress."""
JOB, OTHER_JOB = "a" * 32, "b" * 32


class StreamWorld(Protocol):
    """A source and a sink, which are tables with one column, and a stream from source to sink."""

    engine: StreamEngine

    def definition(self, checkpoint: str) -> StreamDefinition:
        """Return a definition that is not prepared, with a checkpoint named *checkpoint*."""

    def refused(self) -> StreamDefinition:
        """Return a definition that cannot run as a stream."""

    def creation(self, job_id: str) -> StreamDefinition:
        """Return a definition that is not prepared, of a job that creates a table from the source's rows."""

    def folder(self, name: str) -> str:
        """Return a folder for a savepoint."""

    def append(self, *rows: str) -> None: ...

    def rows(self) -> Sequence[str]:
        """Return the rows of the sink."""

    def take_checkpoint(self, definition: StreamDefinition) -> Callable[[], object]:
        """Hide a checkpoint, as if it were on another machine. Return a function that restores it."""

    def work(self) -> None:
        """Run batches, if the engine has no threads."""


class StreamEngineContract:
    """The tests. Each has a world of its own."""

    @pytest.fixture
    def world(self) -> StreamWorld:
        """Return the world under test."""
        raise NotImplementedError("Give the contract a fixture world.")

    def test_the_operators_of_a_definition_are_the_same_each_time_and_nothing_runs(
        self, world: StreamWorld
    ) -> None:
        world.append("a")
        definition = world.definition("c")

        first, second = world.engine.topology(definition), world.engine.topology(definition)
        world.work()

        assert first.spark_version != ""
        assert [node.inputs for node in first.nodes[:1]] == [()]
        assert fingerprint_of(first.nodes) == fingerprint_of(second.nodes)
        assert world.rows() == []

    def test_what_cannot_be_streamed_has_no_operators(self, world: StreamWorld) -> None:
        with pytest.raises(MtError):
            world.engine.topology(world.refused())

    def test_a_stream_writes_what_is_there_and_what_is_added_once(self, world: StreamWorld) -> None:
        world.append("a")
        started(world, JOB)
        wait_rows(world, ["a"])

        world.append("b", "c")

        wait_rows(world, ["a", "b", "c"])
        progress = world.engine.progress(JOB)
        assert progress.running
        assert progress.batch is not None
        assert progress.error is None

    def test_a_start_that_is_repeated_changes_nothing(self, world: StreamWorld) -> None:
        world.append("a")
        definition = started(world, JOB)

        world.engine.start(JOB, definition, 1)

        world.append("b")
        wait_rows(world, ["a", "b"])

    def test_a_later_attempt_goes_on_where_the_stream_stopped(self, world: StreamWorld) -> None:
        world.append("a")
        definition = started(world, JOB)
        wait_rows(world, ["a"])
        world.engine.stop(JOB, definition)
        world.append("b")

        world.engine.start(JOB, definition, 2)

        wait_rows(world, ["a", "b"])
        world.engine.stop(JOB, definition)

    def test_a_stream_that_was_stopped_does_not_run_and_writes_nothing_more(self, world: StreamWorld) -> None:
        world.append("a")
        definition = started(world, JOB)
        wait_rows(world, ["a"])

        world.engine.stop(JOB, definition)

        world.append("b")
        world.work()
        assert not world.engine.progress(JOB).running
        assert sorted(world.rows()) == ["a"]

    def test_a_stream_that_was_stopped_says_how_far_it_came(self, world: StreamWorld) -> None:
        world.append("a", "b")
        definition = started(world, JOB)
        wait_rows(world, ["a", "b"])
        world.append("c")

        world.engine.savepoint(JOB, definition, world.folder("s"), drain=True)

        progress = world.engine.progress(JOB)
        assert (progress.running, progress.error) == (False, None)
        assert (progress.rows_read, progress.rows_written) == (3, 3)

    def test_to_stop_a_stream_that_does_not_run_is_harmless(self, world: StreamWorld) -> None:
        definition = world.engine.prepare(world.definition("c"), JOB)

        world.engine.stop(JOB, definition)

        assert world.engine.progress(JOB) == StreamProgress()

    def test_a_stream_of_a_savepoint_reads_what_came_after_it(self, world: StreamWorld) -> None:
        world.append("a")
        definition = started(world, JOB)
        wait_rows(world, ["a"])
        folder = world.folder("s")
        path = world.engine.savepoint(JOB, definition, folder)
        world.append("b")

        restored = replace(world.definition("d"), restored_from=path)
        world.engine.start(OTHER_JOB, world.engine.prepare(restored, OTHER_JOB), 1)

        wait_rows(world, ["a", "b"])
        assert not world.engine.progress(JOB).running

    def test_a_savepoint_that_is_repeated_is_the_same_one(self, world: StreamWorld) -> None:
        world.append("a")
        definition = started(world, JOB)
        wait_rows(world, ["a"])
        folder = world.folder("s")

        path = world.engine.savepoint(JOB, definition, folder)

        assert world.engine.savepoint(JOB, definition, folder) == path

    def test_a_savepoint_that_drains_has_all_rows_behind_it(self, world: StreamWorld) -> None:
        definition = started(world, JOB)
        world.append("a", "b")

        world.engine.savepoint(JOB, definition, world.folder("s"), drain=True)

        assert sorted(world.rows()) == ["a", "b"]

    def test_a_table_that_a_stream_creates_appears_with_its_first_batch_and_grows(
        self, world: StreamWorld
    ) -> None:
        definition = world.engine.prepare(world.creation(JOB), JOB)
        before = world.engine.created_rows(JOB, definition)
        world.append("a", "b")
        world.engine.start(JOB, definition, 1)
        wait_for(world, lambda: world.engine.created_rows(JOB, definition) is not None)
        first = world.engine.created_rows(JOB, definition)

        world.engine.stop(JOB, definition)
        world.append("c")
        world.engine.start(JOB, definition, 2)

        wait_for(world, lambda: world.engine.created_rows(JOB, definition) == 3)
        assert (before, first) == (None, 2)
        world.engine.stop(JOB, definition)

    def test_a_table_that_a_stream_created_can_be_discarded_twice(self, world: StreamWorld) -> None:
        definition = world.engine.prepare(world.creation(JOB), JOB)
        world.append("a")
        world.engine.start(JOB, definition, 1)
        wait_for(world, lambda: world.engine.created_rows(JOB, definition) == 1)
        world.engine.stop(JOB, definition)

        world.engine.discard(JOB, definition, drop=True)
        world.engine.discard(JOB, definition, drop=True)

        assert world.engine.created_rows(JOB, definition) is None

    @pytest.mark.parametrize("creates", [False, True])
    def test_a_stream_without_its_checkpoint_waits_for_it_and_changes_nothing(
        self, world: StreamWorld, creates: bool
    ) -> None:
        unprepared = world.creation(JOB) if creates else world.definition("c")
        definition = world.engine.prepare(unprepared, JOB)
        present = world.engine.missing(JOB, definition)
        world.append("a")
        world.engine.start(JOB, definition, 1)
        if creates:
            wait_for(world, lambda: world.engine.created_rows(JOB, definition) == 1)
        else:
            wait_rows(world, ["a"])
        world.engine.stop(JOB, definition)
        put_back = world.take_checkpoint(definition)
        world.append("b")

        world.engine.start(JOB, definition, 2)

        wait_for(world, lambda: world.engine.progress(JOB).error is not None)
        progress = world.engine.progress(JOB)
        world.engine.stop(JOB, definition)
        assert (progress.running, progress.missing, progress.final) == (False, True, False)
        assert definition.checkpoint in (progress.error or "")
        assert present is None
        assert definition.checkpoint in (world.engine.missing(JOB, definition) or "")
        with pytest.raises(EngineError, match="no checkpoint"):
            world.engine.savepoint(JOB, definition, world.folder("s"))
        if creates:
            world.engine.discard(JOB, definition, drop=False)
            assert world.engine.created_rows(JOB, definition) == 1

        put_back()
        assert world.engine.missing(JOB, definition) is None
        world.engine.start(JOB, definition, 3)

        if creates:
            wait_for(world, lambda: world.engine.created_rows(JOB, definition) == 2)
        else:
            wait_rows(world, ["a", "b"])
        world.engine.stop(JOB, definition)

    def test_what_cannot_be_streamed_is_refused_when_it_is_prepared(self, world: StreamWorld) -> None:
        with pytest.raises(MtError):
            world.engine.prepare(world.refused(), JOB)

    def test_a_query_that_cannot_be_streamed_can_keep_no_table(self, world: StreamWorld) -> None:
        with pytest.raises(MtError):
            world.engine.check(world.refused())

    def test_the_checkpoint_of_a_job_can_be_forgotten_twice(self, world: StreamWorld) -> None:
        world.append("a")
        definition = started(world, JOB)
        wait_rows(world, ["a"])
        world.engine.stop(JOB, definition)

        world.engine.forget(JOB, definition)
        world.engine.forget(JOB, definition)

        assert sorted(world.rows()) == ["a"]


def started(world: StreamWorld, job_id: str) -> StreamDefinition:
    """Start the stream and return its definition."""
    definition = world.engine.prepare(world.definition("c"), job_id)
    world.engine.start(job_id, definition, 1)
    return definition


def wait_rows(world: StreamWorld, expected: Sequence[str]) -> None:
    """Wait until the sink has exactly the *expected* rows."""
    wait_for(world, lambda: len(world.rows()) >= len(expected))
    assert sorted(world.rows()) == sorted(expected)


def wait_for(world: StreamWorld, condition: Callable[[], bool]) -> None:
    world.work()
    wait_while_streams_run(condition, lambda: [world.engine.progress(job_id) for job_id in (JOB, OTHER_JOB)])


def wait_while_streams_run(condition: Callable[[], bool], progress: Callable[[], object]) -> None:
    """Wait until *condition* holds.

    It is checked again only after *progress* of the streams, because each check takes a Spark job.
    """
    deadline = time.monotonic() + WAIT_S
    before = progress()
    while not condition():
        asked = time.monotonic()
        assert asked < deadline, before
        while progress() == before and time.monotonic() < asked + LONGEST_PAUSE_S:
            time.sleep(0.02)
        before = progress()
