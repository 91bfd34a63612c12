"""Tables of queries in Spark: whole or nothing, and no file of what failed."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from mt_core.clock import SystemClock
from mt_core.errors import Canceled, DefinitionInvalid, EngineUnavailable, MtError, QueryFailed
from mt_core.jobs.store import JobStore
from mt_core.model.job import JobStatus
from mt_core.model.reservation import Atomicity
from mt_core.sessions.ports import SessionContext
from mt_core.sessions.statements.table_creations import TableCreationHook, TableCreations
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements
from tests.depth import DEPTH
from tests.iceberg_server import IcebergServer
from tests.integration.rest_catalog import WAREHOUSE, rest_catalog
from tests.support.listing import paths_below
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import a_job

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
CONTEXT = SessionContext(session_id="tables-of-queries", properties={})
# Two tasks: the first writes its rows, the second fails or waits.
FAILS = (
    "SELECT id, raise_error('broken') AS x FROM range(0, 2, 1, 2) WHERE id = 1 UNION ALL "
    "SELECT id, 'x' FROM range(9)"
)
WAITS = (
    "SELECT id, IF(id = 1, java_method('java.lang.Thread', 'sleep', 600000L + id), 'x') AS x "
    "FROM range(0, 2, 1, 2)"
)
SLEEPS = WAITS.replace("600000L", "8000L")
_jobs = itertools.count(1)


class World:
    """An engine with its tables of queries, and the files below its warehouse."""

    def __init__(self, driver: SparkDriver) -> None:
        self.driver, self.warehouse = driver, Path(driver.settings.warehouse)
        settings = {
            "spark.sql.catalog.folders": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.folders.type": "hadoop",
            "spark.sql.catalog.folders.warehouse": f"{self.warehouse}/folders",
        }
        stored = {
            "spark.sql.catalog.stored": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.stored.type": "jdbc",
            "spark.sql.catalog.stored.uri": f"jdbc:sqlite:{self.warehouse}.stored.db",
            "spark.sql.catalog.stored.jdbc.schema-version": "V1",
            "spark.sql.catalog.stored.warehouse": f"{self.warehouse}.stored",
            "spark.sql.catalog.stored.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        }
        accounts = {
            "spark.sql.catalog.accounts": (
                "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
            ),
            "spark.sql.catalog.accounts.url": f"jdbc:sqlite:{self.warehouse}.accounts.db",
            "spark.sql.catalog.accounts.driver": "org.sqlite.JDBC",
        }
        self.catalogs = {"folders": settings, "stored": stored, "accounts": accounts}
        self.engine = SparkStatements(SparkContexts(driver, lambda: self.catalogs))
        clock = SystemClock()
        self.store = JobStore(MemoryRegistry(clock), owner="test", clock=clock)
        self.creations = TableCreations(self.engine, self.store, engine_timeout_s=120)
        self.store.hooks.provide(TableCreationHook(self.creations))

    def create(self, sql: str, job_id: str = "") -> None:
        job_id = job_id or self.job()
        self.store.begin(a_job(job_id))
        self.creations.run(CONTEXT, sql, job_id)

    def job(self) -> str:
        return f"creation-{next(_jobs)}"

    def rows(self, sql: str) -> list[list[object]]:
        rows = self.engine.execute(CONTEXT, sql, job_id=self.job()).rows
        return [] if rows is None else rows.page(0, 1000)

    def files(self) -> set[str]:
        """Return all files and folders below the warehouse."""
        return {str(path.relative_to(self.warehouse)) for path in paths_below(self.warehouse)}

    def exists(self, table: str) -> bool:
        return table.split(".")[-1] in self.engine.relations(CONTEXT, table.split(".")[:-1])


@pytest.fixture
def world(spark_driver: SparkDriver) -> Iterator[World]:
    world = World(spark_driver)
    for sql in (
        "CREATE NAMESPACE IF NOT EXISTS lake.made",
        "CREATE NAMESPACE IF NOT EXISTS folders.made",
        "CREATE TABLE IF NOT EXISTS lake.made.anchor (a INT)",
    ):
        world.rows(sql)
    yield world
    for table in ("lake.made.t", "folders.made.t", "spark_catalog.default.t"):
        world.rows(f"DROP TABLE IF EXISTS {table}")
    world.engine.close_session(CONTEXT.session_id)
    # Other modules share the driver's own session, in which tables are created and discarded.
    for key in spark_driver.session.conf.getAll:
        if key.startswith(tuple(f"spark.sql.catalog.{name}" for name in (*world.catalogs, "served"))):
            spark_driver.session.conf.unset(key)


@pytest.mark.parametrize("connector", [False, True])
def test_a_table_of_a_query_is_created_in_sqlite(world: World, connector: bool) -> None:
    accounts = f"{world.warehouse}.accounts.db"
    table = "spark_catalog.default.t" if connector else "accounts.t"
    options = (
        f"USING jdbc OPTIONS (url 'jdbc:sqlite:{accounts}', dbtable 't', driver 'org.sqlite.JDBC') "
        if connector
        else ""
    )

    world.create(f"CREATE TABLE {table} {options}AS SELECT 1 AS id, 'Rome' AS city")

    with closing(sqlite3.connect(accounts)) as database:
        rows = database.execute("SELECT * FROM t").fetchall()
        database.execute("DROP TABLE t")
    assert rows == [(1, "Rome")]


SINKS = [
    *([pytest.param("CREATE TABLE lake.made.t", id="iceberg", marks=pytest.mark.slow)] if DEPTH > 1 else []),
    pytest.param("CREATE TABLE lake.fresh_namespace.t", id="iceberg in a namespace without a folder"),
    pytest.param("CREATE TABLE folders.made.t", id="iceberg in a catalog of folders", marks=pytest.mark.slow),
    pytest.param("CREATE TABLE spark_catalog.default.t USING parquet", id="parquet", marks=pytest.mark.slow),
    pytest.param(
        "CREATE TABLE spark_catalog.default.t USING csv LOCATION '{tmp}/new/t'",
        id="csv in a folder of its own",
        marks=pytest.mark.slow,
    ),
]


def test_a_table_that_iceberg_could_not_read_or_fill_is_refused(world: World) -> None:
    before = world.files()

    with pytest.raises(
        DefinitionInvalid, match=r"Column _file of lake\.made\.named has the name of a metadata column"
    ):
        world.create("CREATE TABLE lake.made.named USING iceberg AS SELECT 1 AS _file")
    with pytest.raises(DefinitionInvalid, match=r"Column 2 of lake\.made\.named has an empty name"):
        world.create("CREATE OR REPLACE TABLE lake.made.named USING iceberg AS SELECT 1 AS a, 2 AS ``")

    assert world.files() == before
    assert not world.exists("lake.made.named")


@pytest.mark.parametrize("sink", SINKS)
def test_a_query_that_fails_or_is_cancelled_leaves_no_table_and_no_file(
    world: World, sink: str, tmp_path: Path
) -> None:
    world.rows("CREATE NAMESPACE IF NOT EXISTS lake.fresh_namespace")
    sink, before = sink.format(tmp=tmp_path), world.files()

    with pytest.raises(QueryFailed, match="broken"):
        world.create(f"{sink} AS {FAILS}")
    with pytest.raises(QueryFailed, match="nowhere"):
        world.create(f"{sink} AS SELECT * FROM nowhere")
    _cancel(world, f"{sink} AS {WAITS}")

    assert world.files() == before
    assert list(tmp_path.iterdir()) == []
    assert not world.exists(sink.split()[2])


@pytest.mark.slow
def test_a_replacement_that_fails_leaves_the_old_table_and_no_file(world: World) -> None:
    world.create("CREATE TABLE lake.made.t AS SELECT 1 AS a")
    before = world.files()

    with pytest.raises(QueryFailed, match="broken"):
        world.create(f"REPLACE TABLE lake.made.t AS {FAILS}")
    _cancel(world, f"CREATE OR REPLACE TABLE lake.made.t AS {WAITS}")

    assert world.rows("SELECT * FROM lake.made.t") == [[1]]
    assert world.files() == before


def test_readers_see_the_old_table_until_the_new_one_is_whole(world: World) -> None:
    world.create("CREATE TABLE lake.made.t AS SELECT 1 AS a")

    world.create("REPLACE TABLE lake.made.t PARTITIONED BY (b) AS SELECT 2 AS a, 'x' AS b")

    assert world.rows("SELECT * FROM lake.made.t") == [[2, "x"]]
    assert len(world.rows("SELECT * FROM lake.made.t.snapshots")) == 2


def test_a_job_that_is_settled_after_its_table_was_replaced_loses_no_file_of_the_history(
    world: World,
) -> None:
    created, job_id = "CREATE TABLE lake.made.t AS SELECT 1 AS a", world.job()
    reservation = world.engine.reserve(CONTEXT, created, job_id=job_id)
    assert reservation is not None
    world.create(created, job_id)
    world.create("REPLACE TABLE lake.made.t AS SELECT 2 AS a")
    before = world.files()

    assert world.engine.settle(reservation)

    assert world.files() == before


def test_a_job_that_is_settled_after_its_table_was_renamed_loses_no_file(world: World) -> None:
    created, job_id = "CREATE TABLE lake.made.t AS SELECT 1 AS a", world.job()
    reservation = world.engine.reserve(CONTEXT, created, job_id=job_id)
    assert reservation is not None
    world.create(created, job_id)
    world.rows("ALTER TABLE lake.made.t RENAME TO made.renamed")

    assert world.engine.settle(reservation)

    assert world.rows("SELECT * FROM lake.made.renamed") == [[1]]
    world.rows("DROP TABLE lake.made.renamed")


def test_a_folder_with_files_of_others_is_left_alone(world: World, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("1\n")

    with pytest.raises(MtError):
        world.create(f"CREATE TABLE spark_catalog.default.t USING csv LOCATION '{tmp_path}' AS {FAILS}")

    assert mine.read_text() == "1\n"


def test_files_of_others_below_a_location_of_a_store_are_left_alone(world: World, tmp_path: Path) -> None:
    world.rows("CREATE NAMESPACE IF NOT EXISTS stored.made")
    mine = tmp_path / "mine.csv"
    mine.write_text("1\n")

    with pytest.raises(QueryFailed, match="broken"):
        world.create(f"CREATE TABLE stored.made.t USING iceberg LOCATION '{tmp_path}' AS {FAILS}")

    assert mine.read_text() == "1\n"
    assert not world.exists("stored.made.t")


@pytest.mark.slow
def test_a_commit_that_the_catalog_refuses_leaves_nothing_once_it_answers_again(world: World) -> None:
    world.rows("CREATE NAMESPACE IF NOT EXISTS stored.made")
    job_id, folder = world.job(), Path(f"{world.warehouse}.stored")
    with ThreadPoolExecutor(1) as pool, closing(sqlite3.connect(f"{world.warehouse}.stored.db")) as catalog:
        work = pool.submit(world.create, f"CREATE TABLE stored.made.t AS {SLEEPS}", job_id)
        _await_tasks(world, job_id)
        catalog.execute("BEGIN EXCLUSIVE")
        error = work.exception(300)
        catalog.rollback()
    assert isinstance(error, MtError)
    assert [*folder.rglob("*.parquet")] != []

    world.store.end(job_id, JobStatus.FAILED, rows_written=None, error=str(error))
    world.store.calls.call_due()

    assert [*folder.rglob("*.parquet")] == []
    assert not world.exists("stored.made.t")


def test_explain_says_what_readers_see(world: World) -> None:
    plans = [
        world.engine.explain(CONTEXT, f"CREATE TABLE {table} AS SELECT 1 AS a", "simple")
        for table in (
            "lake.made.t",
            "spark_catalog.default.t USING json",
            "accounts.made.t",
            (
                "spark_catalog.default.t "
                f"USING jdbc OPTIONS (url 'jdbc:sqlite:{world.warehouse}.accounts.db', dbtable 't')"
            ),
        )
    ]

    assert "level 3, atomic: readers see the whole table" in plans[0]
    assert "level 2, cleaned up: the table appears when it is complete" in plans[1]
    assert "level 2, cleaned up: the table appears at once and grows" in plans[2]
    assert "level 1, none: rows are visible as they are written" in plans[3]
    assert not world.exists("lake.made.t")


def test_nothing_is_created_in_a_namespace_that_is_not_there(world: World) -> None:
    before = world.rows("SHOW NAMESPACES IN lake"), world.files()

    refusals = []
    for table, rest in (
        ("lake.nowhere.t", "AS SELECT 1 AS a"),
        ("stored.nowhere.t", "USING iceberg AS SELECT 1 AS a"),
        ("lake.nowhere.t", "(a INT)"),
    ):
        with pytest.raises(DefinitionInvalid) as refused:
            world.create(f"CREATE TABLE {table} {rest}")
        refusals.append(refused.value.message)
    with pytest.raises(DefinitionInvalid, match="There is no namespace"):
        world.rows("CREATE VIEW lake.nowhere.v AS SELECT 1 AS a")

    assert (
        refusals[0]
        == refusals[2]
        == "There is no namespace lake.nowhere; create it first: CREATE DATABASE lake.nowhere."
    )
    assert (
        refusals[1]
        == "There is no namespace stored.nowhere; create it first: CREATE DATABASE stored.nowhere."
    )
    assert (world.rows("SHOW NAMESPACES IN lake"), world.files()) == before


def test_a_script_creates_its_namespace_itself(world: World) -> None:
    world.rows("BEGIN CREATE NAMESPACE lake.scripted; CREATE TABLE lake.scripted.t (a INT); END")

    assert world.exists("lake.scripted.t")
    world.rows("DROP TABLE lake.scripted.t")


@pytest.mark.slow
def test_a_table_in_a_catalog_of_folders_is_created_and_replaced(world: World) -> None:
    world.create("CREATE TABLE folders.made.t AS SELECT 1 AS a")

    with pytest.raises(QueryFailed, match="broken"):
        world.create(f"REPLACE TABLE folders.made.t AS {FAILS}")
    assert world.rows("SELECT * FROM folders.made.t") == [[1]]
    world.create("CREATE OR REPLACE TABLE folders.made.t AS SELECT 2 AS b")

    assert world.rows("SELECT * FROM folders.made.t") == [[2]]


@pytest.mark.slow
def test_a_jvm_that_is_killed_leaves_no_table_and_no_file(world: World) -> None:
    before = world.files()
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(world.create, f"CREATE TABLE lake.made.t AS {WAITS}", job_id := world.job())
        _await_tasks(world, job_id)
        pid = world.driver.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        assert isinstance(work.exception(), EngineUnavailable)

    assert world.files() == before
    assert not world.exists("lake.made.t")


def _cancel(world: World, sql: str) -> None:
    """Cancel a statement when one of its tasks is done and the other waits."""
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(world.create, sql, job_id := world.job())
        _await_tasks(world, job_id)
        world.engine.cancel(job_id)

        assert isinstance(work.exception(), Canceled)


def _await_tasks(world: World, job_id: str) -> None:
    pause = threading.Event()
    for _ in range(600):
        progress = world.engine.progress(job_id)
        if progress is not None and progress.done:
            return
        pause.wait(0.1)
    pytest.fail("no task of the statement has ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The options of a REST catalog, and the folder with the files of its tables."""

    options: Mapping[str, str]
    folder: Path

    def files(self) -> set[str]:
        found = (path for path in paths_below(self.folder) if path.is_file())
        return {str(path) for path in found if "catalog.db" not in path.name}


