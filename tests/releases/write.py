"""Writes what the built wheels of a release leave on disk: `python -m tests.releases.write DIST VERSION`.

The gateway of the wheels runs in an environment of its own and performs the same statements twice, with its
registry in SQLite and in PostgreSQL. Its home folders are stored in the folder of the release, for the tests
that open them with later code.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import create_engine, text

from mt_core.base.protocol import Refresh
from mt_core.client.http import GatewayClient
from mt_core.registry.database import parse
from tests.postgres import find_binaries, temporary_postgres
from tests.releases.place import DUMP, HERE, REGISTRIES, archive, empty_home
from tests.support.gateway.own_process import FAST, Row, launch, ready_url, rows_of, wait_until

SETTINGS = ("table.local-time-zone=UTC",)
# No later gateway reads these.
PASSING = {
    "gateway.json",
    "gateway.lock",
    "gateway.sock",
    "logs",
    "results",
    "sessions",
    "spark-tmp",
    "token",
}
FUNCTION = "def score(n: int) -> int:\n    return n * 10\n"
TABLES = """
CREATE NAMESPACE lake.shop;

CREATE TABLE lake.shop.orders (ds STRING, city STRING, amount BIGINT) USING iceberg;
INSERT INTO lake.shop.orders VALUES
  ('2026-01-01', 'Rome', 10), ('2026-01-01', 'Oslo', 5), ('2026-01-02', 'Rome', 20);
CREATE MATERIALIZED TABLE lake.shop.daily PARTITIONED BY (ds) WITH ('refresh.strategy' = 'incremental')
  FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL
  AS SELECT ds, city, count(*) AS orders, sum(amount) AS revenue FROM lake.shop.orders GROUP BY ds, city;
INSERT INTO lake.shop.orders VALUES ('2026-01-02', 'Oslo', 7);

CREATE TABLE lake.shop.sales (ds STRING, amount BIGINT) USING iceberg;
INSERT INTO lake.shop.sales VALUES ('2026-01-01', 1), ('2026-01-02', 2);
CREATE MATERIALIZED TABLE lake.shop.days PARTITIONED BY (ds)
  WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd') FRESHNESS = INTERVAL '1' DAY
  AS SELECT ds, sum(amount) AS amount FROM lake.shop.sales GROUP BY ds;
INSERT INTO lake.shop.sales VALUES ('2026-01-02', 20);

CREATE TABLE lake.shop.visits (city STRING, n BIGINT) USING iceberg;
CREATE MATERIALIZED TABLE lake.shop.live WITH ('refresh.strategy' = 'incremental')
  FRESHNESS = INTERVAL '1' SECOND
  AS SELECT city, count(*) AS visits, sum(n) AS n FROM lake.shop.visits GROUP BY city;

CREATE FUNCTION score DETERMINISTIC AS 'scores.score' LANGUAGE PYTHON USING FILE '{function}';
CREATE TABLE lake.shop.games (player STRING, goals BIGINT) USING iceberg;
INSERT INTO lake.shop.games VALUES ('Ann', 1);
CREATE MATERIALIZED TABLE lake.shop.scores FRESHNESS = INTERVAL '1' DAY
  AS SELECT player, score(goals) AS score FROM lake.shop.games;

CREATE TABLE lake.shop.stock (item STRING) USING iceberg;
CREATE MATERIALIZED TABLE lake.shop.counted FRESHNESS = INTERVAL '1' DAY
  AS SELECT count(*) AS items FROM lake.shop.stock;
ALTER MATERIALIZED TABLE lake.shop.counted SUSPEND;
INSERT INTO lake.shop.stock VALUES ('pen'), ('ink');

CREATE CATALOG archive WITH ('type' = 'iceberg', 'catalog-type' = 'jdbc',
  'uri' = 'jdbc:sqlite:file:{home}/archive.db', 'jdbc.schema-version' = 'V1', 'warehouse' = '{home}/archive');
