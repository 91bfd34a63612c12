"""Results whose partitions are large: they come in parts, each by a job of its own,
and are those that one job gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

from mt_core.errors import Canceled, QueryFailed
from mt_core.spark.driver import jobs
from mt_core.spark.driver.conf import INTERACTIVE_POOL
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.results.batches import QueryJob
from mt_core.spark.results.parts import PartSizes
from mt_core.spark.results.row_stream import StreamedRows, fetch
from mt_core.spark.results.spool import Spools
from tests.integration.row_servers import row_servers
from tests.support.function_code import function_jar
from tests.support.gateway.own_process import GatewayUnderTest, wait_until
from tests.support.streamed_rows import WAIT_S, ended, table_of

pytestmark = pytest.mark.spark

SMALL = PartSizes(first=100_000, all=400_000)
MEBIBYTE = 2**20


class World:
    """Runs queries whose results come in parts of chosen sizes, and closes the results at the end."""

    def __init__(self, driver: SparkDriver) -> None:
        self.driver, self.session = driver, driver.new_session()
        self.opened: list[StreamedRows] = []
        self.job_id = ""

    def run(self, sql: str, sizes: PartSizes = SMALL, spools: Spools | None = None) -> StreamedRows:
        job = QueryJob(job_id=uuid4().hex, pool=INTERACTIVE_POOL, description=sql)
        self.job_id = job.job_id
        with self.driver.run_tagged(job.job_id, job.pool, job.description):
            rows = fetch(self.driver, self.session.sql(sql), job, spools or Spools(), sizes)
        self.opened.append(rows)
        return rows

    def jobs(self) -> int:
        """Return how many Spark jobs the last query has had."""
        tracker = self.session.sparkContext._jsc.sc().statusTracker()  # type: ignore[union-attr]
        return len(tracker.getJobIdsForTag(self.job_id))

    def tasks(self) -> int:
        """Return how many tasks of the last query run now."""
        return jobs.active_tasks(self.session.sparkContext, self.job_id)


@pytest.fixture
def world(spark_driver: SparkDriver) -> Iterator[World]:
    made = World(spark_driver)
    yield made
    for rows in made.opened:
        rows.close()


def column_of(rows: StreamedRows) -> list[object]:
    """Return the first column of a result that has ended without an error."""
    assert ended(rows) is None
    return list(table_of(rows).column(0).to_pylist())


def saved(session: SparkSession, folder: Path, rows: int, files: int) -> str:
    """Write numbers in their order to Parquet *files* of one partition each;
    return what a query reads them from.
    """
    session.range(0, rows, 1, files).write.parquet(str(folder))
    session.conf.set("spark.sql.files.openCostInBytes", str(128 * MEBIBYTE))
    return f"parquet.`{folder}`"


@pytest.mark.parametrize("partitions", [*(pytest.param(each, marks=pytest.mark.slow) for each in (1, 5)), 2])
def test_a_large_range_comes_in_parts_with_all_rows_once_and_in_order(world: World, partitions: int) -> None:
    rows = world.run(f"SELECT id, concat('city ', id % 10) FROM range(0, 400000, 1, {partitions})")

    assert column_of(rows) == list(range(400_000))
    assert world.jobs() > 10


@pytest.mark.parametrize("where", ["", "WHERE id % 3 = 1"])
def test_large_files_come_in_parts_with_all_rows_once_and_in_order(
    world: World, tmp_path: Path, where: str
) -> None:
    source = saved(world.session, tmp_path / "numbers", 400_000, 3)

    rows = world.run(f"SELECT id, id + 1 FROM {source} {where}")

    assert sorted(map(str, column_of(rows))) == sorted(
        str(id) for id in range(400_000) if not where or id % 3 == 1
    )
    assert world.jobs() > 5


@pytest.mark.slow
def test_a_table_of_few_large_files_comes_in_parts_as_by_one_job(world: World) -> None:
    world.session.sql("DROP TABLE IF EXISTS large_parts")
    world.session.sql(
        "CREATE TABLE large_parts USING iceberg AS SELECT id, hash(id) AS n FROM range(0, 300000, 1, 3)"
    )
    world.session.sql("DELETE FROM large_parts WHERE id % 1000 = 7")

    parts = column_of(world.run("SELECT n, id FROM large_parts"))
    jobs_of_parts = world.jobs()
    whole = column_of(world.run("SELECT n, id FROM large_parts", PartSizes()))
    world.session.sql("DROP TABLE large_parts")

    assert (len(parts), parts == whole) == (299_700, True)
    assert jobs_of_parts > 5 > world.jobs()


def test_partitions_of_very_different_sizes_keep_their_order(world: World) -> None:
    query = (
        "SELECT id, repeat('x', IF(id < 10000 OR id BETWEEN 60000 AND 62000, 500, 1)) "
        "FROM range(0, 120000, 1, 12)"
    )

    assert column_of(world.run(query)) == list(range(120_000))


@pytest.mark.parametrize(
    ("limit", "expected"), [("LIMIT 70000", 70_000), ("LIMIT 70000 OFFSET 20000", 70_000), ("LIMIT 5", 5)]
)
def test_a_limit_ends_a_result_in_parts_when_enough_rows_are_there(
    world: World, limit: str, expected: int
) -> None:
    start = 20_000 if "OFFSET" in limit else 0

    rows = world.run(f"SELECT id FROM range(0, 1000000, 1, 2) {limit}")

    assert column_of(rows) == list(range(start, start + expected))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, rand() FROM range(0, 100000, 1, 1)",
        "SELECT id, monotonically_increasing_id() FROM range(0, 100000, 1, 1)",
        "SELECT id FROM range(0, 100000, 1, 1) WHERE java_method('java.lang.Long', 'sum', id, 1L) > 0",
    ],
)
def test_rows_that_another_job_may_give_otherwise_come_by_one_job(world: World, query: str) -> None:
    rows = world.run(query)

    assert (column_of(rows), world.jobs()) == (list(range(100_000)), 1)


@pytest.mark.slow
def test_rows_that_code_of_users_computes_come_by_one_job(world: World, tmp_path: Path) -> None:
    code = "implements UDF1<Long, Long> { public Long call(Long number) { return number + 1; } }"
    world.session.sql(f"ADD JAR '{function_jar(tmp_path, 'next.jar', Next=code)}'")
    world.session.udf.registerJavaFunction("next_in_java", "shop.Next", LongType())
    world.session.udf.register("next_in_python", lambda number: number + 1, LongType())

    for function in ("next_in_java", "next_in_python"):
        rows = world.run(f"SELECT {function}(id) FROM range(0, 100000, 1, 1)")

        assert (column_of(rows), world.jobs()) == (list(range(1, 100_001)), 1)


@pytest.mark.parametrize("query", ["SELECT id FROM numbers ORDER BY id", "SELECT DISTINCT id FROM numbers"])
def test_rows_behind_a_shuffle_come_by_as_many_jobs_as_small_ones(world: World, query: str) -> None:
    jobs_of_query = []
    for rows in (100, 100_000):
        found = column_of(world.run(query.replace("numbers", f"range(0, {rows}, 1, 2)")))
        jobs_of_query.append(world.jobs())
        assert sorted(map(str, found)) == sorted(map(str, range(rows)))

    assert jobs_of_query[0] == jobs_of_query[1]


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_small_result_is_one_job(world: World, partitions: int) -> None:
    rows = world.run(f"SELECT id FROM range(0, 10000, 1, {partitions})")

    assert (column_of(rows), world.jobs()) == (list(range(10_000)), 1)


def test_a_result_without_partitions_has_no_rows(world: World) -> None:
    world.session.sql("CREATE OR REPLACE TABLE no_rows (id BIGINT) USING iceberg")

    rows = world.run("SELECT id FROM no_rows")
    found = column_of(rows)
    world.session.sql("DROP TABLE no_rows")

    assert found == []


def test_a_result_of_some_mebibytes_is_one_job(world: World) -> None:
    rows = world.run("SELECT id FROM range(0, 900000, 1, 1)", PartSizes())

    assert (column_of(rows), world.jobs()) == (list(range(900_000)), 1)


@pytest.mark.slow
def test_a_result_that_is_closed_between_its_parts_ends_its_job(world: World) -> None:
    before = row_servers(world.driver)
    # The last rows take hours.
    rows = world.run("SELECT id FROM range(0, 1000000000000, 1, 1) WHERE id < 100000 OR id > 999999999000")
    wait_until(lambda: world.jobs() > 1 and world.tasks() > 0, "no second part was asked for")

    rows.close()

    assert isinstance(ended(rows), Canceled)
    wait_until(lambda: world.tasks() == 0, "the job of a closed result still runs")
    wait_until(lambda: row_servers(world.driver).keys() <= before.keys(), "the JVM still holds rows")


def test_a_result_that_waits_for_its_reader_between_two_parts_holds_no_rows_in_the_jvm(
    world: World, tmp_path: Path
) -> None:
    before = row_servers(world.driver)
    rows = world.run(
        "SELECT id, repeat('x', 100) FROM range(0, 1000000, 1, 1)",
        PartSizes(first=1_500_000, all=1_500_000),
        Spools(tmp_path / "spool", max_memory=2_000_000, max_disk=2_000_000),
    )
    wait_until(lambda: rows.stalled, "the query did not wait for its reader")

    waiting = world.jobs()
    wait_until(lambda: row_servers(world.driver).keys() <= before.keys(), "the JVM still holds rows")

    assert waiting < 10
    assert (world.jobs(), rows.running) == (waiting, True)


def test_a_file_that_is_changed_between_two_parts_is_an_error(world: World, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("".join(f"{number:0100d}\n" for number in range(200_000)))
    sizes, spools = (
        PartSizes(first=1_500_000, all=1_500_000),
        Spools(tmp_path / "spool", max_memory=1, max_disk=1),
    )
    rows = world.run(f"SELECT value FROM text.`{file}`", sizes, spools)
    wait_until(lambda: rows.stalled, "the query did not wait for its reader")

    file.write_text("".join(f"{number:099d}\n" for number in range(200_000)))
    rows.release(rows.available(0, 10_000_000, WAIT_S))

    error = ended(rows)
    assert isinstance(error, QueryFailed)
    assert "Files of the query were changed while its result was fetched" in error.message


@pytest.mark.slow
def test_a_partition_larger_than_the_memory_of_spark_is_delivered(tmp_path: Path) -> None:
    rows, memory = 600_000, 512 * MEBIBYTE
    with GatewayUnderTest(tmp_path / "home", ["spark.driver.memory=512m"]) as gateway:
        gateway.start()
        jvm, received, size = gateway.jvm_pid, 0, 0
        with gateway.client() as client:
            query = client.execute(f"SELECT id, repeat('x', 1000) AS text FROM range(0, {rows}, 1, 1)")
            for batch in client.fetch_arrow_batches(query):
                assert batch.column(0).to_pylist() == list(range(received, received + batch.num_rows))
                received, size = received + batch.num_rows, size + batch.nbytes

        assert (received, size > memory) == (rows, True)
        assert gateway.jvm_pid == jvm
