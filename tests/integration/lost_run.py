"""A run that loses Spark at a step of it, beside a statement and a session with an added jar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.client.http import GatewayClient, Refresh
from mt_core.errors import GatewayError
from tests.support.added_jar import words_jar
from tests.support.gateway.own_process import GatewayUnderTest, alive, rows_of, wait_until

# In one task, which leaves threads for what goes on beside it.
LONG = "SELECT count(*) AS n FROM range(0, 400000, 1, 1) a JOIN range(0, 400000) b ON a.id % 7 <= b.id % 11"
LOST = "Spark went away and is being restarted; repeat the statement in a few seconds."
MASTER = "spark.master=local[4]"


def create_kept(gateway: GatewayUnderTest) -> None:
    """Create the materialized table that loses Spark, and its source."""
    gateway.sql("CREATE TABLE source AS SELECT 0 AS n")
    gateway.sql(
        "CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "
        "SELECT count(*) AS n FROM source"
    )


def lost_run(gateway: GatewayUnderTest, step: str, folder: Path) -> Iterator[None]:
    """Lose Spark before *step* of a run, and go on when Spark is back: the run is published once,
    and the sessions go on.
    """
    jar = step.title().replace(": ", "")
    call = f"SELECT reflect('shop.{jar}', 'shout', CAST(id AS STRING)) AS word FROM range(1)"
    gateway.sql("INSERT INTO source VALUES (1)")
    wanted = gateway.sql("SELECT count(*) AS n FROM source")
    before = gateway.jvm_pid
    with GatewayClient(gateway.url) as client, GatewayClient(gateway.url) as other:
        rows_of(client, f"ADD JAR '{words_jar(folder, jar)}'")
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
        yield
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
    yield
