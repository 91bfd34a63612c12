"""The ledger has the seconds that each ended refresh spent in the queue and in its steps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from mt_core.errors import EngineError, EngineUnavailable
from mt_core.model.run import STEPS, RunStatus
from mt_core.tables.refresh.step_times import PARTS, Steps, StepTimes
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.testing.fake_clock import FakeClock
from tests.support.manager_world import START, WHOLE_TABLE, ManagerWorld
from tests.unit.tables.continuous_table import LiveTable

SECONDS = {"decide": 1, "write": 8, "publish: commit": 4, "close: commit": 16, "end": 32}
"""How long these steps take; all others take no time."""


class SlowWorld(ManagerWorld):
    """Each step takes the time in `SECONDS`."""

    def work(self, *, stop_before: str | None = None) -> list[str]:
        while (claimed := self.claim()) is not None:
            for step in self.attempt(claimed):
                if step == stop_before:
                    return []
                self.clock.advance(timedelta(seconds=SECONDS.get(step, 0)))
        return []


def slow_table() -> SlowWorld:
    world = SlowWorld()
    world.sql(WHOLE_TABLE)
    return world


def steps_of_last_run(world: ManagerWorld) -> tuple[RunStatus, Mapping[str, float]]:
    run = world.runs("totals")[-1]
    return run.status, run.steps


def test_a_refresh_that_published_has_the_seconds_of_all_parts() -> None:
    world = slow_table()
    world.clock.advance(timedelta(seconds=7))

    world.work()

    assert steps_of_last_run(world) == (
        RunStatus.SUCCEEDED,
        {"queue": 7.0, "decide": 1.0, "write": 8.0, "publish": 4.0},
    )
    assert set(PARTS.values()) | {"queue"} == set(STEPS)


def test_a_refresh_that_was_skipped_has_only_the_parts_that_it_came_to() -> None:
    world = slow_table()
    world.work()
    world.tick(START, "totals")

    world.work()

    assert steps_of_last_run(world) == (RunStatus.SKIPPED, {"queue": 0.0, "decide": 1.0})


def test_a_failed_refresh_has_the_parts_up_to_its_failure_without_the_recording_of_its_end() -> None:
    world = slow_table()
    world.engine.failing = {"write": EngineError("the disk is full")}

    world.work()

    assert steps_of_last_run(world) == (RunStatus.FAILED, {"queue": 0.0, "decide": 1.0, "write": 8.0})


def test_a_run_that_lost_its_process_has_the_wait_of_its_first_attempt_and_the_steps_of_its_last() -> None:
    world = slow_table()
    world.clock.advance(timedelta(seconds=7))
    world.work(stop_before="write")
    world.clock.advance(timedelta(minutes=5))
    world.restart()
    world.recover()

    world.work()

    assert steps_of_last_run(world) == (
        RunStatus.SUCCEEDED,
        {"queue": 7.0, "decide": 1.0, "write": 8.0, "publish": 4.0},
    )


class SlowLiveTable(LiveTable):
    def _watch(self, claimed: ClaimedRun, step: str) -> None:
        super()._watch(claimed, step)
        self.clock.advance(timedelta(seconds=SECONDS.get(step, 0)))


def test_a_continuous_run_has_the_parts_of_its_last_batch() -> None:
    world = SlowLiveTable()
    world.look()
    for amount in (10, 11):
        world.append(amount)
        world.look(after=10)
    open_run = world.stretches()[-1]
    world.clock.advance(timedelta(seconds=100))
    world.lookout.end("the gateway stops")
    ended = world.stretches()[-1]

    # The second batch goes on where the first one stopped, so it does not open the table.
    assert open_run.steps == {"decide": 1.0, "write": 8.0, "publish": 4.0}
    assert (ended.status, ended.steps) == (RunStatus.SUCCEEDED, open_run.steps)


def test_each_step_is_reported_once_with_its_seconds_even_if_it_fails() -> None:
    clock, reported = FakeClock(START), list[tuple[str, float]]()
    times = StepTimes(clock, lambda step, seconds: reported.append((step, seconds)))

    def work() -> Steps:
        yield "decide"
        clock.advance(timedelta(seconds=2))
        yield "idle"
        clock.advance(timedelta(seconds=60))
        yield "publish: commit"
        clock.advance(timedelta(seconds=3))
        raise EngineUnavailable("Spark was lost")

    with pytest.raises(EngineUnavailable):
        list(times.measured(work()))

    assert reported == [("decide", 2.0), ("publish: commit", 3.0)]
    assert times.of_parts() == {"decide": 2.0, "publish": 3.0}
