"""What is created in a gateway is there for sessions, refreshes and jobs after its stop,
its kill and the loss of its Spark.

Catalogs, functions, tables over a stream, tables with a connector and a refresh have a story each:
a generator that goes on after each event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mt_core.base.protocol import Refresh
from mt_core.errors import GatewayError
from tests.integration.lost_run import MASTER, create_kept, lost_run
from tests.support.function_code import function_jar, greeting
from tests.support.gateway.own_process import GatewayUnderTest, Row, rows_of, wait_until
from tests.support.other_process import as_a_user, environment_refusal

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SECRET = "hidden-4711"


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayUnderTest]:
    monkeypatch.setenv("FRESHTABLE_WORKFLOW_SCHEDULER_TYPE", "memory")
    with GatewayUnderTest(tmp_path / "home", [MASTER]) as gateway:
        gateway.command = as_a_user(gateway.command[1:])
        gateway.start()
        yield gateway


def test_catalogs_functions_tables_and_refreshes_outlive_the_gateway_and_spark(
    gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    told = (a_catalog, functions, a_module_that_ends, a_table_over_a_stream, a_connector_table, a_run)
    stories = [story(gateway, tmp_path) for story in told]
    # Before the last event the story of the run has Spark killed.
    events: list[Callable[[], object]] = [lambda: None, gateway.stop, gateway.kill, gateway.wait_for_spark]

    for event in events:
        event()
        if not gateway.running:
            gateway.start()
        for story in stories:
            next(story)

    for story in stories:
        assert next(story, "its end") == "its end"


# -------------------------------------------------------------------------------------------------- a catalog


def a_catalog(gateway: GatewayUnderTest, folder: Path) -> Iterator[None]:
    """An Iceberg catalog with a materialized table, and with a password that its database
    does not ask for.
    """
    options = (
        f"'type' = 'iceberg', 'catalog-type' = 'jdbc', 'uri' = 'jdbc:sqlite:file:{folder}/second.db', "
        f"'jdbc.schema-version' = 'V1', 'jdbc.password' = '{SECRET}', 'warehouse' = '{folder}/second'"
    )

    def add(number: int) -> None:
        """Add a row, and expect that a scheduled refresh reads it."""
        gateway.sql(f"INSERT INTO second.d.t VALUES ({number})")
        counted = "SELECT max(n) AS n FROM second.d.totals"
        wait_until(
            lambda: gateway.sql(counted) == [{"n": number}], "no scheduled refresh read from the catalog"
        )

    with gateway.client() as earlier:
        earlier.execute("SELECT 1")
        gateway.sql(f"CREATE CATALOG second WITH ({options})")
        for statement in ("CREATE NAMESPACE second.d", "CREATE TABLE second.d.t (a INT)"):
            list(earlier.pages(earlier.execute(statement)))
    gateway.sql("INSERT INTO second.d.t VALUES (1)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE second.d.totals FRESHNESS = INTERVAL '1' SECOND REFRESH_MODE = FULL "
        "AS SELECT count(*) AS n FROM second.d.t"
    )
    add(2)
    yield
    add(3)
    yield
    add(4)
    yield
    add(5)

    with pytest.raises(GatewayError, match=r"cannot be dropped: second\.d\.totals is in it"):
        gateway.sql("DROP CATALOG second")
    with closing(sqlite3.connect(gateway.home / "registry.db")) as registry:
        bodies = registry.execute("SELECT body FROM materialized_tables").fetchall()
        assert registry.execute("SELECT name FROM catalogs").fetchall() == [("second",)]
    assert "totals" in str(bodies)
    assert SECRET not in str(bodies)
    said = [
        path.read_text(errors="replace")
        for path in gateway.home.rglob("*")
        if path.suffix in {".txt", ".log"}
    ]
    assert SECRET not in "".join(said)
    gateway.sql("DROP MATERIALIZED TABLE second.d.totals")
    gateway.sql("DROP CATALOG second")
    with pytest.raises(GatewayError, match="second"):
        gateway.sql("SELECT * FROM second.d.t")
    yield


# -------------------------------------------------------------------------------------------------- functions


def functions(gateway: GatewayUnderTest, folder: Path) -> Iterator[None]:
    """Functions of a jar, of a module and of SQL, which a materialized table calls,
    and a job that calls a temporary one too.
    """
    jar, module = function_jar(folder, "a.jar", **greeting("hello")), folder / "scores.py"
    module.write_text("def score(n: int) -> int:\n    return n + 1\n")
    of_module = f"RETURNS INT DETERMINISTIC AS 'scores.score' LANGUAGE PYTHON USING FILE '{module}'"
    _begin(gateway, f"AS 'shop.Greet' USING JAR '{jar}'", of_module)
    wait_until(
        lambda: _words(gateway, "greetings") == ["hello3"], "the first refresh did not call the functions"
    )
    wait_until(lambda: _words(gateway, "streamed") == ["hello202"], "the job did not call the functions")

    unchanged = _refreshed(gateway, 1)
    module.write_text("def score(n: int) -> int:\n    return n + 10\n")
    gateway.sql(f"CREATE OR REPLACE FUNCTION score {of_module}")
    changed = _refreshed(gateway, 2), _words(gateway, "greetings")
    with pytest.raises(
        GatewayError, match=r"score cannot be dropped: materialized table lake\.default\.greetings, job"
    ):
        gateway.sql("DROP FUNCTION score")

    assert (unchanged, changed) == ("SKIPPED", ("SUCCEEDED", ["hello12"]))
    module.unlink()
    jar.unlink()
    yield

    assert _refreshed(gateway, 3) == "SKIPPED"
    gateway.sql("INSERT INTO numbers SELECT score(1) - plus(score(-2))")
    assert (_refreshed(gateway, 4), _words(gateway, "greetings")) == ("SUCCEEDED", ["hello12", "hello13"])
    ways = [run["strategy"] for run in gateway.runs("lake.default.greetings") if run["status"] == "SUCCEEDED"]
    assert ways == ["recompute", "recompute", "append"]
    # The job has the code that its temporary function had; of the other function it has the new code
    # since it began again.
    wait_until(lambda: _words(gateway, "streamed") == ["hello1203", "hello202"], "the job did not go on")
    yield

    assert {row["function name"] for row in gateway.sql("SHOW USER FUNCTIONS")} == {
        "bomb",
        "greet",
        "plus",
        "score",
    }
    [job] = [job for job in gateway.sql("SHOW JOBS") if "streamed" in str(job["job name"])]
    gateway.sql(f"STOP JOB '{job['job id']}'")
    yield
    assert gateway.sql("SELECT greet(plus(score(1))) AS word") == [{"word": "hello12"}]
    yield


def _begin(gateway: GatewayUnderTest, of_jar: str, of_module: str) -> None:
    gateway.sql(f"CREATE FUNCTION greet DETERMINISTIC {of_jar}")
    gateway.sql(f"CREATE FUNCTION score {of_module}")
    gateway.sql("CREATE FUNCTION plus(x INT) RETURN x + 1")
    gateway.sql("CREATE TABLE numbers (n INT)")
    gateway.sql("CREATE TABLE streamed (word STRING)")
    gateway.sql("INSERT INTO numbers VALUES (1)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE greetings WITH ('refresh.strategy' = 'incremental') FRESHNESS = INTERVAL "
        "'1' DAY REFRESH_MODE = FULL AS SELECT greet(plus(score(n))) AS word FROM numbers"
    )
    with gateway.client() as client:
        rows_of(client, f"CREATE TEMPORARY FUNCTION own {of_module}")
        rows_of(client, "SET 'execution.runtime-mode' = 'streaming'")
        rows_of(
            client, "INSERT INTO streamed SELECT greet(CAST(own(n) + 100 * score(n) AS INT)) FROM numbers"
        )


def _words(gateway: GatewayUnderTest, table: str) -> list[Any]:
    return [row["word"] for row in gateway.sql(f"SELECT word FROM {table} ORDER BY word")]


def _refreshed(gateway: GatewayUnderTest, day: int) -> str:
    """Refresh the table as its workflow does on a day to come, and return the status of the refresh."""
    time = f"{datetime.now(UTC) + timedelta(days=day):%Y-%m-%d} 00:00:00"
    with gateway.client() as client:
        handle = client.refresh(
            Refresh(identifier="lake.default.greetings", is_periodic=True, schedule_time=time)
        )
    return str(gateway.wait_ended("greetings", handle)["status"])


def a_module_that_ends(gateway: GatewayUnderTest, folder: Path) -> Iterator[None]:
    """A module that ends the process which loads it, after a while;
    and the environment of the processes of a gateway.
    """
    flag, module, seen = folder / "flag", folder / "bomb.py", folder / "seen"
    module.write_text(
        f"import os\nif os.path.exists({str(flag)!r}):\n    os._exit(3)\n"
        f"with open({str(seen)!r}, 'a') as seen:\n    print(*os.environ, sep='\\n', file=seen)\n"
        "def bomb() -> int:\n    return 1\n"
    )
    gateway.sql(f"CREATE FUNCTION bomb AS 'bomb.bomb' LANGUAGE PYTHON USING FILE '{module}'")
    assert gateway.sql("SELECT bomb() AS n") == [{"n": 1}]
    crash = folder / "crash.py"
    crash.write_text("import ctypes\nctypes.string_at(0)\n")
    with pytest.raises(GatewayError, match=r"module crash ends the process that loads it \(signal SIGSEGV\)"):
        gateway.sql(f"CREATE FUNCTION crash AS 'crash.f' LANGUAGE PYTHON USING FILE '{crash}'")
    yield

    assert gateway.sql("SELECT bomb() AS n") == [{"n": 1}]
    flag.touch()
    yield

    assert gateway.sql("SELECT 1 AS n") == [{"n": 1}]
    # Its process in Spark ends; the statement fails, and nothing else does.
    with pytest.raises(GatewayError):
        gateway.sql("SELECT bomb() AS n")
    gateway.sql("DROP FUNCTION bomb")
    assert gateway.running
    assert not [line for line in seen.read_text().splitlines() if line.startswith("FRESHTABLE_")]
    yield

    assert "bomb" not in {row["function name"] for row in gateway.sql("SHOW USER FUNCTIONS")}
    assert environment_refusal(gateway.process.pid) == "PermissionError"
    assert environment_refusal(gateway.jvm_pid) == ""
    yield


# -------------------------------------------------------------------------------------- a table over a stream


def a_table_over_a_stream(gateway: GatewayUnderTest, folder: Path) -> Iterator[None]:
    """A materialized table that a job keeps, which has each row once and leaves nothing,
    and one that counts its rows.
    """
    yield
    yield
    gateway.sql("CREATE TABLE ticks (value BIGINT) WITH ('connector' = 'rate', 'rows-per-second' = '5')")
    gateway.sql("CREATE TABLE names AS SELECT 1L AS value, 'one' AS name")
    for query, says in STREAMS_OF_ROWS.items():
        with pytest.raises(GatewayError, match=f"cannot be maintained by a streaming job: .*{says}"):
            gateway.sql(f"CREATE MATERIALIZED TABLE refused FRESHNESS = INTERVAL '1' SECOND AS {query}")
    assert gateway.sql("SHOW TABLES LIKE 'refused'") == []
    gateway.sql(
        "CREATE MATERIALIZED TABLE followed FRESHNESS = INTERVAL '1' SECOND AS "
        "SELECT t.value, n.name FROM ticks t LEFT JOIN names n ON t.value = n.value"
    )
    gateway.sql(
        "CREATE MATERIALIZED TABLE counted FRESHNESS = INTERVAL '2' SECOND AS "
        "SELECT count(*) AS n FROM followed"
    )
    _wait_for_more(gateway)
    job = _job_of_followed(gateway)
    checkpoint = gateway.home / "checkpoints" / str(job["job id"])
    assert checkpoint.exists()
    yield

    _wait_for_more(gateway)
    gateway.sql("ALTER MATERIALIZED TABLE followed SUSPEND")
    suspended, at_rest = _job_of_followed(gateway), _rows_so_far(gateway)
    gateway.sql("ALTER MATERIALIZED TABLE followed SET FRESHNESS = INTERVAL '4' SECOND")
    gateway.sql("ALTER MATERIALIZED TABLE followed RESUME")
    _wait_for_more(gateway)
    gateway.sql(f"STOP JOB '{job['job id']}'")
    [shown] = gateway.sql("SHOW MATERIALIZED TABLES LIKE 'followed' EXTENDED")
    last = _rows_so_far(gateway)
    wait_until(lambda: gateway.sql("SELECT n FROM counted") == [{"n": last}], "counted is behind")
    gateway.sql("DROP MATERIALIZED TABLE followed")

    assert (job["kind"], job["status"]) == ("CONTINUOUS REFRESH", "RUNNING")
    assert (suspended["status"], suspended["job id"]) == ("SUSPENDED", job["job id"])
    assert at_rest < last
    assert gateway.sql("SHOW TABLES LIKE 'followed'") == []
    assert (shown["status"], shown["status by"]) == ("SUSPENDED", "STOP JOB")
    assert not checkpoint.exists()
    assert not list((gateway.home / "warehouse").glob("**/followed*"))
    yield


# What needs several rows of a stream, and how it is refused.
STREAMS_OF_ROWS = {
    "SELECT count(*) AS n FROM ticks": "may not use aggregates",
    "SELECT DISTINCT value FROM ticks": "may not use aggregates",
    "SELECT a.value FROM ticks a JOIN ticks b ON a.value = b.value": "joins of two",
}


def _rows_so_far(gateway: GatewayUnderTest) -> int:
    """Return how many rows the table has, and check that each number before the last is there once."""
    [row] = gateway.sql(
        "SELECT count(*) AS n, count(DISTINCT value) AS d, coalesce(max(value) + 1, 0) AS m FROM followed"
    )
    assert row["n"] == row["d"] == row["m"]
    return int(row["n"])


def _wait_for_more(gateway: GatewayUnderTest) -> None:
    before = _rows_so_far(gateway)
    wait_until(lambda: _rows_so_far(gateway) > before, "the table does not grow")


def _job_of_followed(gateway: GatewayUnderTest) -> Row:
    facts = {row["name"]: row["type"] for row in gateway.sql("DESCRIBE EXTENDED followed")}
    [job] = gateway.sql(f"DESCRIBE JOB '{facts['job']}'")
    return job


# ----------------------------------------------------------------------------------- a table with a connector


def a_connector_table(gateway: GatewayUnderTest, folder: Path) -> Iterator[None]:
    """A table over files, with a materialized table over it and a job that copies its rows."""
    (folder / "events").mkdir()
    gateway.sql(
        "CREATE TABLE events (id INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at) "
        f"WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/events')"
    )
    gateway.sql("CREATE TABLE copies (id INT)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE totals FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "
        "SELECT count(*) AS n FROM events"
    )
    with gateway.client() as client:
        rows_of(client, "SET 'execution.runtime-mode' = 'streaming'")
        [job] = rows_of(client, "INSERT INTO copies SELECT id FROM events")

    def see(*numbers: int) -> None:
        """Add the last of *numbers*, and expect all in the table, in the copies
        and in the materialized table.
        """
        gateway.sql(f"INSERT INTO events VALUES ({numbers[-1]}, current_timestamp())")
        assert sorted(row["id"] for row in gateway.sql("SELECT id FROM lake.default.events")) == [*numbers]
        wait_until(lambda: len(gateway.sql("SELECT id FROM copies")) == len(numbers), "rows are not copied")
        with gateway.client() as client:
            handle = client.refresh(Refresh(identifier="lake.default.totals"))
        assert gateway.wait_ended("totals", handle)["status"] == "SUCCEEDED"
        assert gateway.sql("SELECT n FROM totals") == [{"n": len(numbers)}]

    see(1)
    yield
    yield
    see(1, 2)
    yield
    see(1, 2, 3)
    with pytest.raises(GatewayError, match=f"events is read by streaming job {job['job id']}"):
        gateway.sql("DROP TABLE events")
    gateway.sql(f"STOP JOB '{job['job id']}'")
    gateway.sql("DROP TABLE events")

    left = {row["table name"] for row in gateway.sql("SHOW TABLES IN lake.default")}
    of_others = {"numbers", "streamed", "greetings", "ticks", "names", "counted", "source", "kept"}
    assert left == {"copies", "totals", *of_others}
    yield


# ------------------------------------------------------------------------------------------------------ a run


def a_run(gateway: GatewayUnderTest, folder: Path) -> Iterator[None]:
    """A refresh that loses Spark before it is published."""
    yield
    yield
    create_kept(gateway)
    yield from lost_run(gateway, "staged", folder)
