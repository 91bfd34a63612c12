"""Streams that are stopped, copied and killed at any moment: every row of a growing source is written once."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mt_core.errors import EngineError
from mt_core.model.stream import StreamDefinition
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH
from tests.integration.stream_world import StreamWorld
from tests.support.gateway.own_process import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * DEPTH)]
ROUNDS = 3 * DEPTH
START_S = 180.0
STEPS = ("batch", "write", "publish", "published")


class Killer:
    """Kills the JVM before the step that is asked for."""

    def __init__(self, driver: SparkDriver) -> None:
        self._driver, self.step = driver, ""

    def __call__(self, step: str) -> None:
        if step == self.step and self._driver.pid is not None:
            self.step = ""
            os.kill(self._driver.pid, signal.SIGKILL)


class KilledWorld:
    """A stream that goes on after each thing that happens to it, as an owner lets it."""

    def __init__(self, world: StreamWorld, killer: Killer) -> None:
        self.world, self.killer, self.engine = world, killer, world.engine
        self.attempt, self.written = 0, 0
        self.begin(world.definition("c0"))

    def begin(self, definition: StreamDefinition) -> None:
        self.job_id = uuid4().hex
        self.definition = self.engine.prepare(definition, self.job_id)
        self.go_on()

    def go_on(self) -> None:
        self.attempt += 1
        self.engine.start(self.job_id, self.definition, self.attempt)

    def grow(self, commits: int) -> None:
        for _ in range(commits):
            self.world.append(*(f"{self.written + each:06d}" for each in range(3)))
            self.written += 3

    def kill(self, step: str) -> None:
        """Kill the JVM at *step* of the next batch, and go on in the next JVM."""
        driver, generation = self.world.driver, self.world.driver.generation
        self.killer.step = step
        self.grow(1)
        wait_until(lambda: driver.generation > generation and driver.answers(), "no Spark", START_S)
        self.world.reconnect()
        self.go_on()

    def stop(self) -> None:
        self.engine.stop(self.job_id, self.definition)
        self.grow(1)
        self.go_on()

    def save(self) -> None:
        """Go on as another job, from a savepoint."""
        while True:
            try:
                path = self.engine.savepoint(self.job_id, self.definition, self.world.folder(self.job_id))
                break
            except EngineError:
                # A batch is published in one table and not committed.
                self.go_on()
        self.grow(1)
        self.begin(self.world.definition(f"c{self.attempt}", restored_from=path))

    def expect_all(self) -> None:
        self.world.wait_rows([f"{each:06d}" for each in range(self.written)])


@pytest.fixture
def killed(spark_driver: SparkDriver, tmp_path: Path) -> Iterator[KilledWorld]:
    killer = Killer(spark_driver)
    world = StreamWorld(spark_driver, tmp_path, watch=killer)
    world.append("000000", "000001", "000002")
    killed = KilledWorld(world, killer)
    killed.written = 3
    yield killed
    world.stop_all()


@pytest.mark.parametrize("step", STEPS)
def test_a_batch_whose_jvm_is_killed_is_written_once(killed: KilledWorld, step: str) -> None:
    killed.expect_all()

    killed.kill(step)

    killed.grow(1)
    killed.expect_all()


def test_every_row_is_written_once_whatever_happens(killed: KilledWorld) -> None:
    chance = random.Random(ROUNDS)
    killed.expect_all()

    for _ in range(ROUNDS):
        killed.grow(chance.randint(1, 3))
        match chance.choice(("kill", "stop", "save")):
            case "kill":
                killed.kill(chance.choice(STEPS))
            case "stop":
                killed.stop()
            case _:
                killed.save()

    killed.expect_all()
