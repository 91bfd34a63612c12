from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mt_core.base.rowset import INT, Column
from mt_core.errors import DefinitionInvalid, EngineError, MtError, QueryFailed, RegistryError, Unsupported
from mt_core.model.connector_table import ConnectorTable
from mt_core.sessions.catalog.connector_table_statements import ConnectorTableStatements
from mt_core.sessions.catalog.connector_table_text import show_create
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.operations.operation import OperationResult
from mt_core.sessions.session import Session
from mt_core.sessions.statements.listings import CatalogRequest
from mt_core.sql.parser import ReadStatement
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_statements import NO_ROWS, FakeStatementEngine
from tests.support.memory_registry import MemoryRegistry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CREATE = "CREATE TABLE t (n INT) WITH ('connector' = 'csv', 'path' = '/x', 'password' = 'p')"
KAFKA = (
    "CREATE TABLE t (n INT, place BIGINT METADATA "
    "FROM 'offset' VIRTUAL, m AS n + 1) WITH ('connector' = 'kafka', 'topic' = 'a', "
    "'format' = 'json', 'properties.bootstrap.servers' = 'h:1', 'properties.ssl.key.password' = 'p')"
)
PRINT = "CREATE TABLE t (n INT) WITH ('connector' = 'print')"
NAME = "`lake`.`default`.`t`"
STORED = "`spark_catalog`.`connector_tables`.`lake_default_t_"


