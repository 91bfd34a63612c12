"""Changes whose Spark is killed in the middle of a batch: tables with a key have the rows of the query over all of its source."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
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

# The step, and the table of a batch in which it is. In CI, both tables have the batch, and the checkpoint does not.
STEPS = [("published", 2), *([("write", 1), ("publish", 1), ("published", 1), ("write", 2)] if DEPTH > 1 else [])]
QUERY = "SELECT substring(row, 1, 1) AS k, CAST(count(*) AS INT) AS n FROM flights GROUP BY 1"


@pytest.mark.parametrize(("step", "table"), STEPS)
def test_tables_with_a_key_have_the_result_after_a_kill(
    spark_driver: SparkDriver, tmp_path: Path, step: str, table: int
) -> None:
    killer = Killer(spark_driver)
    world = StreamWorld(spark_driver, tmp_path, watch=killer)
    world.sql("CREATE TABLE counts (k STRING NOT NULL, n INT)")
    world.sql("ALTER TABLE counts SET IDENTIFIER FIELDS k")
    with closing(sqlite3.connect(tmp_path / "base.db")) as database:
        database.execute("CREATE TABLE counts (k TEXT PRIMARY KEY, n INTEGER)")
    outside = (
        "CREATE TEMPORARY TABLE outside (k STRING, n INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'jdbc', "
        f"'url' = 'jdbc:sqlite:{tmp_path}/base.db', 'table-name' = 'counts')"
    )
    world.append("a1", "b1")
    job_id, definition = world.start(
        f"INSERT INTO counts {QUERY}", f"INSERT INTO outside {QUERY}", temporary=(outside,)
    )
    world.wait(lambda: world.engine.progress(job_id).batch == 0)
    generation = spark_driver.generation

    killer.ask(step, table)
    with suppress(*SPARK_ERRORS):
        # The JVM may end before it answers.
        world.append("a2", "c1")
    wait_until(lambda: spark_driver.generation > generation and spark_driver.answers(), "no Spark", START_S)
    world.reconnect()
    world.engine.start(job_id, definition, 2)
    world.append("a3", "b2")
    expected = sorted(map(tuple, world.sql(QUERY)))
    world.wait(lambda: sum(row.n for row in world.sql("SELECT n FROM counts")) == sum(n for _, n in expected))
    world.engine.savepoint(job_id, definition, world.folder("s"))

    assert sorted(map(tuple, world.sql("SELECT * FROM counts"))) == expected
    with closing(sqlite3.connect(tmp_path / "base.db")) as database:
        assert sorted(database.execute("SELECT * FROM counts")) == expected
    with suppress(EngineUnavailable):
        world.stop_all()
