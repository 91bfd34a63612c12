"""A chain of operators whose Spark is killed at each step of a batch:
tables with a key have what the query gives of all rows.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from mt_core.errors import EngineUnavailable
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.integration.held_copy import held_copy
from tests.integration.stream_world import StreamWorld
from tests.integration.test_killed_streams import START_S, Killer
from tests.support.gateway.own_process import wait_until

# In CI each operator repeats a batch (change_scripts.py), as do tables with a key,
# and test_killed_streams.py kills a batch of two tables between them.
pytestmark = [pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(1200)]

# The step, and the table of a batch in which it is: first the one of Iceberg, then the one in a database.
STEPS = [("batch", 1), ("write", 1), ("publish", 1), ("published", 1), ("write", 2), ("published", 2)]
COUNTS = (
    "(SELECT substring(row, 1, 1) AS k, CAST(count(*) AS INT) AS n FROM (SELECT row FROM (SELECT *, "
    "ROW_NUMBER() OVER (PARTITION BY row ORDER BY now()) AS f FROM flights) WHERE f = 1) GROUP BY 1) AS c"
)
TOPS = (
    "SELECT town, rn, k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY town ORDER BY n DESC, k) AS rn "
    f"FROM (SELECT t.town, c.k, c.n FROM {COUNTS} JOIN towns AS t ON c.k = t.k)) WHERE rn <= 2"
)
BY_LETTER = f"SELECT c.k, t.town, c.n FROM {COUNTS} LEFT JOIN towns AS t ON c.k = t.k"

INSERTS = (f"INSERT INTO tops {TOPS}", f"INSERT INTO letters {BY_LETTER}")


class ChainWorld(StreamWorld):
    """A job that deduplicates, counts, joins and ranks rows, into a table of Iceberg and one of a database,
    both with a key.
    """

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        self.killer, self._base, self._written = Killer(driver), folder / "base.db", 0
        super().__init__(driver, folder, watch=self.killer)
        self.sql("CREATE TABLE towns (k STRING, town STRING)")
        self.sql("CREATE TABLE tops (town STRING NOT NULL, rn INT NOT NULL, k STRING, n INT)")
        self.sql("ALTER TABLE tops SET IDENTIFIER FIELDS town, rn")
        with closing(sqlite3.connect(self._base)) as database:
            database.execute("CREATE TABLE letters (k TEXT PRIMARY KEY, town TEXT, n INTEGER)")
        self._outside = (
            "CREATE TEMPORARY TABLE letters (k STRING, town STRING, n INT, PRIMARY KEY (k) NOT ENFORCED) "
            f"WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{self._base}', 'table-name' = 'letters')"
        )
        self.grow()
        self.job_id, self.stream = self.start(*INSERTS, temporary=(self._outside,))

    def grow(self) -> None:
        """Add rows of some letters, half of which came before;
        at first also the towns of two more letters at times.
        """
        number = self._written = self._written + 1
        if number in {1, 3, 5, 7}:
            town = "Rome" if number in {1, 5} else "Oslo"
            self.sql(
                f"INSERT INTO towns VALUES ('{_letter(number)}', '{town}'), "
                f"('{_letter(number + 1)}', '{town}')"
            )
        self.append(*(f"{_letter(each)}{each}" for each in range(number // 2, number + 3)))

    def kill(self, step: str, table: int) -> None:
        """Kill the JVM before a step of a batch, and go on in the next one."""
        generation = self.driver.generation
        self.killer.ask(step, table)
        with suppress(*SPARK_ERRORS):
            # The JVM may end before it answers.
            self.grow()
        self._go_on(after=generation)

    def kill_while_it_copies(self, savepoint: str) -> None:
        """Prepare the job anew from a savepoint, kill the JVM before all of it is copied,
        and do the same in the next one.
        """
        generation, self.job_id = self.driver.generation, uuid4().hex
        definition = self.definition(
            self.job_id, *INSERTS, temporary=(self._outside,), restored_from=savepoint
        )
        # In this order: where something fails, the copy comes to its end before its thread is waited for.
        with ThreadPoolExecutor(1) as thread, held_copy(Path(savepoint) / "checkpoint") as held:
            prepared = thread.submit(self.engine.prepare, definition, self.job_id)
            self.wait(held.has_begun)
            assert self.driver.pid is not None
            os.kill(self.driver.pid, signal.SIGKILL)
            assert isinstance(prepared.exception(), EngineUnavailable)
            held.release()
            self._reconnect(after=generation)
        self.stream = self.engine.prepare(definition, self.job_id)
        self.engine.start(self.job_id, self.stream, self.driver.generation + 1)

    def _go_on(self, *, after: int) -> None:
        self._reconnect(after=after)
        self.engine.start(self.job_id, self.stream, self.driver.generation + 1)

    def _reconnect(self, *, after: int) -> None:
        driver = self.driver
        wait_until(lambda: driver.generation > after and driver.answers(), "no Spark", START_S)
        self.reconnect()

    def expected(self) -> tuple[list[object], list[object]]:
        return sorted(map(tuple, self.sql(TOPS))), sorted(map(tuple, self.sql(BY_LETTER)), key=str)

    def found(self) -> tuple[list[object], list[object]]:
        with closing(sqlite3.connect(self._base)) as database:
            letters = sorted(database.execute("SELECT * FROM letters"), key=str)
        return sorted(map(tuple, self.sql("SELECT * FROM tops"))), letters


def _letter(number: int) -> str:
    return "abcdefgh"[number % 8]


@pytest.fixture
def world(spark_driver: SparkDriver, tmp_path: Path) -> Iterator[ChainWorld]:
    world = ChainWorld(spark_driver, tmp_path)
    yield world
    with suppress(EngineUnavailable):
        world.stop_all()


def test_a_chain_of_operators_that_is_killed_at_any_step_gives_what_the_query_does(world: ChainWorld) -> None:
    expected = world.expected()
    world.wait(lambda: world.found() == expected)

    for step, table in STEPS:
        world.kill(step, table)
        world.grow()
        expected = world.expected()
        world.wait(lambda expected=expected: world.found() == expected)
    world.engine.savepoint(world.job_id, world.stream, world.folder("s"))

    assert world.found() == world.expected()


def test_a_chain_of_operators_that_is_killed_as_it_copies_a_savepoint_gives_what_the_query_does(
    world: ChainWorld,
) -> None:
    expected = world.expected()
    world.wait(lambda: world.found() == expected)
    path = world.engine.savepoint(world.job_id, world.stream, world.folder("s"))
    world.grow()

    world.kill_while_it_copies(path)

    expected = world.expected()
    world.wait(lambda: world.found() == expected)
    world.grow()
    expected = world.expected()
    world.wait(lambda: world.found() == expected)