DEEP = pytest.mark.skipif(DEPTH == 1, reason="CI has each of both tests on one of the servers")
SERVERS = ("pyiceberg", "iceberg")


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    if request.param == "iceberg":
        started: IcebergServer = request.getfixturevalue("rest_server")
        yield Server(options=started.rest_options, folder=started.warehouse)
        return
    with rest_catalog(tmp_path / "server") as uri:
        options = {"type": "rest", "uri": uri, "warehouse": WAREHOUSE}
        yield Server(options=options, folder=tmp_path / "server")


@pytest.fixture
def served(world: World, server: Server) -> Iterator[World]:
    """A world with the catalog `served` of a server, and a namespace there."""
    before, prefix = world.catalogs, "spark.sql.catalog.served"
    options = {f"{prefix}.{key}": value for key, value in server.options.items()}
    plugin = {prefix: "org.apache.iceberg.spark.SparkCatalog", f"{prefix}.cache-enabled": "false"}
    world.catalogs = {**before, "served": plugin | options}
    world.rows("CREATE NAMESPACE IF NOT EXISTS served.made")
    yield world
    world.catalogs = before
    world.rows("SELECT 1")


@pytest.mark.slow
@pytest.mark.parametrize("server", [SERVERS[0], pytest.param(SERVERS[1], marks=DEEP)], indirect=True)
def test_a_server_of_a_rest_catalog_chooses_the_folders_of_tables_of_queries(
    served: World, server: Server
) -> None:
    served.create("CREATE TABLE served.made.t AS SELECT 1 AS a")
    with pytest.raises(QueryFailed, match="broken"):
        served.create(f"CREATE TABLE served.made.broken AS {FAILS}")
    served.create("REPLACE TABLE served.made.t AS SELECT 2 AS a")
    with pytest.raises(QueryFailed, match="broken"):
        served.create(f"CREATE OR REPLACE TABLE served.made.t AS {FAILS}")

    assert served.rows("SELECT * FROM served.made.t") == [[2]]
    assert not served.exists("served.made.broken")
    (location,) = [row[1] for row in served.rows("DESCRIBE EXTENDED served.made.t") if row[0] == "Location"]
    reservation = served.engine.reserve(
        CONTEXT, "CREATE TABLE served.made.u AS SELECT 1 AS a", job_id=served.job()
    )
    assert Path(str(location).removeprefix("file:")).is_relative_to(server.folder)
    assert reservation is not None
    assert (reservation.atomicity, reservation.folder) == (Atomicity.ATOMIC, None)


@pytest.mark.slow
@pytest.mark.parametrize("server", [pytest.param(SERVERS[0], marks=DEEP), SERVERS[1]], indirect=True)
def test_a_table_of_a_query_that_ends_early_leaves_no_file_with_its_server(
    served: World, server: Server
) -> None:
    served.create("CREATE TABLE served.made.old AS SELECT 1 AS id, 'x' AS x")
    before = server.files()

    for statement in ("CREATE TABLE served.made.early", "REPLACE TABLE served.made.old"):
        _cancel(served, f"{statement} AS {WAITS}")

    assert server.files() == before
    assert not served.exists("served.made.early")
    assert served.rows("SELECT * FROM served.made.old") == [[1, "x"]]
    served.create("CREATE TABLE served.made.early PARTITIONED BY (bucket(2, id)) AS SELECT id FROM range(9)")
    assert served.rows("SELECT count(*) FROM served.made.early") == [[9]]
