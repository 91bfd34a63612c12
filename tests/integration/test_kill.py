"""kill -9 of the gateway: no run is lost or published twice, no table is stuck, nothing half-made is left."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mt_core.client.http import GatewayClient, Refresh
from mt_core.errors import GatewayError
from mt_core.model.run import OPEN
from mt_core.model.table import RefreshStatus
from mt_core.registry.store import SqlRegistry
from tests.depth import DEPTH, dice, rounds
from tests.support.gateway.own_process import WAIT_S, GatewayUnderTest, launch, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]
ROUNDS = rounds(1, 3)
# What a user may be told while the gateway is killed and started again under him.
EXPECTED = re.compile(
    r"There is no gateway|did not answer|stopped answering|(suspended|resumed) already|is starting|"
    r"is not running"
)
# A run is on main after the last one. In CI a scheduled run is killed before that, below.
BEFORE = ("decide", "write", "staged", "publish: read", "publish: commit")
STEPS = [*(pytest.param(step, marks=pytest.mark.kills) for step in (*BEFORE, "end")), "published"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("kill") / "home") as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE source (n INT, region STRING)")
        gateway.sql("INSERT INTO source VALUES (0, 'north'), (0, 'south')")
        gateway.sql(_create("killed", "INTERVAL '1' DAY"))
        gateway.sql(_create("ticking", "INTERVAL '2' SECOND"))
        yield gateway


def _create(name: str, freshness: str) -> str:
    return (
        f"CREATE MATERIALIZED TABLE {name} FRESHNESS = {freshness} REFRESH_MODE = FULL "
        "AS SELECT region, count(*) AS n, max(n) AS latest FROM source GROUP BY region"
    )


def _request(key: str) -> Refresh:
    """Return the request of one test, which may be repeated."""
    return Refresh(identifier="lake.default.killed", request_key=key)


def _content(gateway: GatewayUnderTest, relation: str) -> list[tuple[str, int, int]]:
    rows = gateway.sql(f"SELECT region, n, latest FROM {relation}")
    return sorted((row["region"], row["n"], row["latest"]) for row in rows)


def _wanted(gateway: GatewayUnderTest) -> list[tuple[str, int, int]]:
    return _content(
        gateway, "(SELECT region, count(*) AS n, max(n) AS latest FROM source GROUP BY region) AS wanted"
    )


@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_at_any_step_is_published_exactly_once(gateway: GatewayUnderTest, step: str) -> None:
    gateway.sql("INSERT INTO source SELECT max(n) + 1, 'north' FROM source")
    gateway.die_before(step, table="killed")
    with contextlib.suppress(GatewayError), GatewayClient(gateway.url) as client:
        # The gateway may die before it has answered.
        client.refresh(_request(step))
    assert gateway.wait_death() == -9

    gateway.start()
    with GatewayClient(gateway.url) as client:
        handle = client.refresh(_request(step))
    run = gateway.wait_ended("killed", handle)

    assert (run["status"], run["attempt"], run["error"]) == ("SUCCEEDED", 2, None)
    assert run["snapshot"] is not None
    assert gateway.published("killed", handle) == 1
    assert gateway.refs("killed") == ["main"]
    assert _content(gateway, "killed") == _wanted(gateway)


def test_after_a_kill_the_schedule_goes_on_and_the_next_refresh_works(gateway: GatewayUnderTest) -> None:
    gateway.sql("INSERT INTO source SELECT max(n) + 1, 'north' FROM source")
    gateway.die_before("staged", table="ticking")
    assert gateway.wait_death() == -9

    gateway.start()
    before = len(gateway.runs("ticking"))
    wait_until(lambda: len(gateway.runs("ticking")) >= before + 2, "the schedule stands still")
    killed = [run for run in gateway.runs("ticking") if run["attempt"] > 1][-1]
    gateway.sql("INSERT INTO source SELECT max(n) + 1, 'south' FROM source")
    gateway.sql("ALTER MATERIALIZED TABLE ticking REFRESH")

    assert _content(gateway, "ticking") == _wanted(gateway)
    assert gateway.wait_ended("ticking", killed["refresh"])["status"] == "SUCCEEDED"
    assert gateway.published("ticking", killed["refresh"]) == 1
    ticks = [run for run in gateway.runs("ticking") if run["kind"] == "PERIODIC"]
    assert {run["status"] for run in ticks} <= {"SUCCEEDED", "SKIPPED", "COALESCED", "RUNNING", "QUEUED"}
    # A tick that was coalesced shows as a row of its own, and in the run that took it along.
    times = [run["schedule time"] for run in ticks if run["status"] != "COALESCED"]
    assert times == sorted(set(times))


@pytest.mark.kills
def test_a_run_killed_three_times_fails_and_the_table_stays_usable(gateway: GatewayUnderTest) -> None:
    gateway.sql("INSERT INTO source SELECT max(n) + 1, 'north' FROM source")
    before = _content(gateway, "killed")
    gateway.die_before("write", table="killed")
    with contextlib.suppress(GatewayError), GatewayClient(gateway.url) as client:
        client.refresh(_request("three times"))
    gateway.wait_death()
    for _ in range(2):
        gateway.die_before("write", table="killed")
        gateway.start()
        gateway.wait_death()

    gateway.start()
    run = gateway.wait_ended("killed", gateway.runs("killed")[-1]["refresh"])

    assert (run["status"], run["attempt"]) == ("FAILED", 4)
    assert run["error"] == "Refresh of lake.default.killed lost its process 3 times."
    assert gateway.refs("killed") == ["main"]
    assert _content(gateway, "killed") == before
    gateway.sql("ALTER MATERIALIZED TABLE killed REFRESH")
    assert _content(gateway, "killed") == _wanted(gateway)


@pytest.mark.timeout(900 * DEPTH)
def test_kills_at_random_times_leave_every_table_right_and_nothing_half_made(
    gateway: GatewayUnderTest,
) -> None:
    chance, user = dice(20130101), Workload(gateway)
    for number in range(ROUNDS):
        with user:
            user.wait_done(chance.randint(0, 12))
            time.sleep(chance.uniform(0.0, 1.0))
            gateway.kill()
        if number % 2 == 0:
            _kill_while_it_starts(gateway, chance.uniform(0.5, 6.0))
        gateway.start()

    assert user.surprises == []
    for name in [row["materialized table"] for row in gateway.sql("SHOW MATERIALIZED TABLES")]:
        gateway.sql(f"ALTER MATERIALIZED TABLE {name} REFRESH")
        assert _content(gateway, name) == _wanted(gateway), name
        assert _published_twice(gateway, name) == [], name
        status = [row["status"] for row in gateway.sql(f"SHOW MATERIALIZED TABLES LIKE '{name}'")]
        if status == ["ACTIVATED"]:
            gateway.sql(f"ALTER MATERIALIZED TABLE {name} SUSPEND")
    wait_until(lambda: not _open_runs(gateway), "a run never ended")
    assert gateway.stop() == 0
    _check_nothing_left(gateway.home)


class Workload:
    """A user who goes on declaring, refreshing and dropping in a thread while the block lasts."""

    def __init__(self, gateway: GatewayUnderTest) -> None:
        self._gateway = gateway
        self._made = 0
        self.done, self.surprises = 0, list[str]()

    def __enter__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="workload")
        self._thread.start()

    def __exit__(self, *_exc_info: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)

    def wait_done(self, statements: int) -> None:
        """Wait until so many more statements were carried out."""
        until = self.done + statements
        wait_until(lambda: self.done >= until, f"the user is stuck: {self.surprises}", 2 * WAIT_S)

    def _run(self) -> None:
        with self._gateway.client() as client:
            while not self._stop.is_set():
                self._made += 1
                for statement in self._statements(self._made):
                    self._try(client, statement)

    def _statements(self, number: int) -> list[str]:
        return [
            "INSERT INTO source SELECT max(n) + 1, 'south' FROM source",
            "ALTER MATERIALIZED TABLE killed REFRESH",
            _create(f"passing_{number}", "INTERVAL '3' SECOND"),
            f"DROP MATERIALIZED TABLE IF EXISTS passing_{number - 1}",
            "ALTER MATERIALIZED TABLE ticking SUSPEND",
            "ALTER MATERIALIZED TABLE ticking RESUME",
        ]

    def _try(self, client: GatewayClient, statement: str) -> None:
        if self._stop.is_set() or not self._gateway.running:
            return
        try:
            rows_of(client, statement)
            self.done += 1
        except GatewayError as error:
            if not EXPECTED.search(str(error)):
                self.surprises.append(f"{statement}: {error}")


def _kill_while_it_starts(gateway: GatewayUnderTest, after_s: float) -> None:
    process = launch(gateway.command, gateway.home / "stderr.txt")
    time.sleep(after_s)
    process.kill()
    process.wait(WAIT_S)
    assert process.stdout is not None
    process.stdout.close()


def _open_runs(gateway: GatewayUnderTest) -> bool:
    return any(row["status"] in ("QUEUED", "RUNNING") for row in gateway.sql("SHOW REFRESHES LIMIT 1000"))


def _published_twice(gateway: GatewayUnderTest, table: str) -> list[dict[str, object]]:
    return gateway.sql(
        f"SELECT s.summary['freshtable.run-id'] AS run, count(*) AS n FROM lake.default.{table}.history h "
        f"JOIN lake.default.{table}.snapshots s USING (snapshot_id) WHERE h.is_current_ancestor "
        # Commits that change no rows repeat the run.
        "AND s.operation <> 'replace' AND s.summary['freshtable.run-id'] IS NOT NULL "
        "GROUP BY 1 HAVING count(*) > 1"
    )


def _check_nothing_left(home: Path) -> None:
    """Compare registry, catalog and warehouse: each table is in all of them, and nothing else is."""
    registry = SqlRegistry.open(f"sqlite:///{home}/registry.db")
    with registry.transaction() as tx:
        tables, tombstones, runs = tx.tables.page(), tx.tombstones.all(), tx.runs.newest(statuses=OPEN)
    workflows = {definition.workflow_id for definition in registry.definitions.all()}
    registry.close()
    with sqlite3.connect(home / "catalog.db") as catalog:
        stored = dict(catalog.execute("SELECT table_name, metadata_location FROM iceberg_tables").fetchall())
    catalog.close()

    assert (list(tombstones), list(runs)) == ([], [])
    assert {table.status for table in tables} == {RefreshStatus.SUSPENDED}
    assert [table.intent for table in tables] == [None] * len(tables)
    assert workflows == {table.table_id for table in tables}
    assert stored.keys() == {table.identifier.name for table in tables} | {"source"}
    folders = {Path(urlsplit(location).path).parents[1] for location in stored.values()}
    assert set((home / "warehouse" / "default").iterdir()) == folders
