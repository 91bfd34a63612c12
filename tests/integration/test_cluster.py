"""A gateway on a real Spark cluster: executors and the cluster itself die, and what was asked for is done all the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mt_core.client.http import GatewayClient, Refresh
from mt_core.errors import GatewayError
from tests.integration.standalone_cluster import StandaloneCluster
from tests.support.added_jar import words_jar
from tests.support.gateway.own_process import WAIT_S, GatewayUnderTest, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]
LOST_AFTER_S = 5
BACK_S = 180.0
# Some seconds in eight tasks.
SLOW = "SELECT count(*) AS n, max(source.v) AS v FROM range(0, 300000000, 1, 8) r CROSS JOIN source WHERE hash(r.id) % 7 = 3"


@pytest.fixture(scope="module")
def gateway(cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    settings = (*cluster.settings, f"sql-gateway.engine.lost-after={LOST_AFTER_S} s")
    with GatewayUnderTest(tmp_path_factory.mktemp("on-cluster") / "home", settings) as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE source (v INT)")
        gateway.sql("INSERT INTO source VALUES (1)")
        gateway.sql(f"CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS {SLOW}")
        yield gateway


def change(gateway: GatewayUnderTest, value: int) -> str:
    """Change the source, ask for a refresh, and return its handle once it runs on the cluster."""
    gateway.sql(f"INSERT INTO source VALUES ({value})")
    with GatewayClient(gateway.url) as client:
        handle = client.refresh(Refresh(identifier="lake.default.kept"))
    wait_until(lambda: gateway.run("kept", handle)["status"] == "RUNNING", "the refresh never began")
    return handle


def engine(gateway: GatewayUnderTest) -> str:
    return httpx.get(f"{gateway.url}/v3/info", timeout=WAIT_S).headers["Freshtable-Engine"]


def fact(gateway: GatewayUnderTest, key: str) -> str | None:
    rows = gateway.sql("DESCRIBE EXTENDED kept")
    return next((str(row["type"]) for row in rows if row["name"] == key), None)


def test_an_executor_that_dies_in_the_middle_of_a_refresh_costs_no_attempt(
    gateway: GatewayUnderTest, cluster: StandaloneCluster
) -> None:
    handle = change(gateway, 2)
    wait_until(lambda: len(cluster.executors()) == 2, "no executors")

    cluster.kill_executor()
    run = gateway.wait_ended("kept", handle)

    assert (run["status"], run["attempt"]) == ("SUCCEEDED", 1)
    assert gateway.published("kept", handle) == 1
    assert gateway.sql("SELECT v FROM kept") == [{"v": 2}]


def test_a_streaming_job_writes_each_row_once_when_an_executor_dies(
    gateway: GatewayUnderTest, cluster: StandaloneCluster
) -> None:
    gateway.sql("CREATE TABLE flights (n INT)")
    gateway.sql("CREATE TABLE arrivals (n INT)")
    with gateway.client() as client:
        rows_of(client, "SET 'execution.runtime-mode' = 'streaming'")
        [job] = rows_of(client, "INSERT INTO arrivals SELECT n FROM flights")

    def fly(*numbers: int) -> None:
        gateway.sql(f"INSERT INTO flights VALUES {', '.join(f'({number})' for number in numbers)}")

    def wait_arrived(*numbers: int) -> None:
        def arrived() -> list[int]:
            return sorted(row["n"] for row in gateway.sql("SELECT n FROM arrivals"))

        wait_until(lambda: len(arrived()) >= len(numbers), "rows are missing", BACK_S)
        assert arrived() == sorted(numbers)

    fly(1, 2)
    wait_arrived(1, 2)
    cluster.kill_executor()
    fly(3, 4)
    wait_arrived(1, 2, 3, 4)
    [stopped] = gateway.sql(f"STOP JOB '{job['job id']}' WITH SAVEPOINT WITH DRAIN")

    assert Path(str(stopped["savepoint path"])).is_dir()


def test_executors_call_the_class_of_an_added_jar_also_when_they_are_new_and_after_a_lost_jvm(
    gateway: GatewayUnderTest, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    pids = "SELECT DISTINCT reflect('shop.Heard', 'pid') AS pid FROM range(0, 64, 1, 8)"

    def ran_on_executors() -> bool:
        executors = {str(each.pid) for each in cluster.executors()}
        return {row["pid"] for row in gateway.sql(pids)} <= executors

    gateway.sql(f"ADD JAR '{words_jar(tmp_path, 'Heard')}'")
    at_first = ran_on_executors()
    cluster.kill_executor()
    wait_until(lambda: len(cluster.executors()) == 2, "no new executor", BACK_S)
    with_a_new_executor = ran_on_executors()
    gateway.sql(
        "CREATE MATERIALIZED TABLE heard FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "
        "SELECT reflect('shop.Heard', 'shout', CAST(v AS STRING)) AS word FROM source WHERE v = 1"
    )
    os.kill(gateway.jvm_pid, signal.SIGKILL)
    wait_until(lambda: engine(gateway) != "READY", "the lost JVM was not noticed", BACK_S)
    with GatewayClient(gateway.url) as client:
        handle = client.refresh(Refresh(identifier="lake.default.heard"))
    wait_until(lambda: engine(gateway) == "READY", "Spark did not come back", BACK_S)
    run = gateway.wait_ended("heard", handle)

    assert (at_first, with_a_new_executor, ran_on_executors()) == (True, True, True)
    assert run["status"] == "SUCCEEDED"
    assert gateway.sql("SELECT word FROM heard") == [{"word": "1!"}]
    gateway.sql("DROP MATERIALIZED TABLE heard")


def test_a_cluster_that_is_lost_is_said_everywhere_and_work_goes_on_once_one_is_back(
    gateway: GatewayUnderTest, cluster: StandaloneCluster
) -> None:
    before = engine(gateway), fact(gateway, "engine")
    handle = change(gateway, 3)

    cluster.stop()
    with (
        GatewayClient(gateway.url) as client,
        pytest.raises(GatewayError, match="taken no work") as caught,
    ):
        rows_of(client, "SELECT count(*) AS n FROM range(0, 1000, 1, 8)")
    with pytest.raises(GatewayError, match="taken no work"):
        fact(gateway, "engine")
    said = engine(gateway)
    cluster.start()
    wait_until(lambda: engine(gateway) == "READY", "Spark did not come back", BACK_S)
    run = gateway.wait_ended("kept", handle)

    assert before == ("READY", None)
    assert cluster.url in str(caught.value)
    assert f"Spark's cluster {cluster.url} has taken no work for {LOST_AFTER_S} s" in said
    assert run["status"] == "SUCCEEDED"
    assert gateway.published("kept", handle) == 1
    assert gateway.sql("SELECT v FROM kept") == [{"v": 3}]
    log = (gateway.home / "logs" / "gateway.log").read_text(encoding="utf-8")
    assert "cluster_lost" in log
    assert "refresh of lake.default.kept QUEUED: attempt 1: Spark's cluster" in log
