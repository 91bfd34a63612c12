"""Results of real queries: in order, while they go on, beyond memory, and ended in every way."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.errors import Canceled, EngineUnavailable, QueryFailed
from mt_core.sessions.ports import SessionContext
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.results.row_stream import StreamedRows
from mt_core.spark.results.spool import Spools
from mt_core.spark.statements.spark_statements import SparkStatements
from tests.integration.row_servers import row_servers
from tests.support.gateway.own_process import wait_until
from tests.support.started_jobs import started_jobs
from tests.support.streamed_rows import ended, table_of

pytestmark = pytest.mark.spark

# Ten rows in each of 40 partitions; rows from 100 on are late.
QUERY = "SELECT id, IF(id >= 100, {late}, '0') AS late FROM range(0, 400, 1, 40)"
NAP, SLEEP = (f"java_method('java.lang.Thread', 'sleep', CAST({ms} AS BIGINT))" for ms in (20, 600_000))
_numbers = itertools.count()


class World:
    """Runs queries, and closes their results at the end."""

    def __init__(self, driver: SparkDriver, spools: Spools | None = None) -> None:
        self.driver, self.engine = driver, SparkStatements(SparkContexts(driver), spools)
        self.opened: list[StreamedRows] = []

    def run(self, sql: str, **properties: str) -> StreamedRows:
        context = SessionContext(session_id=f"results-{next(_numbers)}", properties=properties)
        found = self.engine.execute(context, sql, job_id=f"{next(_numbers):032x}").rows
        assert isinstance(found, StreamedRows)
        self.opened.append(found)
        return found

    def jobs_of(self, sql: str) -> int:
        """Return how many Spark jobs a query takes to its end."""
        before = started_jobs(self.driver.session)
        ended(self.run(sql))
        return started_jobs(self.driver.session) - before


@pytest.fixture
def world(spark_driver: SparkDriver) -> Iterator[World]:
    made = World(spark_driver)
    yield made
    for rows in made.opened:
        rows.close()


def waiting_tasks(world: World) -> bool:
    """Return whether a thread of Spark's executor sleeps in a task."""
    traces = world.driver.session._jvm.java.lang.Thread.getAllStackTraces()
    tasks = [thread for thread in traces if str(thread.getName()).startswith("Executor task")]
    return any(
        str(frame).endswith("Thread.sleep(Native Method)") for task in tasks for frame in traces[task][:1]
    )


@pytest.mark.parametrize("partitions", [1, 3, 50])
def test_rows_come_in_the_order_of_the_query(world: World, partitions: int) -> None:
    plain = table_of(world.run(f"SELECT id FROM range(0, 30000, 1, {partitions})"))
    ordered = table_of(world.run(f"SELECT id FROM range(0, 30000, 1, {partitions}) ORDER BY id % 7 DESC, id"))

    assert plain.column("id").to_pylist() == list(range(30000))
    assert ordered.column("id").to_pylist() == sorted(range(30000), key=lambda n: (-(n % 7), n))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT 1 WHERE false",
        "SELECT current_date() AS d, 'a' AS a, CAST(NULL AS INT) AS a, TIMESTAMP '2024-01-01 00:00:00' AS t",
        "VALUES (1, 'a'), (2, NULL)",
        "SELECT upper(b) FROM VALUES (1, 'a'), (2, 'b') AS t(a, b) WHERE a > 1",
    ],
)
def test_rows_that_are_there_once_the_query_is_planned_take_no_job(world: World, sql: str) -> None:
    assert world.jobs_of(sql) == 0


def test_rows_without_a_job_are_those_of_the_job(world: World) -> None:
    values = (
        "1 AS a, 'x' AS a, array(1, NULL) AS c, map('k', 1.5) AS d, "
        "named_struct('e', DATE '2024-02-29') AS f, X'01' AS g"
    )

    without, with_job = world.run(f"SELECT {values}"), world.run(f"SELECT {values} FROM range(1)")

    assert table_of(without).equals(table_of(with_job))
    assert without.page(0, 2) == with_job.page(0, 2)


@pytest.mark.parametrize(
    "sql",
    ["SELECT rand()", "SELECT id FROM range(0, 100, 1, 1)", "SELECT id FROM range(0, 100, 1, 2)"],
)
def test_a_query_of_few_partitions_is_one_job(world: World, sql: str) -> None:
    assert world.jobs_of(sql) == 1


def test_many_small_partitions_take_few_jobs(world: World) -> None:
    cores = world.driver.session.sparkContext.defaultParallelism

    assert world.jobs_of("SELECT id FROM range(0, 1000, 1, 20)") <= 4 + 20 // cores


@pytest.mark.parametrize(
    "select",
    [
        "SELECT id, {late} AS late, 0 AS n FROM numbers LIMIT 50",
        "SELECT id, {late} AS late, 0 AS n FROM numbers LIMIT 50 OFFSET 5",
        "SELECT id, {late} AS late, TIMESTAMP_SECONDS(id) AS n FROM numbers LIMIT 50 OFFSET 5",
        "SELECT id, {late} AS late, (SELECT MAX(id) FROM range(3)) AS n FROM numbers LIMIT 50",
        (
            "SELECT id, {late} AS late, (SELECT MAX(id) FROM range(3)) AS n FROM numbers "
            "WHERE id % 2 = 0 LIMIT 25"
        ),
    ],
)
def test_a_limit_ends_the_query_when_enough_rows_are_there(world: World, select: str) -> None:
    failing = "IF(id >= 300, STRING(1 / (id - 356)), '0')"

    rows = world.run(select.format(late=failing).replace("numbers", "range(0, 400, 1, 40)"))
    error = ended(rows)
    found = [row[0] for row in rows.page(0, 1000)]

    start, step = 5 if "OFFSET" in select else 0, 2 if "WHERE" in select else 1
    assert (error, found) == (None, list(range(start, start + 50, step)))


