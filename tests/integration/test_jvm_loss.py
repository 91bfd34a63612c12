"""kill -9 of the JVM under a running gateway: clear errors, no lost run, and Spark comes back by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.client.http import GatewayClient, Refresh
from mt_core.errors import GatewayError
from tests.support.added_jar import words_jar
from tests.support.gateway.own_process import START_S, GatewayUnderTest, Row, alive, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
LONG = "SELECT count(*) AS n FROM range(0, 400000) a JOIN range(0, 400000) b ON a.id % 7 <= b.id % 11"
LOST = "Spark went away and is being started again; repeat the statement in a few seconds."


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("jvm") / "home") as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE source (n INT)")
        gateway.sql("INSERT INTO source VALUES (0)")
        gateway.sql(
            "CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL "
            "AS SELECT count(*) AS n FROM source"
        )
        yield gateway


def _spark_answers(gateway: GatewayUnderTest) -> bool:
    try:
        return gateway.sql("SELECT 1 AS one") == [{"one": 1}]
    except GatewayError:
        return False


def _wait_for_spark(gateway: GatewayUnderTest) -> None:
    wait_until(lambda: _spark_answers(gateway), "Spark did not come back", START_S)


STEPS = [
    "staged",
    *(pytest.param(step, marks=pytest.mark.slow) for step in ("write", "publish: commit", "published")),
]


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_loses_spark_is_published_once_after_it_came_back(gateway: GatewayUnderTest, step: str) -> None:
    gateway.sql("INSERT INTO source VALUES (1)")
    wanted = gateway.sql("SELECT count(*) AS n FROM source")
    before = gateway.jvm_pid
    gateway.die_before(step, table="kept", victim="jvm")
    with GatewayClient(gateway.url) as client:
        handle = client.refresh(Refresh(identifier="lake.default.kept"))
        wait_until(lambda: not alive(before), "the JVM was not killed")
        assert gateway.info() == 200
        assert client.status(handle) in ("PENDING", "RUNNING", "FINISHED")

        _wait_for_spark(gateway)
        run = gateway.wait_ended("kept", handle)

    # A run whose publish was acknowledged needs Spark no more.
    assert (run["status"], run["attempt"]) == ("SUCCEEDED", 1 if step == "published" else 2)
    assert gateway.published("kept", handle) == 1
    assert gateway.refs("kept") == ["main"]
    assert gateway.sql("SELECT n FROM kept") == wanted
    assert gateway.jvm_pid != before
    assert gateway.running


def test_a_statement_that_loses_spark_says_so_and_its_session_goes_on(gateway: GatewayUnderTest) -> None:
    with GatewayClient(gateway.url) as client:
        handle = client.execute(LONG)
        wait_until(lambda: client.status(handle) == "RUNNING", "the statement did not begin")
        os.kill(gateway.jvm_pid, signal.SIGKILL)

        with pytest.raises(GatewayError) as lost:
            list(client.pages(handle))
        assert gateway.info() == 200
        tables = rows_of(client, "SHOW MATERIALIZED TABLES")
        _wait_for_spark(gateway)

        assert rows_of(client, "SELECT 2 AS two") == [{"two": 2}]
    assert str(lost.value) == LOST
    assert [row["materialized table"] for row in tables] == ["kept"]


@pytest.mark.slow
def test_a_jvm_killed_while_it_writes_loses_no_run(gateway: GatewayUnderTest) -> None:
    gateway.sql(
        "CREATE MATERIALIZED TABLE heavy FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "
        "SELECT s.n, count(*) AS pairs FROM source s JOIN (SELECT a.id FROM range(0, 8000) a JOIN range(0, 1000) b "
        "ON a.id % 7 <= b.id % 11) GROUP BY s.n"
    )
    gateway.sql("INSERT INTO source VALUES (2)")
    with GatewayClient(gateway.url) as client:
        handle = client.refresh(Refresh(identifier="lake.default.heavy"))
        wait_until(lambda: _writes(gateway.run("heavy", handle)), "the refresh did not begin")
        os.kill(gateway.jvm_pid, signal.SIGKILL)
        _wait_for_spark(gateway)
        run = gateway.wait_ended("heavy", handle)

    assert (run["status"], run["attempt"]) == ("SUCCEEDED", 2)
    assert gateway.published("heavy", handle) == 1
    wanted = gateway.sql("SELECT DISTINCT n FROM source ORDER BY n")
    assert gateway.sql("SELECT n FROM heavy ORDER BY n") == wanted
    assert {"n": 2} in wanted


def _writes(run: Row) -> bool:
    """Whether it has decided: what follows is the open, and then the long write."""
    return run["status"] == "RUNNING" and run["decision"] == "refresh"


def test_an_added_jar_is_there_again_after_spark_came_back(gateway: GatewayUnderTest, tmp_path: Path) -> None:
    call = "SELECT reflect('shop.Kept', 'shout', CAST(id AS STRING)) AS word FROM range(1)"
    with GatewayClient(gateway.url) as client:
        rows_of(client, f"ADD JAR '{words_jar(tmp_path, 'Kept')}'")
        before = rows_of(client, call), rows_of(client, "SHOW JARS")

        os.kill(gateway.jvm_pid, signal.SIGKILL)
        _wait_for_spark(gateway)

        assert (rows_of(client, call), rows_of(client, "SHOW JARS")) == before
    assert before[0] == gateway.sql(call) == [{"word": "0!"}]
