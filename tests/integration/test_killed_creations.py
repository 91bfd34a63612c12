"""kill -9 of the gateway while it creates a table of a query: the table is whole or not there, and no file is left."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
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
    with GatewayUnderTest(tmp_path_factory.mktemp("creations") / "home") as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE old AS SELECT 1 AS a")
        yield gateway


def _files(gateway: GatewayUnderTest, table: str) -> set[str]:
    """Return the files and folders of a table, its own folder too."""
    warehouse: Path = gateway.home / "warehouse"
    return {str(path) for path in warehouse.rglob("*") if f"/{table}-" in str(path)}


def _kill_during(gateway: GatewayUnderTest, statement: str, table: str, after_s: float = 0.0) -> None:
    """Kill the gateway *after_s* after the statement's first data file of that table is there."""
    before = _files(gateway, table)

    def work() -> None:
        with contextlib.suppress(GatewayError):
            gateway.sql(statement)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work)
        wait_until(
            lambda: any(each.endswith(".parquet") for each in _files(gateway, table) - before), "nothing is written"
        )
        time.sleep(after_s)
        gateway.kill()


def test_a_gateway_killed_while_a_table_is_written_leaves_no_table_and_no_file(gateway: GatewayUnderTest) -> None:
    _kill_during(gateway, f"CREATE TABLE waiting AS {WAITS}", "waiting")
    left = _files(gateway, "waiting")

    gateway.start()

    wait_until(lambda: not _files(gateway, "waiting"), "files are left", 120)
    assert left
    assert gateway.sql("SHOW TABLES LIKE 'waiting'") == []
    [job] = [each for each in gateway.sql("SHOW JOBS") if each["job name"] == "create-table-as-waiting"]
    assert job["status"] == "FAILED"
    gateway.sql("CREATE TABLE waiting AS SELECT 1 AS a")
    assert gateway.sql("SELECT * FROM waiting") == [{"a": 1}]


def test_a_gateway_killed_while_a_table_is_replaced_leaves_the_old_one(gateway: GatewayUnderTest) -> None:
    before = _files(gateway, "old")
    _kill_during(gateway, f"REPLACE TABLE old AS {WAITS}", "old")

    gateway.start()

    assert gateway.sql("SELECT * FROM old") == [{"a": 1}]
    wait_until(lambda: _files(gateway, "old") == before, "files are left", 120)


@pytest.mark.parametrize("round_", range(DEPTH))
def test_a_gateway_killed_around_the_commit_leaves_the_whole_table_or_nothing(
    gateway: GatewayUnderTest, round_: int
) -> None:
    table = f"around_{round_}"
    _kill_during(gateway, f"CREATE TABLE {table} AS SELECT id FROM range(0, {ROWS}, 1, 2)", table, 0.05 * (round_ % 10))

    gateway.start()

    if gateway.sql(f"SHOW TABLES LIKE '{table}'"):
        assert gateway.sql(f"SELECT count(*) AS n FROM {table}") == [{"n": ROWS}]
    else:
        wait_until(lambda: not _files(gateway, table), "files are left", 120)
