"""Deduplication whose Spark is killed in the middle of a batch: each key passes once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from mt_core.errors import EngineUnavailable
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH
from tests.integration.stream_world import StreamWorld
from tests.integration.test_killed_streams import START_S, Killer
from tests.support.gateway.own_process import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

# After it the table has the batch, and the state of its keys is not committed.
STEPS = ["published", *(["publish"] if DEPTH > 1 else [])]
FIRSTS = (
    "SELECT row FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY row ORDER BY now()) AS rn FROM flights) WHERE rn = 1"
)


@pytest.mark.parametrize("step", STEPS)
def test_a_key_whose_batch_is_killed_passes_once(spark_driver: SparkDriver, tmp_path: Path, step: str) -> None:
    killer = Killer(spark_driver)
    world = StreamWorld(spark_driver, tmp_path, watch=killer)
    world.append("a")
    job_id, definition = world.start(f"INSERT INTO arrivals {FIRSTS}")
    world.wait_rows(["a"])
    generation = spark_driver.generation

    killer.ask(step, 1)
    with suppress(*SPARK_ERRORS):
        # The JVM may end before it answers.
        world.append("a", "b")
    wait_until(lambda: spark_driver.generation > generation and spark_driver.answers(), "no Spark", START_S)
    world.reconnect()
    world.engine.start(job_id, definition, 2)
    world.append("a", "b", "c")

    world.wait_rows(["a", "b", "c"])
    with suppress(EngineUnavailable):
        world.stop_all()
