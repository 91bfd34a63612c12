from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mt_core.errors import QueryFailed, RegistryError
from mt_core.model.connector_table import ConnectorTable
from mt_core.model.table import Column
from mt_core.sessions.catalog.connector_table_changes import ConnectorTableChanges
from mt_core.sessions.catalog.connector_table_statements import ConnectorTableStatements
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.ports import SessionContext, StatementResult
from mt_core.sql.parser import ReadStatement
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_statements import FakeStatementEngine
from tests.support.memory_registry import MemoryRegistry

CONTEXT = SessionContext(session_id="s", properties={})
NAME = "`spark_catalog`.`default`.`t`"
OPTIONS = {"connector": "csv", "path": "/x", "password": "p"}
CREATE = (
    "CREATE TABLE spark_catalog.default.t PARTITIONED BY (n) "
    "WITH ('connector' = 'csv', 'path' = '/x', 'password' = 'p') AS SELECT 1 AS n"
)
CLAUSES = "USING csv OPTIONS ('path' = '/x', 'password' = 'p') PARTITIONED BY (`n`)"
T = ConnectorTable(
    name=NAME, columns=("`n` int",), clauses=CLAUSES, connector="csv", options=OPTIONS, partition_keys=("n",)
)
GONE = QueryFailed("[TABLE_OR_VIEW_NOT_FOUND] There is none.", error_class="TABLE_OR_VIEW_NOT_FOUND")


class Engine(FakeStatementEngine):
    """A Spark whose tables have the `columns` of their names;
    an error stands for a table that cannot be read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.columns: dict[str, Sequence[Column] | QueryFailed] = {}

    def query_columns(self, context: SessionContext, query: str) -> Sequence[Column]:
        found = self.columns.get(query.removeprefix("TABLE "), GONE)
        if isinstance(found, QueryFailed):
            raise found
        return found


class World:
    def __init__(self) -> None:
        self.registry = MemoryRegistry(FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))
        self.engine, self.tables = Engine(), ConnectorTables(self.registry)
        self.changes = ConnectorTableChanges(
            statements=ConnectorTableStatements(engine=self.engine, tables=self.tables)
        )

    def run(self, sql: str, *, t: Sequence[Column] | QueryFailed | None = None) -> None:
        """Run *sql*, after which table t of spark_catalog has the columns *t*, if they are given."""
        keep = self.changes.recorder(ReadStatement(sql), CONTEXT)
        if t is not None:
            self.engine.columns[NAME] = t
        keep()

    @property
    def kept(self) -> list[ConnectorTable]:
        """The tables as the next process reads them."""
        tables = list(ConnectorTables(self.registry).all().values())
        assert tables == list(self.tables.all().values())
        return tables


@pytest.fixture
def world() -> World:
    return World()


N = [Column(name="n", type="int")]
N_AND_M = [*N, Column(name="m", type="string")]


def test_a_table_with_a_connector_is_kept_with_what_creates_it_again(world: World) -> None:
    world.run(CREATE, t=N)

    assert world.kept == [T]
    assert T.statement == f"CREATE TABLE {NAME} (`n` int) {CLAUSES}"
    assert "'p'" not in repr(world.kept)


def test_columns_that_the_statement_does_not_list_are_those_that_the_table_has(world: World) -> None:
    world.run(
        "CREATE TABLE spark_catalog.default.t WITH ('connector' = 'parquet') AS SELECT 1 AS n, 'x' AS m",
        t=N_AND_M,
    )

    [table] = world.kept
    assert table.columns == ("`n` int", "`m` string")
    assert "AS SELECT" not in table.statement


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (n INT) WITH ('connector' = 'iceberg')",
        "CREATE TABLE spark_catalog.default.t (n INT) USING csv",
        "CREATE TEMPORARY TABLE t (n INT) WITH ('connector' = 'csv', 'path' = '/x')",
        "CREATE TABLE lake.default.t (n INT, PRIMARY KEY (n) NOT ENFORCED)",
    ],
)
def test_what_others_keep_is_not_kept(world: World, sql: str) -> None:
    world.run(sql, t=N)

    assert world.kept == []


def test_a_table_that_was_there_is_not_taken_for_the_one_of_if_not_exists(world: World) -> None:
    world.engine.columns[NAME] = N

    world.run(CREATE.replace("TABLE", "TABLE IF NOT EXISTS"), t=N)

    assert world.kept == []


def test_a_dropped_table_is_forgotten_and_one_that_cannot_be_read_is_kept(world: World) -> None:
    world.run(CREATE, t=N)

    world.run("DROP TABLE other")
    world.run("DROP TABLE t", t=QueryFailed("[PATH_NOT_FOUND] There is no /x.", error_class="PATH_NOT_FOUND"))
    before = world.kept
    world.run("DROP DATABASE d CASCADE", t=GONE)

    assert (before, world.kept) == ([T], [])


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("DROP DATABASE lake.d CASCADE", ["`lake`.`e`.`t`"]),
        ("DROP SCHEMA IF EXISTS d CASCADE", ["`lake`.`e`.`t`"]),
        ("DROP DATABASE lake.d.deep CASCADE", ["`lake`.`d`.`t`", "`lake`.`e`.`t`"]),
        ("DROP DATABASE lake.dd", ["`lake`.`d`.`t`", "`lake`.`d`.`deep`.`t`", "`lake`.`e`.`t`"]),
    ],
)
def test_the_tables_of_a_dropped_database_are_forgotten_with_what_spark_has_of_them(
    world: World, sql: str, left: list[str]
) -> None:
    names = ("`lake`.`d`.`t`", "`lake`.`d`.`deep`.`t`", "`lake`.`e`.`t`")
    for name in names:
        world.tables.put(replace(T, name=name, spark_name=f"{name}_stored"))
        world.engine.answers[f"DROP TABLE IF EXISTS {name}_stored"] = StatementResult(
            is_query=False, rows=None
        )

    world.run(sql)

    assert {table.name for table in world.kept} == {*left}
    assert {text for _, text in world.engine.executed} == {
        f"DROP TABLE IF EXISTS {name}_stored" for name in names if name not in left
    }


def test_an_altered_table_has_its_new_columns(world: World) -> None:
    world.run(CREATE, t=N)

    world.run("ALTER TABLE spark_catalog.default.t ADD m STRING", t=N_AND_M)

    [table] = world.kept
    assert (table.columns, table.clauses) == (("`n` int", "`m` string"), CLAUSES)


def test_tables_are_read_again_after_a_change_whose_outcome_is_not_known(world: World) -> None:
    world.tables.all()
    world.registry.close()

    for _ in range(2):
        with pytest.raises(RegistryError):
            world.run(CREATE, t=N)
        with pytest.raises(RegistryError):
            world.tables.all()
