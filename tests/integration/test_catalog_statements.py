from __future__ import annotations

import itertools
import zipfile
from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mt_core.base.identifiers import quote
from mt_core.base.rowset import RowSet
from mt_core.errors import DefinitionInvalid, QueryFailed
from mt_core.jobs.store import JobStore
from mt_core.sessions.catalog.catalog_commands import CatalogCommands
from mt_core.sessions.catalog.catalog_statements import CatalogStatements
from mt_core.sessions.catalog.connector_table_statements import ConnectorTableStatements
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.catalog.function_commands import FunctionCommands
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.session import Session
from mt_core.sessions.statements.handlers import one_table
from mt_core.sessions.statements.listings import CatalogRequest
from mt_core.sessions.statements.translation import in_spark
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import catalog_names
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.refresh.engine import spark_engine
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.sql.parser import ReadStatement, parse
from mt_core.sql.statements import DescribeTable
from mt_core.tables.engine import Query
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_commands import FakeRuns
from tests.support.memory_registry import MemoryRegistry
from tests.support.started_jobs import started_jobs

pytestmark = pytest.mark.spark

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = itertools.count()


class Client:
    """A session whose statements go to Spark by way of the catalog statements."""

    def __init__(self, driver: SparkDriver) -> None:
        clock = FakeClock(NOW)
        self.catalogs = CreatedCatalogs(MemoryRegistry(clock), reserved=catalog_names(driver.settings))
        contexts = SparkContexts(driver, self.catalogs.settings)
        self.engine, self.refreshes = SparkStatements(contexts), spark_engine(contexts)
        jobs = Jobs(clock, FakeRuns(clock), JobStore(MemoryRegistry(clock), owner="test", clock=clock))
        tables = ConnectorTableStatements(engine=self.engine, tables=ConnectorTables(MemoryRegistry(clock)))
        functions = FunctionCommands(self.engine, CreatedFunctions(MemoryRegistry(clock)))
        catalogs = CatalogStatements(self.engine, jobs, tables, functions)
        self.answers = one_table(
            {DescribeTable: catalogs.describe},
            catalogs.answers,
            CatalogCommands(self.engine, self.catalogs).answers,
            functions.answers,
        )
        handle = f"catalogs-{next(_numbers)}"
        self.session = Session(handle, name=None, defaults={}, properties={}, opened_at=NOW)

    def other(self) -> Client:
        """Return another session of the same gateway."""
        twin = copy(self)
        handle = f"catalogs-{next(_numbers)}"
        twin.session = Session(handle, name=None, defaults={}, properties={}, opened_at=NOW)
        return twin

    @property
    def asking(self) -> CatalogRequest:
        return CatalogRequest(
            session=self.session, context=self.session.context(), job_id=f"catalog-job-{next(_numbers)}"
        )

    def run(self, sql: str) -> list[list[Any]]:
        statement, asking = parse(sql), self.asking
        if type(statement) in self.answers:
            return self.answers[type(statement)](statement, asking).rows.page(0, 1000)
        first, *others = in_spark(ReadStatement(sql), self.engine, asking.context)
        rows = self.engine.execute(asking.context, first, job_id=asking.job_id).rows or RowSet(
            columns=(), rows=[]
        )
        for text in others:
            self.engine.execute(asking.context, text, job_id=asking.job_id)
        return rows.page(0, 1000)

    def names(self, sql: str) -> list[Any]:
        return [row[0] for row in self.run(sql)]


@pytest.fixture
def client(spark_driver: SparkDriver) -> Iterator[Client]:
    client = Client(spark_driver)
    yield client
    client.other().run("DROP CATALOG IF EXISTS c")
    # The session that refreshes of other tests share forgets it as well.
    client.refreshes.sources.read_vector(Query(text="SELECT 1", catalog="lake", namespace=("default",)))