class Engine(FakeStatementEngine):
    """A Spark that runs everything but what a test gave an answer to."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: dict[str, MtError] = {}

    def execute(self, context, sql, *, job_id, reservation=None):  # type: ignore[no-untyped-def]
        self.executed.append((context, sql))
        for words, error in self.refusals.items():
            if sql.startswith(words):
                raise error
        return NO_ROWS


class World:
    def __init__(self) -> None:
        self.registry, self.engine = MemoryRegistry(FakeClock(NOW)), Engine()
        self.tables = ConnectorTables(self.registry)
        self.statements = ConnectorTableStatements(engine=self.engine, tables=self.tables)
        self.session = Session("s", name=None, defaults={}, properties={}, opened_at=NOW)

    def run(self, sql: str) -> OperationResult | None:
        read = ReadStatement(sql)
        request = CatalogRequest(session=self.session, context=self.session.context(), job_id="j")
        return self.statements.answer(read, request) if self.statements.concern(read) else None

    @property
    def ran(self) -> list[str]:
        """The statements of Spark since the last look, with stable names."""
        found = [sql for _, sql in self.engine.executed]
        self.engine.executed.clear()
        return [_stable(sql) for sql in found]

    @property
    def ran_as_sent(self) -> list[str]:
        """The statements of Spark since the last look."""
        found = [sql for _, sql in self.engine.executed]
        self.engine.executed.clear()
        return found

    @property
    def kept(self) -> list[ConnectorTable]:
        """The tables as the next process reads them."""
        return list(ConnectorTables(self.registry).all().values())


def _verb(sql: str) -> str:
    return " ".join(sql.split()[:2])


def _stable(sql: str) -> str:
    before, found, after = sql.partition(STORED)
    return f"{before}<stored>{after[9:]}" if found else sql


@pytest.fixture
def world() -> World:
    return World()


def test_a_table_of_another_catalog_is_stored_in_sparks_own_and_has_a_view_in_its_own(world: World) -> None:
    world.run(CREATE)

    assert world.ran == [
        "CREATE DATABASE IF NOT EXISTS `spark_catalog`.`connector_tables`",
        "CREATE TABLE <stored> (`n` INT) USING csv OPTIONS ('path' = '/x', 'password' = 'p')",
        f"CREATE VIEW {NAME} TBLPROPERTIES ('freshtable.connector' = 'csv') AS SELECT * FROM <stored>",
    ]
    [table] = world.kept
    assert (table.name, table.connector, table.columns) == (NAME, "csv", ("`n` INT",))
    assert table.spark_name.startswith(STORED)
    assert "'p'" not in repr(table)


def test_a_table_without_rows_is_a_view_alone(world: World) -> None:
    world.run(PRINT)
    world.run(PRINT.replace("TABLE t", "TABLE spark_catalog.default.T"))

    assert [sql.partition(" AS ")[0] for sql in world.ran] == [
        f"CREATE VIEW {NAME} TBLPROPERTIES ('freshtable.connector' = 'print')",
        "CREATE VIEW `spark_catalog`.`default`.`t`",
    ]
    assert [(table.name, table.spark_name) for table in world.kept] == [
        (NAME, ""),
        ("`spark_catalog`.`default`.`t`", ""),
    ]


def test_a_table_over_kafka_is_a_table_of_records_and_a_view_of_rows_in_each_catalog(world: World) -> None:
    world.run(KAFKA)
    world.run(KAFKA.replace("TABLE t", "TABLE spark_catalog.default.t"))

    ran = [sql.replace("spark_catalog_default_t_", "lake_default_t_") for sql in world.ran_as_sent]
    [lake, own] = world.kept
    assert world.engine.loaded_connectors == ["kafka", "kafka"]
    assert [_verb(sql) for sql in ran] == [
        *("CREATE DATABASE", "CREATE TABLE", "CREATE VIEW"),
        *("CREATE DATABASE", "CREATE TABLE", "CREATE VIEW"),
    ]
    assert "'kafka.ssl.key.password' = 'p'" in ran[1]
    assert ran[2].startswith(
        f"CREATE VIEW {NAME} TBLPROPERTIES ('freshtable.connector' = 'kafka') AS "
        "SELECT `n`, `place`, (n + 1) AS `m`"
    )
    assert ran[2].endswith(f"FROM {lake.spark_name} WHERE value IS NOT NULL))")
    assert "'p'" not in ran[2]
    assert ran[5].startswith("CREATE VIEW `spark_catalog`.`default`.`t`")
    assert "'p'" not in repr(lake)
    assert lake.topic is not None
    assert (lake.topic.table, own.topic and own.topic.table) == ("lake.default.t", "spark_catalog.default.t")


@pytest.mark.parametrize("catalog", ["lake", "spark_catalog"])
def test_a_table_over_kafka_is_shown_renamed_and_dropped_and_not_altered(world: World, catalog: str) -> None:
    world.run(KAFKA.replace("TABLE t", f"TABLE {catalog}.default.t"))
    [table] = world.kept
    assert show_create(table) == (
        f"CREATE TABLE `{catalog}`.`default`.`t` (\n  `n` INT,\n"
        "  `place` BIGINT METADATA FROM 'offset' VIRTUAL,\n  `m` AS n + 1\n)\nWITH (\n"
        "  'connector' = 'kafka',\n  'format' = 'json',\n  'properties.bootstrap.servers' = 'h:1',\n"
        "  'properties.ssl.key.password' = '***',\n  'topic' = 'a'\n)\n"
    )

    with pytest.raises(Unsupported, match=f"ALTER TABLE {catalog}.default.t: .*DROP TABLE it"):
        world.run(f"ALTER TABLE {catalog}.default.t ADD COLUMN x INT")
    world.engine.executed.clear()
    world.run(f"ALTER TABLE {catalog}.default.t RENAME TO u")
    [renamed] = world.kept
    world.run(f"DROP TABLE {catalog}.default.u")

    assert (renamed.name, renamed.spark_name) == (f"`{catalog}`.`default`.`u`", table.spark_name)
    assert renamed.topic is not None
    assert renamed.topic.table == f"{catalog}.default.u"
    assert world.ran_as_sent == [
        f"ALTER VIEW `{catalog}`.`default`.`t` RENAME TO `default`.`u`",
        f"DROP VIEW `{catalog}`.`default`.`u`",
        f"DROP TABLE IF EXISTS {table.spark_name}",
    ]
    assert world.kept == []


@pytest.mark.parametrize(
    ("refused", "error", "undone"),
    [
        ("CREATE TABLE", QueryFailed("No folder."), []),
        ("CREATE VIEW", EngineError("No namespace."), ["DROP TABLE <stored>"]),
        (None, RegistryError("The registry is away."), [f"DROP VIEW {NAME}", "DROP TABLE <stored>"]),
    ],
)
def test_a_table_of_which_a_part_cannot_be_made_is_undone(
    world: World, refused: str | None, error: MtError, undone: list[str]
) -> None:
    world.tables.all()
    if refused is None:
        world.registry.close()
    else:
        world.engine.refusals[refused] = error

    with pytest.raises(type(error)):
        world.run(CREATE)

    assert [sql for sql in world.ran if sql.startswith("DROP")] == undone


def test_a_catalog_that_keeps_no_views_is_refused_with_the_way_out(world: World) -> None:
    world.engine.refusals["CREATE VIEW"] = EngineError("Creating a view is not supported by catalog: lake")

    with pytest.raises(
        DefinitionInvalid,
        match=r"catalog lake does not support views.*CREATE TEMPORARY TABLE.*spark_catalog\.default\.t",
    ):
        world.run(CREATE)

    assert world.kept == []


def test_a_table_that_is_there_is_not_created_again(world: World) -> None:
    world.engine.tables["lake.default.t"] = [Column(name="n", type=INT)]

    with pytest.raises(
        MtError, match=r"Table lake\.default\.t exists already; choose another name, or DROP TABLE it"
    ):
        world.run(CREATE)
    world.run(CREATE.replace("TABLE t", "TABLE IF NOT EXISTS t"))

    assert (world.ran, world.kept) == ([], [])


def test_drop_takes_view_table_and_row_away(world: World) -> None:
    world.run(CREATE)
    assert world.ran

    world.run("DROP TABLE IF EXISTS default.t")

    assert (world.ran, world.kept) == ([f"DROP VIEW {NAME}", "DROP TABLE IF EXISTS <stored>"], [])


def test_drop_leaves_a_table_alone_that_took_the_name_since(world: World) -> None:
    world.run(CREATE)
    world.engine.refusals["DROP VIEW"] = QueryFailed(
        "A table.", error_class="WRONG_COMMAND_FOR_OBJECT_TYPE_VIEW"
    )

    assert world.run("DROP TABLE t") is None
    assert world.kept == []


def test_rename_moves_view_and_row_and_keeps_what_is_stored(world: World) -> None:
    world.run(CREATE)
    [before] = world.kept
    assert world.ran

    world.run("ALTER TABLE t RENAME TO u")

    [after] = world.kept
    assert world.ran == [f"ALTER VIEW {NAME} RENAME TO `default`.`u`"]
    assert (after.name, after.spark_name) == ("`lake`.`default`.`u`", before.spark_name)


def test_a_rename_that_fails_keeps_the_name(world: World) -> None:
    world.run(CREATE)
    world.engine.refusals["ALTER VIEW"] = EngineError("No namespace.")

    with pytest.raises(EngineError):
        world.run("ALTER TABLE t RENAME TO lake.other.t")

    assert [table.name for table in world.kept] == [NAME]


def test_statements_about_other_tables_are_sparks(world: World) -> None:
    world.run(CREATE)
    assert world.ran

    for sql in (
        "DROP TABLE u",
        "ALTER TABLE lake.other.t RENAME TO u",
        "DROP VIEW v",
        "CREATE TEMPORARY VIEW t AS SELECT 1",
    ):
        assert world.run(sql) is None

    assert world.ran == []


def test_show_create_writes_flinks_statement_without_secrets(world: World) -> None:
    world.run(
        "CREATE TABLE t (n INT COMMENT 'it''s', at TIMESTAMP_LTZ(3) NOT NULL, "
        "WATERMARK FOR at AS at, PRIMARY KEY (n) NOT ENFORCED) "
        "PARTITIONED BY (n) WITH ('connector' = 'csv', 'path' = '/x', 'password' = 'p')"
    )

    [table] = world.kept
    assert show_create(table) == (
        f"CREATE TABLE {NAME} (\n  `n` INT COMMENT 'it\\'s',\n  `at` TIMESTAMP_LTZ(6) NOT NULL,\n"
        "  WATERMARK FOR `at` AS `at`,\n  PRIMARY KEY (`n`) NOT ENFORCED\n)\nPARTITIONED BY (`n`)\nWITH (\n"
        "  'connector' = 'csv',\n  'password' = '***',\n  'path' = '/x'\n)\n"
    )
