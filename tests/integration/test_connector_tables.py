"""Tables with a connector in any catalog, also in a Spark that has just begun,
over what an earlier one left.
"""

from __future__ import annotations

import itertools
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mt_core.app.statement_wiring import StatementPorts, wire_statements
from mt_core.app.stream_wiring import wire_streams
from mt_core.clock import SystemClock
from mt_core.errors import MtError, QueryFailed, Unsupported
from mt_core.jobs.store import JobStore
from mt_core.model.connector_table import ConnectorTable
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.session import Session
from mt_core.spark.connectors.connector_tables import create_tables
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import catalog_names
from mt_core.spark.driver.jvm_objects import state_of
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements
from tests.support.fake_commands import FakeRuns, FakeTableCommands
from tests.support.fake_plans import FakePlans
from tests.support.fake_streams import FakeStreams
from tests.support.gateway.wired import stream_ports
from tests.support.memory_registry import MemoryRegistry

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_numbers = itertools.count()


def test_tables_have_the_rows_that_are_in_their_folders_and_databases(
    spark_driver: SparkDriver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session, number = spark_driver.new_session(), next(_numbers)
    names = {each: f"{each}_{number}" for each in ("managed", "parts", "csv", "base", "broken")}
    warehouse = str(session.conf.get("spark.sql.warehouse.dir"))
    session.range(3).write.parquet(f"{warehouse}/{names['managed']}")
    session.sql("SELECT id, id % 2 AS p FROM range(4)").write.partitionBy("p").parquet(
        f"{warehouse}/{names['parts']}"
    )
    (tmp_path / "rows.csv").write_text("1;Rome\n2;Oslo\n")
    with closing(sqlite3.connect(tmp_path / "base.db")) as database:
        database.executescript("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (7)")
    url = f"'url' = 'jdbc:sqlite:{tmp_path}/base.db', 'dbtable' = 't', 'driver' = 'org.sqlite.JDBC'"
    wanted = [
        ("broken", ("`n` NO TYPE",), "USING csv"),
        ("managed", ("`id` BIGINT",), "USING parquet"),
        ("parts", ("`id` BIGINT", "`p` BIGINT"), "USING parquet PARTITIONED BY (`p`)"),
        (
            "csv",
            ("`n` INT", "`city` STRING"),
            f"USING csv OPTIONS ('path' = '{tmp_path}/rows.csv', 'sep' = ';')",
        ),
        ("base", ("`n` DECIMAL(20, 0)",), f"USING jdbc OPTIONS ({url})"),
    ]
    tables = [
        ConnectorTable(
            name=f"`spark_catalog`.`default`.`{names[name]}`",
            columns=columns,
            clauses=clauses,
            connector=name,
        )
        for name, columns, clauses in wanted
    ]

    with caplog.at_level(logging.WARNING):
        create_tables(session, tables)
        create_tables(session, tables[1:])
    rows = {
        name: sorted(
            tuple(row) for row in session.sql(f"SELECT * FROM spark_catalog.default.{names[name]}").collect()
        )
        for name in ("managed", "parts", "csv", "base")
    }
    session.sql(f"INSERT INTO spark_catalog.default.{names['parts']} VALUES (9, 5)")
    session.sql(f"DROP TABLE spark_catalog.default.{names['managed']}")

    assert rows == {
        "managed": [(0,), (1,), (2,)],
        "parts": [(0, 0), (1, 1), (2, 0), (3, 1)],
        "csv": [(1, "Rome"), (2, "Oslo")],
        "base": [(7,)],
    }
    assert (
        session.sql(f"SELECT id FROM spark_catalog.default.{names['parts']} WHERE p = 5").collect()[0][0] == 9
    )
    assert not Path(warehouse, names["managed"]).exists()
    [warning] = [record.getMessage() for record in caplog.records if "of the registry" in record.getMessage()]
    assert names["broken"] in warning


class World:
    """A session of a gateway in streaming or in batch mode, with a namespace of its own in `lake`."""

    def __init__(self, driver: SparkDriver) -> None:
        self.driver, self.registry = driver, MemoryRegistry(SystemClock())
        self.tables = ConnectorTables(self.registry)
        self.engine = SparkStatements(SparkContexts(driver), connectors=self.tables.all)
        jobs = JobStore(self.registry, owner="here", clock=SystemClock())
        self.executor = wire_statements(
            StatementPorts(
                engine=self.engine,
                commands=FakeTableCommands(),
                runs=FakeRuns(SystemClock()),
                clock=SystemClock(),
                cluster_info=dict,
                catalogs=CreatedCatalogs(self.registry, reserved=catalog_names(driver.settings)),
                jobs=jobs,
                connector_tables=self.tables,
                functions=CreatedFunctions(self.registry),
                streams=wire_streams(stream_ports(FakeStreams(), self.engine, jobs, SystemClock())).streams,
                plans=FakePlans(),
                threads=8,
            )
        ).executor
        self.place = f"lake.connectors_{next(_numbers)}"
        self.session = Session("s", name=None, defaults={}, properties={}, opened_at=SystemClock().now())
        self.run(f"CREATE DATABASE {self.place}")

    def run(self, sql: str) -> list[list[Any]]:
        """Run *sql*, whose `lake.here` stands for the namespace; return its rows, or raise its error."""
        operation = self.executor.submit(self.session, sql.replace("lake.here", self.place))
        while not operation.wait(1.0):
            pass
        if operation.error is not None:
            raise operation.error
        assert operation.result is not None
        return operation.result.rows.page(0, 1000)

    def new_session(self, name: str) -> None:
        self.session = Session(name, name=None, defaults={}, properties={}, opened_at=SystemClock().now())

    def lose_spark(self) -> None:
        """Take all from Spark's own catalog, as the loss of its JVM does,
        and begin a session of a new one.
        """
        session = self.driver.new_session()
        for table in self.tables.all().values():
            if table.spark_name:
                state_of(session).catalog().externalCatalog().dropTable(
                    "connector_tables", table.spark_name.split("`")[5], True, True
                )
        create_tables(session, self.tables.all().values())
        self.new_session("after the loss")


@pytest.fixture
def world(spark_driver: SparkDriver) -> Iterator[World]:
    world = World(spark_driver)
    yield world
    world.executor.close()


def test_a_table_of_files_in_an_iceberg_catalog_is_written_read_altered_renamed_and_dropped(
    world: World, tmp_path: Path
) -> None:
    world.run(
        "CREATE TABLE lake.here.events (id BIGINT, city VARCHAR(9) COMMENT 'where', at TIMESTAMP(3), "
        "WATERMARK FOR at AS at - INTERVAL '5' SECOND, "
        "PRIMARY KEY (id) NOT ENFORCED) COMMENT 'all of them' WITH ('connector' = 'filesystem', "
        f"'format' = 'parquet', 'path' = '{tmp_path}/events', 'secret' = 'hidden')"
    )
    world.run("INSERT INTO lake.here.events VALUES (1, 'Rome', TIMESTAMP '2026-01-01 00:00:00')")
    world.run("WITH c AS (SELECT 2 AS id) INSERT INTO lake.here.events (id) SELECT id FROM c")
    world.run("CREATE VIEW lake.here.cities AS SELECT city FROM lake.here.events")
    world.lose_spark()

    assert world.run("SELECT events.id, lake.here.events.city FROM lake.here.events ORDER BY id") == [
        [1, "Rome"],
        [2, None],
    ]
    assert world.run("SELECT city FROM lake.here.cities WHERE city IS NOT NULL") == [["Rome"]]
    assert sorted(world.run(f"SHOW TABLES IN {world.place}")) == [["cities"], ["events"]]
    assert world.run(f"SHOW VIEWS IN {world.place}") == [["cities"]]
    assert world.run("SHOW COLUMNS FROM lake.here.events") == [
        ["id", "BIGINT", True, "PRI(id)", None, None, None],
        ["city", "STRING", True, None, None, None, "where"],
        ["at", "TIMESTAMP_LTZ(6)", True, None, None, "`at` - INTERVAL '5' SECOND", None],
    ]
    catalog, namespace = world.place.split(".")
    assert world.run("SHOW CREATE TABLE lake.here.events") == [
        [
            f"CREATE TABLE `{catalog}`.`{namespace}`.`events` (\n  `id` BIGINT,\n"
            "  `city` VARCHAR(9) COMMENT 'where',\n  `at` TIMESTAMP_LTZ(6),\n"
            "  WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND,\n  PRIMARY KEY (`id`) NOT ENFORCED\n)\n"
            "COMMENT 'all of them'\nWITH (\n  'connector' = 'filesystem',\n  'format' = 'parquet',\n"
            f"  'path' = '{tmp_path}/events',\n  'secret' = '***'\n)\n"
        ]
    ]

    world.run("ALTER TABLE lake.here.events ADD (n INT)")
    world.run("ALTER TABLE lake.here.events RENAME TO lake.here.changed")
    world.lose_spark()
    reader, rows = world.session, "SELECT id, n FROM lake.here.changed ORDER BY id"
    before = world.run(rows)
    world.new_session("a writer")
    world.run("INSERT INTO lake.here.changed (id, n) VALUES (3, 7)")
    world.session = reader

    assert before == [[1, None], [2, None]]
    assert world.run(rows) == [[1, None], [2, None], [3, 7]]
    with pytest.raises(QueryFailed, match="TABLE_OR_VIEW_NOT_FOUND"):
        world.run("SELECT * FROM lake.here.events")

    world.run("DROP TABLE lake.here.changed")

    assert (world.run(f"SHOW TABLES IN {world.place}"), world.tables.all()) == ([["cities"]], {})
    assert list((tmp_path / "events").glob("*.parquet"))


def test_the_name_of_a_table_is_that_of_one_table(world: World, tmp_path: Path) -> None:
    create = f"CREATE TABLE lake.here.files (a INT) WITH ('connector' = 'csv', 'path' = '{tmp_path}/files')"
    world.run(create)
    world.run("CREATE TABLE lake.here.iceberg (a INT)")

    for sql, error in (
        (create, "files exists already"),
        (create.replace("here.files", "here.iceberg"), "iceberg exists already"),
        ("CREATE TABLE lake.here.files (a INT)", "already exists"),
        ("CREATE TABLE lake.here.files AS SELECT 1 AS a", "already exists"),
        ("CREATE VIEW lake.here.files AS SELECT 1 AS a", "is a table with the connector 'csv'"),
        ("ALTER TABLE lake.here.files RENAME TO lake.here.iceberg", "iceberg exists already"),
        (
            "ALTER TABLE lake.here.files SET ('path' = '/y')",
            "options of a table with a connector cannot be altered",
        ),
        ("DELETE FROM lake.here.files", "DELETE of .*only adds rows"),
        ("UPDATE lake.here.files SET a = 1", "UPDATE of .*only adds rows"),
        (create.replace("CREATE TABLE", "CREATE OR REPLACE TABLE"), "cannot be replaced"),
        ("DROP VIEW lake.here.files", "is a table with the connector 'csv'"),
    ):
        with pytest.raises(MtError, match=error):
            world.run(sql)
    world.run(create.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))

    assert sorted(world.run(f"SHOW TABLES IN {world.place}")) == [["files"], ["iceberg"]]
    assert [table.parts[-1] for table in world.tables.all().values()] == ["files"]


def test_tables_without_rows_of_their_own_stay_in_any_catalog(world: World) -> None:
    for place in ("lake.here.", "spark_catalog.default."):
        number = next(_numbers)
        names = [f"{place}{each}_{number}" for each in ("some", "endless", "sink")]
        some, endless, sink = names
        world.run(f"CREATE TABLE {some} (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3')")
        world.run(f"CREATE TABLE {endless} (n INT) WITH ('connector' = 'datagen')")
        world.run(f"CREATE TABLE {sink} (n INT) WITH ('connector' = 'blackhole')")
        world.new_session(f"another one {number}")

        assert world.run(f"SELECT count(*) FROM {some}") == [[3]]
        with pytest.raises(QueryFailed, match="unbounded rows, which a batch query cannot read"):
            world.run(f"SELECT count(*) FROM {endless}")
        with pytest.raises(QueryFailed, match="is a sink and cannot be read"):
            world.run(f"SELECT * FROM {sink}")
        with pytest.raises(Unsupported, match="except of a stream"):
            world.run(f"INSERT INTO {sink} VALUES (1)")
        for name in names:
            world.run(f"DROP TABLE {name}")

    assert world.tables.all() == {}
