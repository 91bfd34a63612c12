"""kill -9 of the JVM under a running gateway: clear errors, no lost run, and Spark comes back by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.client.http import GatewayClient, Refresh
from mt_core.errors import GatewayError
from tests.support.added_jar import words_jar
from tests.support.gateway.own_process import GatewayUnderTest, Row, alive, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(240)]
# In one task, which leaves threads for what goes on beside it.
LONG = "SELECT count(*) AS n FROM range(0, 400000, 1, 1) a JOIN range(0, 400000) b ON a.id % 7 <= b.id % 11"
LOST = "Spark went away and is being started again; repeat the statement in a few seconds."


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("jvm") / "home", ["spark.master=local[4]"]) as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE source (n INT)")
        gateway.sql("INSERT INTO source VALUES (0)")
        gateway.sql(
            "CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL "
            "AS SELECT count(*) AS n FROM source"
        )
        yield gateway


# CI has one before the run is on main; the gateway itself is killed after it, in test_kill.py.
STEPS = ["staged", *(pytest.param(step, marks=pytest.mark.kills) for step in ("write", "publish: commit", "published"))]


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_loses_spark_is_published_once_and_the_sessions_beside_it_go_on(
    gateway: GatewayUnderTest, step: str, tmp_path: Path
) -> None:
    jar = step.title().replace(": ", "")
    call = f"SELECT reflect('shop.{jar}', 'shout', CAST(id AS STRING)) AS word FROM range(1)"
    gateway.sql("INSERT INTO source VALUES (1)")
    wanted = gateway.sql("SELECT count(*) AS n FROM source")
    before = gateway.jvm_pid
    with GatewayClient(gateway.url) as client, GatewayClient(gateway.url) as other:
        rows_of(client, f"ADD JAR '{words_jar(tmp_path, jar)}'")
        called, jars = rows_of(client, call), rows_of(client, "SHOW JARS")
        statement = other.execute(LONG)
        wait_until(lambda: other.status(statement) == "RUNNING", "the statement did not begin")

        gateway.die_before(step, table="kept", victim="jvm")
        handle = client.refresh(Refresh(identifier="lake.default.kept"))
        wait_until(lambda: not alive(before), "the JVM was not killed")

        assert gateway.info() == 200
        assert client.status(handle) in ("PENDING", "RUNNING", "FINISHED")
        with pytest.raises(GatewayError) as lost:
            list(other.pages(statement))
        tables = rows_of(other, "SHOW MATERIALIZED TABLES")
        gateway.wait_for_spark()
        run = gateway.wait_ended("kept", handle)
        assert rows_of(other, "SELECT 2 AS two") == [{"two": 2}]
        assert (rows_of(client, call), rows_of(client, "SHOW JARS")) == (called, jars)

    assert called == gateway.sql(call) == [{"word": "0!"}]
    assert str(lost.value) == LOST
    assert "kept" in [row["materialized table"] for row in tables]
    # A run whose publish was acknowledged needs Spark no more.
    assert (run["status"], run["attempt"]) == ("SUCCEEDED", 1 if step == "published" else 2)
    assert gateway.published("kept", handle) == 1
    assert gateway.refs("kept") == ["main"]
    assert gateway.sql("SELECT n FROM kept") == wanted
    assert gateway.jvm_pid != before
    assert gateway.running


@pytest.mark.kills
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
        gateway.lose_spark()
        run = gateway.wait_ended("heavy", handle)

    assert (run["status"], run["attempt"]) == ("SUCCEEDED", 2)
    assert gateway.published("heavy", handle) == 1
    wanted = gateway.sql("SELECT DISTINCT n FROM source ORDER BY n")
    assert gateway.sql("SELECT n FROM heavy ORDER BY n") == wanted
    assert {"n": 2} in wanted


def _writes(run: Row) -> bool:
    """Whether it has decided: what follows is the open, and then the long write."""
    return run["status"] == "RUNNING" and run["decision"] == "refresh"
