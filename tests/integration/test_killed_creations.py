"""kill -9 of the gateway while it creates a table of a query: the table is whole or not there,
and no file is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from mt_core.errors import GatewayError
from tests.depth import DEPTH
from tests.integration.hook_receiver import HookReceiver, OutsideReader
from tests.support.gateway.own_process import GatewayUnderTest, Victim, alive, rows_of, wait_until
from tests.support.listing import paths_below

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * DEPTH)]
WAITS = (
    "SELECT id, IF(id = 1, java_method('java.lang.Thread', 'sleep', 600000L + id), 'x') AS x "
    "FROM range(0, 2, 1, 2)"
)
ROWS = 100_000


VICTIMS: list[Victim] = ["gateway", "jvm"]
# The event of a job at whose receiver the gateway or its Spark is killed, before or after the receiver has
# answered. Each of them once: its table has their names. One has a test of its own.
IN_CI = ("FINISHED", False, "gateway")
BOUNDARIES = [
    boundary
    for boundary in product(("CREATED", "FINISHED", "FAILED", "CANCELED"), (False, True), VICTIMS)
    if boundary != IN_CI
]


@pytest.fixture(scope="module")
def receiver() -> Iterator[HookReceiver]:
    with contextlib.closing(HookReceiver()) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, receiver: HookReceiver) -> Iterator[GatewayUnderTest]:
    settings = [
        "spark.master=local[4]",
        f"job.hooks.webhook.allowed-urls={receiver.url}",
        "job.hooks.webhook.secret=s3cret",
    ]
    with GatewayUnderTest(tmp_path_factory.mktemp("creations") / "home", settings) as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE old AS SELECT 1 AS a")
        yield gateway


def _files(gateway: GatewayUnderTest, table: str) -> set[str]:
    """Return the files and folders of a table, its own folder too."""
    warehouse: Path = gateway.home / "warehouse"
    return {str(path) for path in paths_below(warehouse) if f"/{table}-" in str(path)}


def _begin(pool: Executor, gateway: GatewayUnderTest, statements: Mapping[str, str]) -> None:
    """Run each of the *statements*, which are by table, and wait until the first new data file
    of each is there.
    """
    before = {table: _files(gateway, table) for table in statements}

    def work(statement: str) -> None:
        with contextlib.suppress(GatewayError):
            gateway.sql(statement)

    def begun(table: str) -> bool:
        return any(each.endswith(".parquet") for each in _files(gateway, table) - before[table])

    for statement in statements.values():
        pool.submit(work, statement)
    wait_until(lambda: all(map(begun, statements)), "nothing is written")


def test_a_gateway_killed_between_commits_leaves_whole_tables_old_ones_and_no_spark_that_hangs(
    gateway: GatewayUnderTest, receiver: HookReceiver
) -> None:
    old, spark = _files(gateway, "old"), gateway.jvm_pid
    statements = {"waiting": f"CREATE TABLE waiting AS {WAITS}", "old": f"REPLACE TABLE old AS {WAITS}"}
    event, answered, _ = IN_CI
    killed = threading.Event()

    def kill() -> None:
        # It does not notice by itself that the gateway is gone.
        os.kill(spark, signal.SIGSTOP)
        gateway.kill()
        killed.set()

    with ThreadPoolExecutor(len(statements)) as pool, OutsideReader(gateway.home, "whole") as reader:
        _begin(pool, gateway, statements)
        receiver.at(event, kill, after_answer=answered)
        job_id = _run_with_hook(gateway, receiver, _QUERIES[event].format(rows=ROWS), "whole", stops=False)
        assert killed.wait(120), receiver.events
        wait_until(lambda: not alive(spark), "Spark is still there")

        gateway.start()

        _expect_whole_or_nothing(gateway, receiver, reader, "whole", job_id)
    wait_until(
        lambda: not _files(gateway, "waiting") and _files(gateway, "old") == old, "files are left", 120
    )
    assert gateway.sql("SHOW TABLES LIKE 'waiting'") == []
    assert gateway.sql("SELECT * FROM old") == [{"a": 1}]
    jobs = {job["job name"]: job["status"] for job in gateway.sql("SHOW JOBS")}
    assert (jobs["create-table-as-waiting"], jobs["replace-table-as-old"]) == ("FAILED", "FAILED")
    gateway.sql("CREATE TABLE waiting AS SELECT 1 AS a")
    assert gateway.sql("SELECT * FROM waiting") == [{"a": 1}]


@pytest.mark.kills
@pytest.mark.parametrize(("event", "answered", "victim"), BOUNDARIES)
def test_a_kill_at_a_hook_leaves_the_whole_table_or_nothing_and_no_hook_unfinished(
    gateway: GatewayUnderTest, receiver: HookReceiver, event: str, answered: bool, victim: str
) -> None:
    table = f"{event}_{victim}_{answered}".lower()
    killed = threading.Event()

    def kill() -> None:
        if victim == "gateway":
            gateway.kill()
        else:
            os.kill(gateway.jvm_pid, signal.SIGKILL)
        killed.set()

    receiver.at(event, kill, after_answer=answered)
    with OutsideReader(gateway.home, table) as reader:
        job_id = _run_with_hook(
            gateway, receiver, _QUERIES[event].format(rows=ROWS), table, stops=event == "CANCELED"
        )
        assert killed.wait(120), receiver.events
        if victim == "gateway":
            gateway.start()
        _expect_whole_or_nothing(gateway, receiver, reader, table, job_id)


def _expect_whole_or_nothing(
    gateway: GatewayUnderTest, receiver: HookReceiver, reader: OutsideReader, table: str, job_id: str
) -> None:
    """Expect that a table is whole if its job has FINISHED and that there is none else,
    once its hooks are done.
    """
    gateway.wait_for_spark()
    wait_until(lambda: _hooks_done(gateway, job_id), "a hook is unfinished", 120)
    wait_until(lambda: reader.rows() is not None or not _files(gateway, table), "files are left", 120)

    status = str(gateway.sql(f"DESCRIBE JOB '{job_id}'")[0]["status"])
    assert receiver.of(job_id) == ["CREATED", status]
    assert reader.seen <= {ROWS}
    assert (reader.rows() is not None) == (status == "FINISHED")


@pytest.mark.kills
@pytest.mark.parametrize("round_", range(DEPTH))
def test_a_gateway_killed_around_the_commit_leaves_the_whole_table_or_nothing(
    gateway: GatewayUnderTest, round_: int
) -> None:
    table = f"around_{round_}"
    create = f"CREATE TABLE {table} AS SELECT id FROM range(0, {ROWS}, 1, 2)"
    with ThreadPoolExecutor(1) as pool:
        _begin(pool, gateway, {table: create})
        time.sleep(0.05 * (round_ % 10))
        gateway.kill()

    gateway.start()

    if gateway.sql(f"SHOW TABLES LIKE '{table}'"):
        assert gateway.sql(f"SELECT count(*) AS n FROM {table}") == [{"n": ROWS}]
    else:
        wait_until(lambda: not _files(gateway, table), "files are left", 120)


@pytest.mark.kills
@pytest.mark.parametrize("victim", ["jvm", "gateway"])
def test_a_table_of_a_stream_is_whole_or_nothing_over_kills_before_in_and_after_its_first_batch(
    gateway: GatewayUnderTest, victim: Victim
) -> None:
    flights, copies = f"flights_{victim}", f"copies_{victim}"
    gateway.sql(f"CREATE TABLE {flights} (number BIGINT)")
    with gateway.client() as client:
        rows_of(client, "SET 'execution.runtime-mode' = 'streaming'")
        [answer] = rows_of(client, f"CREATE TABLE {copies} AS SELECT * FROM {flights}")
    job_id = answer["job id"]

    with OutsideReader(gateway.home, copies) as reader:
        gateway.lose(victim)
        before = reader.rows()
        gateway.sql(f"INSERT INTO {flights} SELECT id FROM range(0, {ROWS}, 1, 2)")
        wait_until(
            lambda: any(each.endswith(".parquet") for each in _files(gateway, copies)), "nothing is written"
        )
        gateway.lose(victim)
        wait_until(lambda: reader.rows() is not None, "the table never came", 120)
        gateway.lose_spark()
        gateway.sql(f"INSERT INTO {flights} VALUES (-1)")
        wait_until(lambda: reader.rows() == ROWS + 1, "a row is missing", 120)
        seen = set(reader.seen)
    [counted] = gateway.sql(f"SELECT count(DISTINCT number) AS n FROM {copies}")
    with pytest.raises(
        GatewayError, match=rf"has created table lake.default.{copies}, which has {ROWS + 1} rows"
    ):
        gateway.sql(f"STOP JOB '{job_id}'")
    gateway.sql(f"STOP JOB '{job_id}' WITH DROP")

    assert (before, seen, counted["n"]) == (None, {ROWS, ROWS + 1}, ROWS + 1)
    assert gateway.sql(f"DESCRIBE JOB '{job_id}'")[0]["status"] == "CANCELED"
    assert (reader.rows(), _files(gateway, copies)) == (None, set())
    assert [path for path in paths_below(gateway.home) if path.name == job_id] == []


# What the job does until its event: at CREATED it must still be at work.
_QUERIES = {
    "CREATED": "SELECT id, java_method('java.lang.Thread', 'sleep', 3000L + id) AS x FROM range(0, 2, 1, 2)",
    "FINISHED": "SELECT id FROM range(0, {rows}, 1, 2)",
    "FAILED": "SELECT id, IF(id = 99000, raise_error('broken'), 'x') AS x FROM range(0, {rows}, 1, 2)",
    "CANCELED": WAITS,
}


def _run_with_hook(
    gateway: GatewayUnderTest, receiver: HookReceiver, query: str, table: str, *, stops: bool
) -> str:
    """Begin to create a table in a session with the webhook, and return the id of its job once
    the receiver knows it.
    """
    known = len(receiver.events)

    def work() -> None:
        with contextlib.suppress(GatewayError, OSError), gateway.client() as client:
            rows_of(client, "SET 'job.hooks' = 'webhook'")
            rows_of(client, f"SET 'job.hooks.webhook.url' = '{receiver.url}'")
            rows_of(client, f"CREATE TABLE {table} AS {query}")

    threading.Thread(target=work, daemon=True).start()
    wait_until(lambda: len(receiver.events) > known, "no event came", 120)
    job_id = receiver.events[known][1]
    if stops:
        wait_until(
            lambda: any(each.endswith(".parquet") for each in _files(gateway, table)), "nothing is written"
        )
        with contextlib.suppress(GatewayError, OSError):
            gateway.sql(f"STOP JOB '{job_id}'")
    return job_id


def _hooks_done(gateway: GatewayUnderTest, job_id: str) -> bool:
    [job] = gateway.sql(f"DESCRIBE JOB '{job_id}'")
    return job["status"] in ("FINISHED", "FAILED", "CANCELED") and "not done" not in job["hooks"]
