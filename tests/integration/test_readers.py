"""What readers see while tables are refreshed under them: always one whole generation,
and never an older one again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from mt_core.client.http import GatewayClient
from mt_core.errors import GatewayError
from tests.depth import DEPTH
from tests.integration.outside_reader import lake_outside
from tests.support.gateway.own_process import ROOT, WAIT_S, GatewayUnderTest, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
REGIONS, DAYS, ROWS_OF_A_DAY = ("north", "south"), 10, 50
ROWS = DAYS * ROWS_OF_A_DAY
TABLES = ("whole", "parts")
COUNTED = (
    "SELECT region, min(generation) AS low, max(generation) AS high, count(*) AS n FROM {} "
    "GROUP BY region ORDER BY 1"
)
# What an entry of /freshtable/v1/tables has at least.
LISTED = frozenset(
    {
        *("id", "name", "mode", "status", "state", "shows"),
        *("late_at", "late_by", "fault", "because", "last", "next"),
    }
)
# What a reader saw of one table at one time: (region, lowest and highest generation, rows) of each region;
# or an error.
Seen = list[tuple[str, int, int, int]] | str
Views = dict[str, list[Seen]]


@pytest.fixture(scope="module")
def gateway(clients_home: Path, clients_url: str) -> GatewayUnderTest:
    """The gateway of the clients, with tables of these tests."""
    gateway = GatewayUnderTest(clients_home)
    gateway.url = clients_url
    with gateway.client() as client:
        rows_of(client, "CREATE TABLE source (generation INT, region STRING, day STRING, k INT)")
        _next_generation(client, 1)
        query = "SELECT generation, region, day, k FROM source"
        declared = f"FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS {query}"
        rows_of(client, f"CREATE MATERIALIZED TABLE whole {declared}")
        rows_of(client, f"CREATE MATERIALIZED TABLE parts PARTITIONED BY (region, day) {declared}")
        rows_of(client, "CREATE TABLE numbers (k INT)")
        rows_of(client, "INSERT INTO numbers SELECT id FROM range(100)")
    return gateway


def _next_generation(client: GatewayClient, generation: int) -> None:
    """Replace all source rows by those of *generation*."""
    rows_of(
        client,
        f"INSERT OVERWRITE source SELECT {generation}, IF(id % 2 = 0, 'north', 'south'), "
        f"format_string('day %02d', id DIV 2 % {DAYS}), id DIV {2 * DAYS} FROM range({2 * ROWS})",
    )


# -------------------------------------------------------------------------------------------------- the tests


def test_readers_see_whole_generations_during_9_refreshes(gateway: GatewayUnderTest, tmp_path: Path) -> None:
    _watch_refreshes(gateway, tmp_path, generations=range(2, 5))


@pytest.mark.skipif(DEPTH == 1, reason="the 9 refreshes of `make test-slow` are the same ones, fewer")
@pytest.mark.timeout(1800 * DEPTH)
def test_readers_see_whole_generations_during_many_refreshes(
    gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    _watch_refreshes(gateway, tmp_path, generations=range(100, 100 + 34 * DEPTH))


def test_a_refresh_that_fails_half_way_leaves_the_old_rows_and_the_error_of_the_query(
    gateway: GatewayUnderTest,
) -> None:
    gateway.sql(
        "CREATE MATERIALIZED TABLE fragile FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "
        "SELECT k, IF(k < 0, raise_error(concat('row ', k, ' is bad')), k * 2) AS twice FROM numbers"
    )
    sums = "SELECT count(*) AS n, sum(twice) AS total FROM fragile"
    before = gateway.sql(sums)
    gateway.sql("INSERT INTO numbers VALUES (100), (-7), (101)")

    with pytest.raises(GatewayError, match="row -7 is bad"):
        gateway.sql("ALTER MATERIALIZED TABLE fragile REFRESH")

    run = gateway.runs("fragile")[-1]
    assert (run["status"], run["snapshot"], run["attempt"]) == ("FAILED", None, 1)
    assert "row -7 is bad" in run["error"]
    assert gateway.sql(sums) == before == [{"n": 100, "total": 9900}]
    assert gateway.refs("fragile") == ["main"]
    gateway.sql("DELETE FROM numbers WHERE k < 0")
    gateway.sql("ALTER MATERIALIZED TABLE fragile REFRESH")
    assert gateway.sql(sums) == [{"n": 102, "total": 10302}]
    assert gateway.runs("fragile")[-1]["status"] == "SUCCEEDED"


def test_a_reader_outside_finds_the_snapshots_of_the_sources_in_the_snapshot_of_a_table(
    gateway: GatewayUnderTest,
) -> None:
    gateway.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    gateway.sql("CREATE TABLE raw.paid (k INT)")
    gateway.sql("INSERT INTO raw.paid VALUES (1), (2)")
    gateway.sql("CREATE VIEW raw.all_paid AS SELECT k FROM raw.paid")
    gateway.sql(
        "CREATE MATERIALIZED TABLE paid FRESHNESS = INTERVAL '1' SECOND AS "
        "SELECT n.k, p.k AS paid FROM raw.all_paid p JOIN numbers n ON n.k = p.k"
    )
    catalog = lake_outside(gateway.home)
    first = _refresh_state(catalog, "default.paid")
    assert first == {name: _version(catalog, name) for name in ("raw.paid", "default.numbers")}

    gateway.sql("INSERT INTO raw.paid VALUES (3)")

    second = {**first, "raw.paid": _version(catalog, "raw.paid")}
    wait_until(lambda: _refresh_state(catalog, "default.paid") == second, "the batch is not published")
    assert second != first
    assert gateway.runs("paid")[-1]["strategy"] == "append"
    gateway.sql("DROP MATERIALIZED TABLE paid")


def _refresh_state(catalog: SqlCatalog, name: str) -> dict[str, tuple[str, int]]:
    """Return the UUID and the snapshot of each source that the refresh state of a table names."""
    snapshot = catalog.load_table(name).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    state, ours = (json.loads(snapshot.summary[key]) for key in ("refresh-state", "freshtable.refresh-state"))
    assert state["refresh-start-timestamp-ms"] <= snapshot.timestamp_ms
    assert ours == {"version": 1, "omitted": ["lake.raw.all_paid"]}
    return {
        ".".join([*each["namespace"], each["name"]]): (each["uuid"], each["snapshot-id"])
        for each in state["source-states"]
    }


def _version(catalog: SqlCatalog, name: str) -> tuple[str, int]:
    metadata = catalog.load_table(name).metadata
    assert metadata.current_snapshot_id is not None
    return str(metadata.table_uuid), metadata.current_snapshot_id


def test_each_table_is_listed_as_json_with_what_it_shows_and_when_it_is_late(
    gateway: GatewayUnderTest,
) -> None:
    began = datetime.now(UTC)
    gateway.sql("ALTER MATERIALIZED TABLE whole REFRESH")

    with gateway.client() as client:
        body = client.get("/freshtable/v1/tables", {"in": "lake.default"})

    names = {f"lake.default.{name}" for name in TABLES}
    late_at = {each["name"]: each["late_at"] for each in body["tables"] if each["name"] in names}
    assert late_at.keys() == names
    assert None not in late_at.values()
    assert all(each.keys() >= LISTED for each in body["tables"])
    table = next(each for each in body["tables"] if each["name"] == "lake.default.whole")
    instants = {name: datetime.fromisoformat(table[name]) for name in ("shows", "late_at", "next")}
    assert (table["name"], table["mode"], table["status"]) == ("lake.default.whole", "FULL", "ACTIVATED")
    assert (table["state"], table["late_by"], table["fault"], table["because"]) == ("OK", None, None, "")
    assert began <= instants["shows"] <= datetime.fromisoformat(body["as_of"]) < instants["next"]
    assert instants["next"] < instants["late_at"] <= instants["shows"] + timedelta(days=2)
    assert (table["last"]["status"], table["last"]["error"]) == ("SUCCEEDED", None)
    assert table["last"]["id"] == gateway.runs("whole")[-1]["refresh"]


# -------------------------------------------------------------------------------------- refreshes and readers


def _watch_refreshes(gateway: GatewayUnderTest, folder: Path, generations: range) -> None:
    """Make three refreshes for each generation while three readers look on, and check what they saw."""
    before = Counter({name: _published(gateway, name) for name in TABLES})
    with (
        _outside(gateway, folder) as outside,
        _inside(gateway, _counted) as counted,
        _inside(gateway, _raw) as raw,
        gateway.client() as client,
    ):
        for generation in generations:
            _next_generation(client, generation)
            rows_of(client, "ALTER MATERIALIZED TABLE whole REFRESH")
            rows_of(client, "ALTER MATERIALIZED TABLE parts REFRESH PARTITION (region = 'north')")
            # Of three generations, one reaches the second half of the partitions together with the first.
            scope = "" if generation % 3 == 0 else "PARTITION (region = 'south')"
            rows_of(client, f"ALTER MATERIALIZED TABLE parts REFRESH {scope}")

    n = len(generations)
    assert {name: _published(gateway, name) - before[name] for name in TABLES} == {"whole": n, "parts": 2 * n}
    for views in (outside(), counted, raw):
        for name in TABLES:
            _check(views[name], name)
            assert len({str(seen) for seen in views[name]}) > 2, f"a reader saw next to nothing of {name}"


def _published(gateway: GatewayUnderTest, name: str) -> int:
    return int(
        gateway.sql(f"SELECT count(*) AS n FROM lake.default.{name}.history WHERE is_current_ancestor")[0][
            "n"
        ]
    )


def _check(views: list[Seen], table: str) -> None:
    """Fail unless every view is complete, of one generation in each region, and none goes back."""
    newest = dict.fromkeys(REGIONS, 0)
    for seen in views:
        assert not isinstance(seen, str), f"{table} could not be read: {seen}"
        assert [(region, low, rows) for region, low, _high, rows in seen] == [
            (region, high, ROWS) for region, _low, high, _rows in seen
        ], f"{table} was seen partial or mixed: {seen}"
        assert [region for region, *_ in seen] == list(REGIONS), f"{table} was seen without a region: {seen}"
        for region, low, *_ in seen:
            assert low >= newest[region], f"{table} went back from generation {newest[region]}: {seen}"
            newest[region] = low
        if table == "whole":
            assert len({low for _region, low, *_ in seen}) == 1, f"{table} was seen mixed: {seen}"


def _counted(client: GatewayClient, table: str) -> Seen:
    """Let Spark count."""
    return [
        (row["region"], row["low"], row["high"], row["n"]) for row in rows_of(client, COUNTED.format(table))
    ]


def _raw(client: GatewayClient, table: str) -> Seen:
    """Fetch every row, page after page, and count here."""
    found: dict[str, list[int]] = {}
    for row in rows_of(client, f"SELECT region, generation FROM {table}"):
        found.setdefault(row["region"], []).append(row["generation"])
    return sorted((region, min(seen), max(seen), len(seen)) for region, seen in found.items())


@contextmanager
def _inside(gateway: GatewayUnderTest, read: Callable[[GatewayClient, str], Seen]) -> Iterator[Views]:
    """Read in a session of its own, in a thread, until the end of the block."""
    views: Views = {name: [] for name in TABLES}
    stop = threading.Event()

    def run() -> None:
        with gateway.client() as client:
            while not stop.is_set():
                for name in TABLES:
                    views[name].append(_tried(client, name))

    def _tried(client: GatewayClient, name: str) -> Seen:
        try:
            return read(client, name)
        except GatewayError as error:
            return str(error)

    thread = threading.Thread(target=run, name="reader")
    thread.start()
    try:
        yield views
    finally:
        stop.set()
        thread.join(WAIT_S)


@contextmanager
def _outside(gateway: GatewayUnderTest, folder: Path) -> Iterator[Callable[[], Views]]:
    """Read with PyIceberg in a process of its own until the end of the block;
    what is given returns what it saw.
    """
    out = folder / "seen.jsonl"
    command = [sys.executable, "-m", "tests.integration.outside_reader", str(gateway.home), str(out), *TABLES]

    def views() -> Views:
        found: Views = {name: [] for name in TABLES}
        for line in out.read_text(encoding="utf-8").splitlines():
            view = json.loads(line)
            seen = view["seen"]
            found[view["table"]].append(seen if isinstance(seen, str) else [tuple(row) for row in seen])
        return found

    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            wait_until(lambda: out.exists() and out.stat().st_size > 0, "the reader outside never read")
            yield views
        finally:
            process.terminate()
        assert process.wait(WAIT_S) == 0