def test_a_limit_beyond_the_rows_brings_all_of_them(world: World) -> None:
    rows = world.run("SELECT id, TIMESTAMP_SECONDS(id) AS at FROM range(0, 400, 1, 40) LIMIT 1000 OFFSET 390")

    error = ended(rows)

    assert (error, [row[0] for row in rows.page(0, 1000)]) == (None, list(range(390, 400)))


def test_rows_that_begin_sparse_and_go_on_dense_are_no_more_than_spark_lets_a_job_bring(world: World) -> None:
    conf = world.driver.session.sparkContext._jsc.sc().conf()  # type: ignore[union-attr]
    key = "spark.driver.maxResultSize"
    conf.set(key, "3m")

    try:
        rows = world.run(
            "SELECT id, REPEAT(STRING(id), 100000) AS text FROM range(0, 80, 1, 80) WHERE id >= 40"
        )
        error = ended(rows)
    finally:
        conf.remove(key)

    assert (error, [row[0] for row in rows.page(0, 100)]) == (None, list(range(40, 80)))


def test_first_rows_are_there_while_the_query_goes_on(world: World) -> None:
    rows = world.run(QUERY.format(late=NAP))

    running, first = rows.running, rows.page(0, 5)
    error = ended(rows)

    assert (running, [row[0] for row in first], error) == (True, [0, 1, 2, 3, 4], None)
    assert [row[0] for row in rows.page(0, 1000)] == list(range(400))


def test_an_error_in_a_later_partition_is_told_behind_the_rows(world: World) -> None:
    rows = world.run(QUERY.format(late="STRING(1 / (id - 250))"))

    error = ended(rows)

    assert isinstance(error, QueryFailed)
    assert (error.error_class, "(line 1, position " in str(error)) == ("DIVIDE_BY_ZERO", True)
    assert rows.page(0, 3)[2][0] == 2


def test_an_error_in_the_first_partition_is_the_statements(world: World) -> None:
    with pytest.raises(QueryFailed, match="DIVIDE_BY_ZERO"):
        world.run("SELECT 1 / id FROM range(0, 400, 1, 40)")


def test_closing_ends_the_job_at_once(world: World) -> None:
    rows = world.run(QUERY.format(late=SLEEP))

    rows.close()

    assert isinstance(ended(rows), Canceled)
    assert world.run("SELECT 1").page(0, 1) == [[1]]


def test_closing_ends_tasks_that_wait_for_something_else(world: World) -> None:
    rows = world.run(QUERY.format(late=SLEEP))
    wait_until(lambda: waiting_tasks(world), "no late row was asked for")

    rows.close()

    wait_until(lambda: not waiting_tasks(world), "tasks of a closed result still run")
    assert world.run("SELECT 1").page(0, 1) == [[1]]


def test_rows_beyond_memory_are_kept_in_files_that_go_with_the_result(
    spark_driver: SparkDriver, tmp_path: Path
) -> None:
    world = World(spark_driver, Spools(tmp_path / "results", max_memory=1_000_000))
    sql = "SELECT id, CAST(id AS STRING) AS text, TIMESTAMP_SECONDS(id) AS at FROM range(0, 200000, 1, 8)"

    rows = world.run(sql)
    table = table_of(rows)
    rows.close()

    assert table.column("id").to_pylist() == list(range(200000))
    assert [str(kind) for kind in table.schema.types] == ["int64", "string", "timestamp[us, tz=UTC]"]
    assert list((tmp_path / "results").iterdir()) == []


def test_settings_of_the_session_hold_for_the_tasks_of_every_wave(world: World) -> None:
    query = (
        "SELECT date_format(TIMESTAMP '2024-07-01 00:00:00' + make_dt_interval(0, 0, 0, id), 'VV HH') "
        "FROM range(0, 40, 1, 40)"
    )

    rows = world.run(query, **{"spark.sql.session.timeZone": "Asia/Tokyo"})

    assert {row[0] for row in rows.page(0, 100)} == {"Asia/Tokyo 00"}


def test_the_sessions_arrow_settings_change_no_value(world: World) -> None:
    large = {"spark.sql.execution.arrow.useLargeVarTypes": "true"}

    rows = world.run("SELECT 'abc' AS a, X'01' AS b, ARRAY('x', NULL) AS c FROM range(3)", **large)

    assert rows.page(0, 10) == [["abc", "AQ==", ["x", None]]] * 3


def test_a_query_that_waits_for_its_reader_holds_no_rows_in_the_jvm(
    spark_driver: SparkDriver, tmp_path: Path
) -> None:
    world = World(spark_driver, Spools(tmp_path / "results", max_memory=1_000_000, max_disk=1_000_000))
    # The JVM is that of other tests as well.
    before = row_servers(spark_driver)

    rows = world.run("SELECT id, REPEAT('x', 1000) AS text FROM range(0, 100000, 1, 20)")
    wait_until(lambda: rows.stalled, "the query did not wait for its reader")

    wait_until(lambda: row_servers(spark_driver).keys() <= before.keys(), "the JVM still holds rows")
    waiting = rows.stalled
    rows.close()

    assert waiting
    assert row_servers(spark_driver).keys() <= before.keys()


@pytest.mark.slow
def test_a_lost_jvm_ends_the_result_but_not_what_has_come(world: World) -> None:
    rows, pid = world.run(QUERY.format(late=SLEEP)), world.driver.pid
    assert pid is not None

    os.kill(pid, signal.SIGKILL)

    assert isinstance(ended(rows), EngineUnavailable)
    assert rows.page(0, 2) == [[0, "0"], [1, "0"]]
