"""kill -9 of the gateway while it creates a table of a query: the table is whole or not there, and no file is left."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mt_core.errors import GatewayError
from tests.depth import DEPTH
from tests.support.gateway.own_process import GatewayUnderTest, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * DEPTH)]
WAITS = "SELECT id, IF(id = 1, java_method('java.lang.Thread', 'sleep', 600000L + id), 'x') AS x FROM range(0, 2, 1, 2)"
ROWS = 100_000


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("creations") / "home", ["spark.master=local[4]"]) as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE old AS SELECT 1 AS a")
        yield gateway


def _files(gateway: GatewayUnderTest, table: str) -> set[str]:
    """Return the files and folders of a table, its own folder too."""
    warehouse: Path = gateway.home / "warehouse"
    return {str(path) for path in warehouse.rglob("*") if f"/{table}-" in str(path)}


def _kill_during(gateway: GatewayUnderTest, statements: Mapping[str, str], after_s: float = 0.0) -> None:
    """Kill the gateway *after_s* after the first new data file of each of the *statements*, which are by table, is there."""
    before = {table: _files(gateway, table) for table in statements}

    def work(statement: str) -> None:
        with contextlib.suppress(GatewayError):
            gateway.sql(statement)

    def begun(table: str) -> bool:
        return any(each.endswith(".parquet") for each in _files(gateway, table) - before[table])

    with ThreadPoolExecutor(len(statements)) as pool:
        for statement in statements.values():
            pool.submit(work, statement)
        wait_until(lambda: all(map(begun, statements)), "nothing is written")
        time.sleep(after_s)
        gateway.kill()


def test_a_gateway_killed_while_tables_are_written_leaves_what_was_there_before(gateway: GatewayUnderTest) -> None:
    old = _files(gateway, "old")
    _kill_during(gateway, {"waiting": f"CREATE TABLE waiting AS {WAITS}", "old": f"REPLACE TABLE old AS {WAITS}"})

    gateway.start()

    wait_until(lambda: not _files(gateway, "waiting") and _files(gateway, "old") == old, "files are left", 120)
    assert gateway.sql("SHOW TABLES LIKE 'waiting'") == []
    assert gateway.sql("SELECT * FROM old") == [{"a": 1}]
    jobs = {job["job name"]: job["status"] for job in gateway.sql("SHOW JOBS")}
    assert (jobs["create-table-as-waiting"], jobs["replace-table-as-old"]) == ("FAILED", "FAILED")
    gateway.sql("CREATE TABLE waiting AS SELECT 1 AS a")
    assert gateway.sql("SELECT * FROM waiting") == [{"a": 1}]


@pytest.mark.parametrize("round_", range(DEPTH))
def test_a_gateway_killed_around_the_commit_leaves_the_whole_table_or_nothing(
    gateway: GatewayUnderTest, round_: int
) -> None:
    table = f"around_{round_}"
    create = f"CREATE TABLE {table} AS SELECT id FROM range(0, {ROWS}, 1, 2)"
    _kill_during(gateway, {table: create}, 0.05 * (round_ % 10))

    gateway.start()

    if gateway.sql(f"SHOW TABLES LIKE '{table}'"):
        assert gateway.sql(f"SELECT count(*) AS n FROM {table}") == [{"n": ROWS}]
    else:
        wait_until(lambda: not _files(gateway, table), "files are left", 120)