def test_what_is_there_is_shown_without_a_spark_job(client: Client, spark_driver: SparkDriver) -> None:
    for sql in (
        "CREATE NAMESPACE lake.tour",
        "USE lake.tour",
        "CREATE TABLE parted (a INT NOT NULL, ds STRING COMMENT 'day', h INT) PARTITIONED BY (ds, h)",
        "CREATE TABLE plain (d DECIMAL(10, 2))",
        "CREATE VIEW permanent AS SELECT 1 AS a",
        "CREATE TEMPORARY VIEW passing AS SELECT 1 AS a",
    ):
        client.run(sql)
    jobs = started_jobs(spark_driver.session)

    lists = {
        sql: client.names(sql)
        for sql in (
            "SHOW CATALOGS",
            "SHOW CURRENT CATALOG",
            "SHOW CURRENT DATABASE",
            "SHOW TABLES",
            "SHOW TABLES IN lake.tour NOT LIKE 'p%n%'",
            "SHOW VIEWS",
            "SHOW USER FUNCTIONS",
        )
    }
    described = client.run("DESCRIBE parted"), client.run("SHOW COLUMNS IN plain")
    databases, extended = client.names("SHOW DATABASES IN lake"), client.names("DESCRIBE EXTENDED parted")
    shown = client.run("SHOW CREATE TABLE plain")[0][0], client.run("DESCRIBE DATABASE lake.tour")
    plan = client.run("EXPLAIN JSON_EXECUTION_PLAN SELECT * FROM parted")[0][0]

    assert started_jobs(spark_driver.session) == jobs
    assert lists == {
        "SHOW CATALOGS": ["lake", "spark_catalog"],
        "SHOW CURRENT CATALOG": ["lake"],
        "SHOW CURRENT DATABASE": ["tour"],
        "SHOW TABLES": ["parted", "passing", "permanent", "plain"],
        "SHOW TABLES IN lake.tour NOT LIKE 'p%n%'": ["parted"],
        "SHOW VIEWS": ["passing", "permanent"],
        "SHOW USER FUNCTIONS": [],
    }
    assert described == (
        [
            ["a", "INT", False, None, None, None, None],
            ["ds", "STRING", True, None, None, None, "day"],
            ["h", "INT", True, None, None, None, None],
        ],
        [["d", "DECIMAL(10, 2)", True, None, None, None]],
    )
    assert "tour" in databases
    assert {"# Partition Information", "# Detailed Table Information"} <= set(extended)
    assert shown[0].startswith("CREATE TABLE lake.tour.plain")
    assert ["Namespace Name", "tour"] in shown[1]
    assert plan.startswith("[ {")


def test_the_tables_of_a_namespace_are_shown_with_its_views_and_the_temporary_ones(client: Client) -> None:
    for sql in (
        "CREATE NAMESPACE lake.mixed",
        "CREATE TABLE lake.mixed.t (a INT)",
        "CREATE VIEW lake.mixed.v AS SELECT 1 AS a",
        "CREATE NAMESPACE spark_catalog.mixed",
        "CREATE VIEW spark_catalog.mixed.w AS SELECT 1 AS a",
        "CREATE TEMPORARY VIEW passing AS SELECT 1 AS a",
    ):
        client.run(sql)
    in_lake, in_sparks = ["passing", "t", "v"], ["passing", "w"]

    assert [client.names(f"SHOW TABLES IN {name}") for name in ("mixed", "lake.mixed")] == [in_lake, in_lake]
    assert client.names("SHOW TABLES IN spark_catalog.mixed") == in_sparks
    client.run("USE spark_catalog.mixed")
    assert client.names("SHOW TABLES") == in_sparks
    assert client.names("SHOW TABLES IN lake.mixed") == in_lake


def test_tables_whose_names_are_written_with_signs_are_shown_as_they_are(client: Client) -> None:
    names = ["a, b]", "dot.ted", 'say "x"', "tick`ed", "übel"]
    client.run("CREATE NAMESPACE lake.`odd, [ns]`")
    for name in names:
        client.run(f"CREATE TABLE lake.`odd, [ns]`.{quote(name)} (a INT)")
    client.run("CREATE VIEW lake.`odd, [ns]`.`v, [w]` AS SELECT 1 AS a")

    assert client.names("SHOW TABLES IN lake.`odd, [ns]`") == sorted([*names, "v, [w]"])
    assert client.names("SHOW TABLES IN lake.`odd, [ns]` LIKE '%, %'") == ["a, b]", "v, [w]"]


