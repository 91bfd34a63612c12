"""Statement sets that are stopped, copied and killed at any moment:
every row of a growing source is in each table once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from mt_core.errors import EngineError, EngineUnavailable
from mt_core.model.stream import StreamDefinition
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.attempt import BATCH
from tests.depth import DEPTH, dice, rounds
from tests.integration.stream_world import StreamWorld
from tests.support.gateway.own_process import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * DEPTH)]
ROUNDS = rounds(1, 3)
START_S = 180.0
START = "start"
# The step, and the table of a batch in which it is. In CI a JVM is killed when the first table has a batch
# and the second one does not, and the job goes on from a savepoint; and between two batches.
STEPS = [("batch", 1), ("write", 1), ("write", 2), ("publish", 1), ("publish", 2), ("published", 2)]
TEXTS = ("INSERT INTO arrivals SELECT * FROM flights", "INSERT INTO departures SELECT * FROM flights")


class Killer:
    """Kills the JVM before a step of the next batch that begins, in one of its tables,
    or before the next start of a stream.
    """

    def __init__(self, driver: SparkDriver) -> None:
        self._driver, self._step, self._left, self._has_begun = driver, "", 0, False

    def ask(self, step: str, table: int) -> None:
        self._step, self._left, self._has_begun = step, table, False

    def __call__(self, step: str) -> None:
        self._has_begun |= step in {START, BATCH}
        if step != self._step or not self._has_begun or self._driver.pid is None:
            return
        self._left -= 1
        if self._left == 0:
            self._step = ""
            os.kill(self._driver.pid, signal.SIGKILL)


class KilledWorld:
    """A stream that goes on after each thing that happens to it, as an owner lets it."""

    def __init__(self, world: StreamWorld, killer: Killer) -> None:
        self.world, self.killer, self.engine = world, killer, world.engine
        self.attempt, self.written = 0, 0
        self.begin(world.definition("c0", *TEXTS))

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

    def kill(self, step: str, table: int) -> bool:
        """Kill the JVM before a step of a batch, and go on in the next JVM;
        return whether only one table had the batch.
        """
        generation = self.world.driver.generation
        self.killer.ask(step, table)
        with suppress(*SPARK_ERRORS):
            # A batch that began before this commit may end the JVM in the middle of it.
            self.grow(1)
        self._reconnect(after=generation)
        assert not self.engine.progress(self.job_id).bystander
        is_half_done = self.world.rows("arrivals") != self.world.rows("departures")
        self.go_on()
        return is_half_done

    def kill_idle(self) -> None:
        """Kill the JVM between two batches."""
        wait_until(
            lambda: (self.engine.progress(self.job_id).rows_read or 0) >= self.written,
            "no batch was committed",
        )
        generation, pid = self.world.driver.generation, self.world.driver.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self._reconnect(after=generation)

    def _reconnect(self, *, after: int) -> None:
        driver = self.world.driver
        wait_until(lambda: driver.generation > after and driver.answers(), "no Spark", START_S)
        self.world.reconnect()
        self.written = len(self.world.rows("flights"))

    def stop(self) -> None:
        self.engine.stop(self.job_id, self.definition)
        self.grow(1)
        self.go_on()

    def save(self) -> None:
        """Go on as another job, from a savepoint."""
        path = self._savepoint()
        self.begin(self.world.definition(f"c{self.attempt}", *TEXTS, restored_from=path))

    def save_and_kill(self, step: str, table: int) -> None:
        """Do so, and kill the JVM before the start or a step of the first batch."""
        path, generation = self._savepoint(), self.world.driver.generation
        self.killer.ask(step, table)
        self.begin(self.world.definition(f"c{self.attempt}", *TEXTS, restored_from=path))
        self._reconnect(after=generation)
        self.go_on()

    def _savepoint(self) -> str:
        """Return the path of a savepoint; there are rows after it."""
        while True:
            try:
                path = self.engine.savepoint(self.job_id, self.definition, self.world.folder(self.job_id))
                break
            except EngineError:
                # A batch is published in one table and not committed.
                self.go_on()
        self.grow(1)
        return path

    def expect_all(self) -> None:
        for table in ("arrivals", "departures"):
            self.world.wait_rows([f"{each:06d}" for each in range(self.written)], table)


@pytest.fixture
def killed(spark_driver: SparkDriver, tmp_path: Path) -> Iterator[KilledWorld]:
    killer = Killer(spark_driver)
    world = StreamWorld(spark_driver, tmp_path, watch=killer)
    world.sql("CREATE TABLE departures (row STRING)")
    world.append("000000", "000001", "000002")
    killed = KilledWorld(world, killer)
    killed.written = 3
    yield killed
    with suppress(EngineUnavailable):
        world.stop_all()


@pytest.mark.kills
@pytest.mark.parametrize(("step", "table"), STEPS)
def test_a_batch_whose_jvm_is_killed_is_in_each_table_once(
    killed: KilledWorld, step: str, table: int
) -> None:
    killed.expect_all()

    killed.kill(step, table)

    killed.grow(1)
    killed.expect_all()


@pytest.mark.kills
def test_a_stream_that_had_no_batch_when_its_jvm_was_killed_was_a_bystander(killed: KilledWorld) -> None:
    killed.expect_all()
    # What Spark reports as read it has committed; the first rows are counted before the query starts.
    killed.grow(1)

    killed.kill_idle()

    progress = killed.engine.progress(killed.job_id)
    assert (progress.running, progress.bystander, progress.error) == (False, True, None)
    killed.go_on()
    killed.grow(1)
    killed.expect_all()


@pytest.mark.kills
@pytest.mark.parametrize(("step", "table"), [(START, 1), *STEPS])
def test_a_job_whose_jvm_is_killed_as_it_goes_on_from_a_savepoint_writes_each_row_once(
    killed: KilledWorld, step: str, table: int
) -> None:
    killed.expect_all()

    killed.save_and_kill(step, table)

    killed.grow(1)
    killed.expect_all()


def test_every_row_is_written_once_also_those_that_a_savepoint_finishes_whatever_happens(
    killed: KilledWorld,
) -> None:
    chance = dice(2)
    killed.expect_all()
    while not killed.kill("publish", 2):
        # It was a batch without rows.
        killed.expect_all()

    path = killed.engine.savepoint(killed.job_id, killed.definition, killed.world.folder(killed.job_id))
    killed.expect_all()
    killed.grow(1)
    killed.begin(killed.world.definition("next", *TEXTS, restored_from=path))
    killed.expect_all()
    for _ in range(ROUNDS):
        killed.grow(chance.randint(1, 3))
        match chance.choice(("kill", "stop", "save")):
            case "kill":
                killed.kill(
                    *chance.choice(
                        [("batch", 1), ("write", 2), ("publish", 1), ("publish", 2), ("published", 2)]
                    )
                )
            case "stop":
                killed.stop()
            case _:
                killed.save()

    killed.expect_all()
