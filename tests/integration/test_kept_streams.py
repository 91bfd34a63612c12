"""Materialized tables that a streaming job keeps, in a real gateway: each row arrives once, whatever ends in between."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from mt_core.errors import GatewayError
from tests.support.gateway.own_process import GatewayUnderTest, Row, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
WAIT_S = 180.0


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("gateway") / "home") as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE ticks (value BIGINT) WITH ('connector' = 'rate', 'rows-per-second' = '5')")
        gateway.sql("CREATE TABLE names (value BIGINT, name STRING)")
        gateway.sql("INSERT INTO names VALUES (1, 'one')")
        yield gateway


def rows_so_far(gateway: GatewayUnderTest, table: str = "kept") -> int:
    """Return how many rows the table has, and check that each number before the last is there once."""
    [row] = gateway.sql(
        f"SELECT count(*) AS n, count(DISTINCT value) AS d, coalesce(max(value) + 1, 0) AS m FROM {table}"
    )
    assert row["n"] == row["d"] == row["m"]
    return int(row["n"])


def wait_for_more(gateway: GatewayUnderTest, table: str = "kept") -> None:
    before = rows_so_far(gateway, table)
    wait_until(lambda: rows_so_far(gateway, table) > before, f"{table} does not grow", WAIT_S)


def job_of(gateway: GatewayUnderTest, table: str = "kept") -> Row:
    facts = {row["name"]: row["type"] for row in gateway.sql(f"DESCRIBE EXTENDED {table}")}
    [job] = gateway.sql(f"DESCRIBE JOB '{facts['job']}'")
    return job


def answers(gateway: GatewayUnderTest) -> bool:
    try:
        return gateway.sql("SELECT 1 AS a") == [{"a": 1}]
    except GatewayError:
        return False


def test_a_table_over_a_stream_has_each_row_once_through_the_loss_of_spark_and_suspensions_and_leaves_nothing(
    gateway: GatewayUnderTest,
) -> None:
    gateway.sql(
        "CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '1' SECOND AS "
        "SELECT t.value, n.name FROM ticks t LEFT JOIN names n ON t.value = n.value"
    )
    gateway.sql("CREATE MATERIALIZED TABLE counted FRESHNESS = INTERVAL '2' SECOND AS SELECT count(*) AS n FROM kept")
    wait_for_more(gateway)
    job = job_of(gateway)

    psutil.Process(gateway.jvm_pid).kill()
    wait_until(lambda: answers(gateway), "Spark never came back", WAIT_S)
    wait_for_more(gateway)
    gateway.sql("ALTER MATERIALIZED TABLE kept SUSPEND")
    suspended, at_rest = job_of(gateway), rows_so_far(gateway)
    gateway.sql("ALTER MATERIALIZED TABLE kept SET FRESHNESS = INTERVAL '4' SECOND")
    gateway.sql("ALTER MATERIALIZED TABLE kept RESUME")
    wait_for_more(gateway)
    gateway.sql(f"STOP JOB '{job['job id']}'")
    [shown] = gateway.sql("SHOW MATERIALIZED TABLES LIKE 'kept' EXTENDED")
    last = rows_so_far(gateway)
    wait_until(lambda: gateway.sql("SELECT n FROM counted") == [{"n": last}], "counted is behind", WAIT_S)
    gateway.sql("DROP MATERIALIZED TABLE kept")

    assert (job["kind"], job["status"]) == ("CONTINUOUS REFRESH", "RUNNING")
    assert (suspended["status"], suspended["job id"]) == ("SUSPENDED", job["job id"])
    assert at_rest < last
    assert gateway.sql("SHOW TABLES LIKE 'kept'") == []
    assert (shown["status"], shown["status by"]) == ("SUSPENDED", "STOP JOB")
    assert not list((gateway.home / "checkpoints").glob("*"))
    assert not list((gateway.home / "warehouse").glob("**/kept*"))


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT count(*) AS n FROM ticks", "cannot be kept by a streaming job: .*no aggregate"),
        ("SELECT DISTINCT value FROM ticks", "cannot be kept by a streaming job: .*no aggregate"),
        (
            "SELECT a.value FROM ticks a JOIN ticks b ON a.value = b.value",
            "cannot be kept by a streaming job: .*join of two",
        ),
    ],
)
def test_a_query_that_needs_several_rows_of_a_stream_is_refused_with_the_way_out(
    gateway: GatewayUnderTest, query: str, says: str
) -> None:
    with pytest.raises(GatewayError, match=says):
        gateway.sql(f"CREATE MATERIALIZED TABLE refused FRESHNESS = INTERVAL '1' SECOND AS {query}")

    assert gateway.sql("SHOW TABLES LIKE 'refused'") == []
