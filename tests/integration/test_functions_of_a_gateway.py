"""Functions on a real gateway: sessions, refreshes, jobs and restarts all know them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mt_core.errors import GatewayError
from mt_core.protocol import Refresh
from tests.support.function_code import function_jar, greeting
from tests.support.gateway.own_process import GatewayUnderTest, rows_of, wait_until
from tests.support.other_process import as_a_user, environment_refusal

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayUnderTest]:
    monkeypatch.setenv("FRESHTABLE_WORKFLOW_SCHEDULER_TYPE", "memory")
    with GatewayUnderTest(tmp_path / "home") as gateway:
        gateway.command = as_a_user(gateway.command[1:])
        gateway.start()
        yield gateway


def words(gateway: GatewayUnderTest, table: str) -> list[Any]:
    return [row["word"] for row in gateway.sql(f"SELECT word FROM {table} ORDER BY word")]


def refreshed(gateway: GatewayUnderTest, day: int) -> str:
    """Refresh the table as its workflow does on a day to come, and return the status of the refresh."""
    time = f"{datetime.now(UTC) + timedelta(days=day):%Y-%m-%d} 00:00:00"
    with gateway.client() as client:
        handle = client.refresh(Refresh(identifier="lake.default.greetings", is_periodic=True, schedule_time=time))
    return str(gateway.wait_ended("greetings", handle)["status"])


def begin(gateway: GatewayUnderTest, of_jar: str, of_module: str) -> None:
    """Create functions, a materialized table that calls them, and a job that calls a temporary one too."""
    gateway.sql(f"CREATE FUNCTION greet DETERMINISTIC {of_jar}")
    gateway.sql(f"CREATE FUNCTION score {of_module}")
    gateway.sql("CREATE FUNCTION plus(x INT) RETURN x + 1")
    gateway.sql("CREATE TABLE numbers (n INT)")
    gateway.sql("CREATE TABLE streamed (word STRING)")
    gateway.sql("INSERT INTO numbers VALUES (1)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE greetings WITH ('refresh.strategy' = 'incremental') FRESHNESS = INTERVAL '1' DAY "
        "REFRESH_MODE = FULL AS SELECT greet(plus(score(n))) AS word FROM numbers"
    )
    with gateway.client() as client:
        rows_of(client, f"CREATE TEMPORARY FUNCTION own {of_module}")
        rows_of(client, "SET 'execution.runtime-mode' = 'streaming'")
        rows_of(client, "INSERT INTO streamed SELECT greet(CAST(own(n) + 100 * score(n) AS INT)) FROM numbers")


def test_functions_are_called_by_refreshes_and_jobs_and_outlive_the_gateway_and_their_files(
    gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    jar, module = function_jar(tmp_path, "a.jar", **greeting("hello")), tmp_path / "scores.py"
    module.write_text("def score(n: int) -> int:\n    return n + 1\n")
    of_module = f"RETURNS INT DETERMINISTIC AS 'scores.score' LANGUAGE PYTHON USING FILE '{module}'"
    begin(gateway, f"AS 'shop.Greet' USING JAR '{jar}'", of_module)
    wait_until(lambda: words(gateway, "greetings") == ["hello3"], "the first refresh did not call the functions")
    wait_until(lambda: words(gateway, "streamed") == ["hello202"], "the job did not call the functions")

    unchanged = refreshed(gateway, 1)
    module.write_text("def score(n: int) -> int:\n    return n + 10\n")
    gateway.sql(f"CREATE OR REPLACE FUNCTION score {of_module}")
    changed = refreshed(gateway, 2), words(gateway, "greetings")
    with pytest.raises(
        GatewayError, match=r"score cannot be dropped: materialized table lake\.default\.greetings, job"
    ):
        gateway.sql("DROP FUNCTION score")

    assert (unchanged, changed) == ("SKIPPED", ("SUCCEEDED", ["hello12"]))
    module.unlink()
    jar.unlink()
    gateway.stop()
    gateway.start()
    assert refreshed(gateway, 3) == "SKIPPED"
    gateway.sql("INSERT INTO numbers SELECT score(1) - plus(score(-2))")
    assert (refreshed(gateway, 4), words(gateway, "greetings")) == ("SUCCEEDED", ["hello12", "hello13"])
    ways = [run["strategy"] for run in gateway.runs("lake.default.greetings") if run["status"] == "SUCCEEDED"]
    assert ways == ["recompute", "recompute", "append"]
    # The job has the code that its temporary function had; of the other function it has the new code since it began again.
    wait_until(lambda: words(gateway, "streamed") == ["hello1203", "hello202"], "the job did not go on")
    names = {row["function name"] for row in gateway.sql("SHOW USER FUNCTIONS")}
    assert {"greet", "plus", "score"} <= names


def test_a_module_that_ends_or_hangs_harms_no_gateway_also_when_that_starts_again(
    gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    flag, module, seen = tmp_path / "flag", tmp_path / "bomb.py", tmp_path / "seen"
    module.write_text(
        f"import os\nif os.path.exists({str(flag)!r}):\n    os._exit(3)\n"
        f"with open({str(seen)!r}, 'a') as seen:\n    print(*os.environ, sep='\\n', file=seen)\n"
        "def bomb() -> int:\n    return 1\n"
    )
    gateway.sql(f"CREATE FUNCTION bomb AS 'bomb.bomb' LANGUAGE PYTHON USING FILE '{module}'")
    called = gateway.sql("SELECT bomb() AS n")
    crash = tmp_path / "crash.py"
    crash.write_text("import ctypes\nctypes.string_at(0)\n")
    with pytest.raises(GatewayError, match=r"module crash ends the process that loads it \(signal SIGSEGV\)"):
        gateway.sql(f"CREATE FUNCTION crash AS 'crash.f' LANGUAGE PYTHON USING FILE '{crash}'")

    flag.touch()
    gateway.kill()
    gateway.start()
    plain = gateway.sql("SELECT 1 AS n")
    # Its process in Spark ends; the statement fails, and nothing else does.
    with pytest.raises(GatewayError):
        gateway.sql("SELECT bomb() AS n")
    gateway.sql("DROP FUNCTION bomb")

    assert (called, plain) == ([{"n": 1}], [{"n": 1}])
    assert not [line for line in seen.read_text().splitlines() if line.startswith("FRESHTABLE_")]
    assert gateway.running
    assert environment_refusal(gateway.process.pid) == "PermissionError"
    assert environment_refusal(gateway.jvm_pid) == ""
    assert [row["function name"] for row in gateway.sql("SHOW USER FUNCTIONS")] == []