def test_a_namespace_of_spark_that_is_not_there_is_refused_with_sparks_words(client: Client) -> None:
    for name in ("spark_catalog.nope", "spark_catalog.a.b"):
        with pytest.raises(QueryFailed, match="SCHEMA_NOT_FOUND"):
            client.run(f"SHOW TABLES IN {name}")


def test_partitions_of_an_iceberg_table_are_shown_and_a_table_without_any_is_named(client: Client) -> None:
    client.run("CREATE TABLE by_day (a INT, ds STRING, h INT) PARTITIONED BY (ds, h)")
    client.run("CREATE TABLE unparted (a INT)")
    client.run("INSERT INTO by_day VALUES (1, 'y', 2), (2, 'x', 1), (3, 'x', 1)")

    found = (
        client.names("SHOW PARTITIONS by_day"),
        client.names("SHOW PARTITIONS lake.default.by_day PARTITION (h = 2)"),
    )

    assert found == (["ds=x/h=1", "ds=y/h=2"], ["ds=y/h=2"])
    with pytest.raises(DefinitionInvalid, match="Table unparted is not partitioned"):
        client.run("SHOW PARTITIONS unparted")


def test_explain_and_describe_tell_what_is_wrong_and_where(client: Client) -> None:
    with pytest.raises(QueryFailed) as explained:
        client.run("EXPLAIN PLAN FOR SELECT 1\n FROM nope")
    with pytest.raises(QueryFailed) as parsed:
        client.run("EXPLAIN FORMATTED SELEC 1")

    assert (explained.value.error_class, explained.value.line, explained.value.position) == (
        "TABLE_OR_VIEW_NOT_FOUND",
        2,
        7,
    )
    assert (parsed.value.error_class, parsed.value.position) == ("PARSE_SYNTAX_ERROR", 19)
    with pytest.raises(QueryFailed, match="TABLE_OR_VIEW_NOT_FOUND"):
        client.run("DESCRIBE nope")
    with pytest.raises(DefinitionInvalid, match="Database nope does not exist"):
        client.run("SHOW TABLES IN nope")


def test_a_created_catalog_is_seen_by_open_sessions_and_refreshes_until_it_is_dropped(
    client: Client, tmp_path: Path
) -> None:
    other = client.other()
    before = other.names("SHOW CATALOGS")
    create = "CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '{}')"
    client.run(create.format(tmp_path / "one"))
    empty = client.names("SHOW DATABASES IN c")
    client.run("CREATE NAMESPACE c.d")
    client.run("CREATE TABLE c.d.t (a INT)")
    client.run("USE CATALOG c")
    query = Query(text="SELECT * FROM c.d.t", catalog="lake", namespace=("default",))

    vector = client.refreshes.sources.read_vector(query)
    within = client.names("SHOW CURRENT CATALOG"), client.names("SHOW TABLES IN d")
    elsewhere = other.names("SHOW TABLES IN c.d")
    with pytest.raises(DefinitionInvalid, match="is the current catalog"):
        client.run("DROP CATALOG c")
    other.run("DROP CATALOG c")
    gone, current = client.names("SHOW CATALOGS"), client.names("SHOW CURRENT CATALOG")
    with pytest.raises(QueryFailed, match="TABLE_OR_VIEW_NOT_FOUND"):
        client.refreshes.queries.analyse(query)
    client.run(create.format(tmp_path / "two"))

    assert (before, empty, within, elsewhere) == (["lake", "spark_catalog"], [], (["c"], ["t"]), ["t"])
    assert (gone, current) == (["lake", "spark_catalog"], ["lake"])
    assert [(source.name, source.kind) for source in vector.sources] == [("c.d.t", "table")]
    assert [each.names("SHOW DATABASES IN c") for each in (client, other)] == [[], []]


