"""The code at hand opens what each release has written: its tables, ledgers, streams, savepoints, functions
and plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import psycopg
import pytest

from mt_core.base.protocol import Refresh
from tests.depth import DEPTH
from tests.postgres import fresh_database
from tests.releases.place import DUMP, REGISTRIES, home_of, versions
from tests.releases.write import FIRSTS, SETTINGS, STREAMING
from tests.support.gateway.own_process import GatewayUnderTest, Row, rows_of, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

DEEP = pytest.mark.skipif(
    DEPTH == 1, reason="CI has the homes with SQLite, and test_registry_migration.py with both registries"
)
HOMES = [
    pytest.param(
        (version, registry),
        id=f"{version}-{registry}",
        marks=[pytest.mark.postgres, DEEP] if registry == "postgres" else [],
    )
    for version in versions()
    for registry in REGISTRIES
]


class Opened(GatewayUnderTest):
    """A gateway of the code at hand on the home of a release."""

    def values(self, *statements: str) -> list[tuple[object, ...]]:
        """Return the rows of the last statement, performed in the session of the others."""
        with self.client() as client:
            rows = [rows_of(client, statement) for statement in statements][-1]
        return sorted(tuple(row.values()) for row in rows)

    def wait(self, query: str, *rows: tuple[object, ...]) -> None:
        wait_until(lambda: self.values(query) == sorted(rows), f"{query} never returned {rows}")

    def refreshed(self, table: str) -> list[Row]:
        """Request a refresh as a scheduler does; return the scheduled ones since the start that were
        not skipped.
        """
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        with self.client() as client:
            client.refresh(Refresh(identifier=table, is_periodic=True, schedule_time=now))

        def open_runs() -> list[Row]:
            return [run for run in self.runs(table) if run["status"] in ("QUEUED", "RUNNING")]

        wait_until(lambda: not open_runs(), f"a refresh of {table} never ended")
        done = [run for run in self.runs(table) if run["status"] == "SUCCEEDED" and run["kind"] == "PERIODIC"]
        return [run for run in done if run not in self.of_release(done)]

    def of_release(self, rows: list[Row], begin: str = "requested at") -> list[Row]:
        """Return those of the runs or jobs that the release has begun."""
        return [
            row
            for row in rows
            if datetime.fromisoformat(str(row[begin])).replace(tzinfo=UTC) < self.started_at
        ]

    def start(self) -> None:
        self.started_at = datetime.now(UTC).replace(microsecond=0)
        super().start()


@pytest.fixture(scope="module", params=HOMES)
def gateway(request: pytest.FixtureRequest) -> Iterator[Opened]:
    version, registry = request.param
    with ExitStack() as stack:
        home, settings = stack.enter_context(home_of(version, registry)), list(SETTINGS)
        if registry == "postgres":
            server = request.getfixturevalue("postgres_url")
            url = stack.enter_context(fresh_database(server, f"release_{version}"))
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute((home / DUMP).read_text(encoding="utf-8").encode())
            settings.append(f"registry.url={url}")
        opened = stack.enter_context(Opened(home, settings))
        opened.start()
        yield opened


def test_a_table_in_full_mode_shows_its_rows_and_the_next_refresh_applies_what_changed(
    gateway: Opened,
) -> None:
    written = gateway.values("SELECT ds, city, orders, revenue FROM lake.shop.daily")
    gateway.sql("INSERT INTO lake.shop.orders VALUES ('2026-01-02', 'Oslo', 1), ('2026-01-03', 'Bern', 2)")

    [run] = gateway.refreshed("lake.shop.daily")

    assert written == [
        ("2026-01-01", "Oslo", 1, 5),
        ("2026-01-01", "Rome", 1, 10),
        ("2026-01-02", "Oslo", 1, 7),
        ("2026-01-02", "Rome", 1, 20),
    ]
    assert run["strategy"] == "merge", run
    assert gateway.values("SELECT ds, city, orders, revenue FROM lake.shop.daily") == [
        *written[:2],
        ("2026-01-02", "Oslo", 2, 8),
        ("2026-01-02", "Rome", 1, 20),
        ("2026-01-03", "Bern", 1, 2),
    ]


def test_late_rows_of_a_partition_are_found_by_what_its_last_refresh_recorded(gateway: Opened) -> None:
    gateway.sql("INSERT INTO lake.shop.sales VALUES ('2026-01-01', 10)")

    runs = gateway.refreshed("lake.shop.days")

    reasons = " ".join(str(run["reason"]) for run in runs)
    # The release has found the other one late. Without a schedule time since then both are left for later.
    assert "ds=2026-01-01" in reasons, runs
    assert "ds=2026-01-02" in reasons, runs


def test_a_table_in_continuous_mode_goes_on_with_the_rows_that_arrive(gateway: Opened) -> None:
    written = gateway.values("SELECT city, visits, n FROM lake.shop.live")

    gateway.sql("INSERT INTO lake.shop.visits VALUES ('Rome', 4), ('Oslo', 5)")

    gateway.wait("SELECT city, visits, n FROM lake.shop.live", ("Rome", 3, 7), ("Oslo", 1, 5))
    assert written == [("Rome", 2, 3)]
    batches = [run for run in gateway.runs("lake.shop.live") if run["kind"] == "CONTINUOUS"]
    assert batches[-1]["strategy"] == "merge", batches[-1]


def test_a_stream_goes_on_from_its_checkpoint_and_replaces_rows_by_their_key(gateway: Opened) -> None:
    cities = "WHERE city IN ('Rome', 'Oslo', 'Bern')"

    gateway.sql("INSERT INTO lake.shop.clicks VALUES ('Oslo', 100), ('Bern', 1)")

    gateway.wait(f"SELECT city, n FROM lake.shop.totals {cities}", ("Rome", 6), ("Oslo", 104), ("Bern", 1))


def test_a_table_of_a_stream_goes_on_without_a_doubled_row(gateway: Opened) -> None:
    gateway.sql("INSERT INTO lake.shop.clicks VALUES ('Lima', 7)")

    wait_until(lambda: ("Lima", 7) in gateway.values("SELECT city, n FROM lake.shop.copies"), "no row came")
    assert gateway.values("SELECT city, n FROM lake.shop.copies WHERE city IN ('Rome', 'Lima')") == [
        ("Lima", 7),
        ("Rome", 1),
        ("Rome", 2),
        ("Rome", 3),
    ]


def test_a_job_begins_with_the_state_of_a_savepoint(gateway: Opened) -> None:
    [savepoint] = (gateway.home / "savepoints").iterdir()
    firsts = "SELECT city, n FROM lake.shop.firsts WHERE city IN ('Rome', 'Oslo', 'Kyiv')"

    gateway.values(STREAMING, f"SET 'execution.savepoint.path' = '{savepoint}'", FIRSTS)
    gateway.sql("INSERT INTO lake.shop.clicks VALUES ('Rome', 0), ('Kyiv', 5)")

    # Rome is known by the state, and Oslo came after the savepoint.
    gateway.wait(firsts, ("Rome", 1), ("Oslo", 4), ("Kyiv", 5))


def test_a_compiled_plan_is_executed(gateway: Opened) -> None:
    plan = (gateway.home / "plans" / "largest.json").as_uri()

    explained = gateway.values(f"EXPLAIN PLAN '{plan}'")
    gateway.values(STREAMING, f"EXECUTE PLAN '{plan}'")

    assert "the plan can be executed" in str(explained)
    gateway.wait("SELECT n FROM lake.shop.largest WHERE city = 'Rome'", (3,))


def test_a_function_in_python_is_called_by_statements_and_refreshes(gateway: Opened) -> None:
    unchanged = gateway.refreshed("lake.shop.scores")
    gateway.sql("INSERT INTO lake.shop.games VALUES ('Bob', 3)")

    gateway.refreshed("lake.shop.scores")

    assert unchanged == []
    assert gateway.values("SELECT score(2)") == [(20,)]
    assert gateway.values("SELECT player, score FROM lake.shop.scores") == [("Ann", 10), ("Bob", 30)]


def test_a_suspended_table_resumes_with_what_it_has_missed(gateway: Opened) -> None:
    def status() -> object:
        shown = gateway.sql("SHOW MATERIALIZED TABLES IN lake.shop LIKE 'counted'")
        return shown[0]["status"]

    suspended, written = status(), gateway.values("SELECT items FROM lake.shop.counted")

    gateway.sql("ALTER MATERIALIZED TABLE lake.shop.counted RESUME")
    gateway.refreshed("lake.shop.counted")

    assert (suspended, written) == ("SUSPENDED", [(0,)])
    assert (status(), gateway.values("SELECT items FROM lake.shop.counted")) == ("ACTIVATED", [(2,)])


def test_catalogs_views_and_tables_with_a_connector_are_there(gateway: Opened) -> None:
    assert gateway.values("SELECT count(*) FROM archive.shop.orders") == [(4,)]
    assert gateway.values("SELECT ds, amount FROM lake.shop.of_rome") == [
        ("2026-01-01", 10),
        ("2026-01-02", 20),
    ]
    assert gateway.values("SELECT n FROM lake.shop.numbers") == [(1,), (2,), (3,)]


def test_the_ledger_and_the_jobs_that_still_run_are_shown(gateway: Opened) -> None:
    runs = gateway.of_release(gateway.runs("lake.shop.daily"))
    described = {row["name"]: row["type"] for row in gateway.sql("DESCRIBE EXTENDED lake.shop.daily")}

    def running() -> list[str]:
        jobs = gateway.of_release(gateway.sql("SHOW JOBS"), begin="start time")
        return sorted(str(job["kind"]) for job in jobs if job["status"] == "RUNNING")

    assert [(run["kind"], run["status"], run["strategy"]) for run in runs] == [
        ("INITIAL", "SUCCEEDED", "recompute"),
        ("PERIODIC", "SUCCEEDED", "merge"),
    ]
    assert all(run["started at"] <= run["finished at"] for run in runs), runs
    assert described["status"].startswith("ACTIVATED")
    kinds = ["CONTINUOUS REFRESH", "CREATE TABLE AS", "INSERT"]
    wait_until(lambda: running() == kinds, f"not all jobs run again, only {running()}")