CREATE NAMESPACE archive.shop;
CREATE TABLE archive.shop.orders AS SELECT * FROM lake.shop.orders;
CREATE VIEW lake.shop.of_rome AS SELECT ds, amount FROM lake.shop.orders WHERE city = 'Rome';
CREATE TABLE lake.shop.numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '3');
"""
SOURCE = """
CREATE TABLE lake.shop.clicks (city STRING, n BIGINT) USING iceberg;
CREATE TABLE lake.shop.totals (city STRING, n BIGINT, PRIMARY KEY (city) NOT ENFORCED);
CREATE TABLE lake.shop.firsts (city STRING, n BIGINT) USING iceberg;
CREATE TABLE lake.shop.largest (city STRING, n BIGINT, PRIMARY KEY (city) NOT ENFORCED);
INSERT INTO lake.shop.clicks VALUES ('Rome', 1), ('Rome', 2);
"""
STREAMING = "SET 'execution.runtime-mode' = 'streaming'"
TOTALS = "INSERT INTO lake.shop.totals SELECT city, sum(n) FROM lake.shop.clicks GROUP BY city"
COPIES = "CREATE TABLE lake.shop.copies AS SELECT city, n FROM lake.shop.clicks WHERE n > 0"
FIRSTS = """
INSERT INTO lake.shop.firsts SELECT city, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY now()) AS rn FROM lake.shop.clicks) WHERE rn = 1
"""
LARGEST = "INSERT INTO lake.shop.largest SELECT city, max(n) FROM lake.shop.clicks GROUP BY city"


class Release:
    """An environment with the wheel of a release, and its gateway."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._bin, self._folder = folder / "environment" / "bin", folder
        # Nothing of the checkout can be imported.
        self._environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self._gateway = ""
        self._run([sys.executable, "-m", "venv", folder / "environment"])
        self._run([self._bin / "pip", "install", "--quiet", f"{wheel}[gateway,postgres]"])

    @contextmanager
    def gateway(self, home: Path, settings: Sequence[str]) -> Iterator[None]:
        """Run its gateway; it ends orderly."""
        options = [part for setting in (*FAST, *settings) for part in ("-D", setting)]
        command = [str(self._bin / "freshtable"), "gateway", "--home", str(home), *options]
        process = launch(command, self._folder / f"{home.name}.txt", self._environ)
        try:
            self._gateway = ready_url(process)
            yield
        finally:
            process.terminate()
            process.communicate(timeout=60)

    def sql(self, statements: str) -> list[Row]:
        """Perform statements in one session; return the rows of the last one."""
        with GatewayClient(self._gateway) as client:
            return [rows_of(client, each) for each in statements.split(";") if each.strip()][-1]

    def wait(self, query: str, *rows: tuple[object, ...]) -> None:
        """Wait until a query returns *rows*."""

        def returned() -> bool:
            return sorted(tuple(row.values()) for row in self.sql(query)) == sorted(rows)

        wait_until(returned, f"{query} never returned {rows}")

    def refresh_as_scheduled(self, table: str) -> None:
        """Request a refresh as a scheduler does, and wait for its end."""
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        with GatewayClient(self._gateway) as client:
            client.refresh(Refresh(identifier=table, is_periodic=True, schedule_time=now))
        query = f"SHOW REFRESHES FOR {table} WHERE status = 'SUCCEEDED'"
        wait_until(lambda: len(self.sql(query)) == 2, f"{table} was not refreshed")

    def _run(self, command: Sequence[str | Path]) -> str:
        ended = subprocess.run(command, cwd=self._folder, env=self._environ, capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(f"{command} failed:\n{ended.stdout}\n{ended.stderr}")
        return ended.stdout


def main(arguments: Sequence[str]) -> int:
    dist, version = Path(arguments[0]).resolve(), arguments[1]
    wheel, airflow_wheel = (
        dist / f"{package}-{version}-py3-none-any.whl" for package in ("freshtable", "freshtable_airflow")
    )
    # Fails if the release is stored: what users have cannot be written again.
    (HERE / version).mkdir()
    with tempfile.TemporaryDirectory() as folder:
        release = Release(Path(folder), wheel)
        for registry in REGISTRIES:
            write(release, version, registry)
    shutil.copy(airflow_wheel, HERE / version)
    return 0


def write(release: Release, version: str, registry: str) -> None:
    """Write a home by the statements of this module, and pack it."""
    with ExitStack() as stack:
        home, settings = stack.enter_context(empty_home(version, registry)), list(SETTINGS)
        server = stack.enter_context(temporary_postgres()) if registry == "postgres" else ""
        if server:
            settings.append(f"registry.url={server}")
        with release.gateway(home, settings):
            refreshes(release, home)
            streams(release, home)
        forget_machine(server or f"sqlite:///{home / 'registry.db'}")
        if server:
            (home / DUMP).write_text(dump(server), encoding="utf-8")
        pack(home, archive(version, registry))


def refreshes(release: Release, home: Path) -> None:
    """Tables of both refresh modes, with a history, and what they need."""
    with tempfile.TemporaryDirectory() as folder:
        function = Path(folder, "scores.py")
        function.write_text(FUNCTION, encoding="utf-8")
        release.sql(TABLES.format(function=function, home=home))
    release.refresh_as_scheduled("lake.shop.daily")
    release.refresh_as_scheduled("lake.shop.days")
    for number in (1, 2):
        release.sql(f"INSERT INTO lake.shop.visits VALUES ('Rome', {number})")
        release.wait("SELECT city, visits FROM lake.shop.live", ("Rome", number))


def streams(release: Release, home: Path) -> None:
    """Two jobs that still run at the end, one that was stopped with a savepoint, and a plan."""
    (home / "plans").mkdir()
    plan = (home / "plans" / "largest.json").as_uri()
    release.sql(SOURCE)
    for statement in (TOTALS, COPIES, f"COMPILE PLAN '{plan}' FOR {LARGEST}"):
        release.sql(f"{STREAMING}; {statement}")
    [job] = release.sql(f"{STREAMING}; {FIRSTS}")
    release.wait("SELECT * FROM lake.shop.firsts", ("Rome", 1))
    release.sql(f"STOP JOB '{job['job id']}' WITH SAVEPOINT")
    release.sql("INSERT INTO lake.shop.clicks VALUES ('Rome', 3), ('Oslo', 4)")
    release.wait("SELECT * FROM lake.shop.totals", ("Rome", 6), ("Oslo", 4))
    release.wait("SELECT count(*) FROM lake.shop.copies", (4,))


def forget_machine(url: str) -> None:
    """Replace what identifies this machine in the lease of the gateway that wrote the registry."""
    engine = create_engine(parse(url))
    with engine.begin() as connection:
        body = json.loads(connection.execute(text("SELECT body FROM gateways")).scalar_one())
        body |= {"host": "host", "machine": "00000000-0000-0000-0000-000000000000"}
        connection.execute(text("UPDATE gateways SET body = :body"), {"body": json.dumps(body)})
    engine.dispose()


def dump(url: str) -> str:
    """Return the statements that restore a database on any version of PostgreSQL."""
    binaries = find_binaries()
    assert binaries is not None
    command = [binaries / "pg_dump", "--inserts", "--no-owner", "--no-privileges", url]
    dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # Settings that only some versions have, and commands that only psql has.
    foreign = ("SET ", "\\", "--")
    return "".join(line for line in dumped.splitlines(keepends=True) if not line.startswith(foreign))


def pack(home: Path, archive: Path) -> None:
    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return None if entry.name.endswith((".crc", "-shm")) else entry

    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(home.iterdir()):
            if path.name not in PASSING:
                packed.add(path, path.name, filter=kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