def test_an_altered_catalog_is_opened_anew_by_every_session(client: Client, tmp_path: Path) -> None:
    other = client.other()
    client.run(
        "CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', "
        f"'warehouse' = '{tmp_path}/one')"
    )
    other.run("CREATE NAMESPACE c.one")

    client.run(f"ALTER CATALOG c SET ('warehouse' = '{tmp_path}/two')")
    client.run("CREATE NAMESPACE c.two")

    assert [each.names("SHOW DATABASES IN c") for each in (client, other)] == [["two"], ["two"]]


def test_a_catalog_that_spark_cannot_open_is_not_created_and_says_why(client: Client) -> None:
    database = "'url' = 'jdbc:postgresql://127.0.0.1:9/d?password=hidden-1', 'password' = 'hidden-2'"

    with pytest.raises(
        DefinitionInvalid, match=r"Catalog x cannot be opened, and was not created: .*no\.such\.Plugin"
    ):
        client.run("CREATE CATALOG x WITH ('type' = 'no.such.Plugin')")
    with pytest.raises(DefinitionInvalid, match=r"Connection to 127\.0\.0\.1:9 refused") as refusal:
        client.run(f"CREATE CATALOG x WITH ('type' = 'jdbc', {database}, 'driver' = 'org.postgresql.Driver')")

    assert "hidden" not in str(refusal.value)
    assert client.names("SHOW CATALOGS") == ["lake", "spark_catalog"]


def test_a_table_with_catalog_settings_of_its_session_keeps_reading_from_its_own(
    client: Client, tmp_path: Path
) -> None:
    mine, shared = (
        f"'type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '{tmp_path}/{name}'" for name in "ms"
    )
    for options in (shared, mine):
        client.run("DROP CATALOG IF EXISTS c")
        client.run(f"CREATE CATALOG c WITH ({options})")
    client.run("CREATE NAMESPACE c.d")
    client.run("CREATE TABLE c.d.t (a INT)")
    frozen = client.catalogs.settings()["c"]
    client.run("DROP CATALOG c")
    client.run(f"CREATE CATALOG c WITH ({shared})")
    query = Query(text="SELECT * FROM c.d.t", catalog="lake", namespace=("default",), settings=frozen)

    vector = client.refreshes.sources.read_vector(query)

    assert [source.name for source in vector.sources] == ["c.d.t"]
    assert client.names("SHOW DATABASES IN c") == []


def test_a_temporary_table_of_flinks_is_read_and_written(client: Client, tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    client.run(
        "CREATE TEMPORARY TABLE orders_csv (id BIGINT, `at` TIMESTAMP(3), "
        "PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{tmp_path}/orders', 'csv.field-delimiter' = ';')"
    )
    client.run("INSERT INTO orders_csv VALUES (1, TIMESTAMP_NTZ '2024-01-02 03:04:05')")
    client.run(
        "CREATE TABLE spark_catalog.default.kept WITH ('connector' = 'json', "
        f"'path' = '{tmp_path}/kept') AS TABLE orders_csv"
    )
    client.run(
        "CREATE TABLE copied WITH ('connector' = 'iceberg', 'format-version' = '2') AS "
        "SELECT id FROM orders_csv"
    )

    assert client.run("SELECT * FROM orders_csv") == [[1, "2024-01-02T03:04:05"]]
    assert (
        client.run("SELECT id FROM spark_catalog.default.kept") == client.run("SELECT * FROM copied") == [[1]]
    )
    with pytest.raises(DefinitionInvalid, match="of a query in Iceberg tables only"):
        client.run("CREATE TABLE t WITH ('connector' = 'parquet', 'path' = '/x') AS SELECT 1 AS a")


def test_a_jar_must_be_there_to_be_added(client: Client, tmp_path: Path) -> None:
    jar = tmp_path / "some functions.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("empty.txt", "")

    with pytest.raises(DefinitionInvalid, match=r"there is no file /nope\.jar on the gateway's machine"):
        client.run("ADD JAR '/nope.jar'")
    client.run(f"ADD JAR '{jar}'")

    assert client.names("SHOW JARS") == [str(jar)]
