"""Functions of users in Spark: SQL and classes, each in sessions, queries of refreshes and views."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mt_core.clock import SystemClock
from mt_core.errors import DefinitionInvalid, MtError, QueryFailed, Unsupported
from mt_core.model.function import CreatedFunction, FunctionKind
from mt_core.sessions.ports import SessionContext
from mt_core.spark.driver.session_functions import NoFunctions
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.engine import SparkEngine
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.function_sync import FunctionSync
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.sql.functions import CreateFunction
from mt_core.sql.parser import parse
from mt_core.tables.created_functions import CreatedFunctions
from mt_core.tables.engine import Query
from tests.conftest import START_TIMEOUT_S
from tests.support.function_code import LONGEST, function_jar, greeting
from tests.support.memory_registry import MemoryRegistry

pytestmark = [pytest.mark.spark, pytest.mark.timeout(START_TIMEOUT_S)]

PICKY = "implements UDF1<Integer, Integer> { public Picky(int a) { } public Integer call(Integer a) { return a; } }"

_numbers = itertools.count()


class World:
    """The statements and the refreshes of one gateway, with its functions."""

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        self.shared = CreatedFunctions(MemoryRegistry(SystemClock()))
        driver.functions = FunctionSync(self.shared.all, FunctionFiles(folder / "functions"))
        self.statements, self.engine = SparkStatements(driver), SparkEngine(driver)
        self.one, self.other = self.session(), self.session()

    def session(self) -> SessionContext:
        return SessionContext(session_id=f"functions-{next(_numbers)}", properties={})

    def create(self, text: str) -> CreatedFunction:
        """Create, or replace, a function of all sessions."""
        statement = parse(text)
        assert isinstance(statement, CreateFunction)
        kept = self.statements.check_function(self.one, statement.function)
        self.shared.replace(kept)
        return kept

    def rows(self, sql: str, context: SessionContext | None = None) -> list[list[Any]]:
        rows = self.statements.execute(context or self.one, sql, job_id=f"functions-job-{next(_numbers)}").rows
        return rows.page(0, 100) if rows is not None else []

    def value(self, expression: str, context: SessionContext | None = None) -> Any:
        return self.rows(f"SELECT {expression}", context)[0][0]

    def lineage(self, text: str) -> tuple[str | None, list[tuple[str, str]]]:
        """Return why rows of a query may differ from equal sources, and the versions of the functions that it calls."""
        vector = self.engine.read_vector(Query(text=text, catalog="lake", namespace=("default",)))
        functions = [(each.name, each.version["hash"]) for each in vector.sources if each.kind == "function"]
        return vector.unstable, functions


@pytest.fixture
def world(spark_driver: SparkDriver, tmp_path: Path) -> Iterator[World]:
    world = World(spark_driver, tmp_path)
    try:
        yield world
    finally:
        for name in reversed(world.shared.all()):
            world.shared.drop(name)
        world.rows("SELECT 1")
        spark_driver.functions = NoFunctions()


def test_a_function_of_sql_has_parameters_and_is_seen_by_every_session_until_it_is_dropped(world: World) -> None:
    world.rows("SELECT 1", world.other)

    kept = world.create("CREATE FUNCTION plus(x INT, y INT DEFAULT 1) RETURN x + y")

    assert (kept.returns, kept.kind, kept.catalog) == ("INT", FunctionKind.SCALAR, "lake")
    assert (world.value("plus(4)"), world.value("plus(4, 5)", world.other)) == (5, 9)
    world.create("CREATE OR REPLACE FUNCTION plus(x INT) RETURNS BIGINT RETURN x + 100")
    assert world.value("plus(4)", world.other) == 104
    world.shared.drop("plus")
    with pytest.raises(QueryFailed, match="plus"):
        world.value("plus(4)")


def test_a_table_function_of_sql_gives_rows(world: World) -> None:
    kept = world.create("CREATE FUNCTION firsts(n INT) RETURNS TABLE RETURN SELECT id AS a FROM range(10) WHERE id < n")

    assert (kept.kind, world.rows("SELECT * FROM firsts(2)")) == (FunctionKind.TABLE, [[0], [1]])


def test_a_body_that_cannot_be_called_fails_at_create(world: World) -> None:
    for text in (
        "CREATE FUNCTION f(x INT) RETURN y + 1",
        "CREATE FUNCTION f(x INT) RETURNS INT RETURN nothing(x)",
        "CREATE FUNCTION f(x INT) RETURNS INT RETURN sum(x)",
        "CREATE FUNCTION abs(x INT) RETURN x",
    ):
        with pytest.raises(MtError):
            world.create(text)

    assert world.shared.all() == {}


def test_a_view_calls_functions_of_all_sessions(world: World) -> None:
    world.create("CREATE FUNCTION plus(x INT) RETURNS INT RETURN x + 1")
    world.rows("CREATE NAMESPACE IF NOT EXISTS lake.functions")

    world.rows("CREATE OR REPLACE VIEW lake.functions.v AS SELECT plus(1) AS a")

    assert world.rows("SELECT a FROM lake.functions.v", world.other) == [[2]]
    world.rows("DROP VIEW lake.functions.v")


def test_classes_of_a_jar_are_called_and_a_replaced_jar_really_replaces_them(world: World, tmp_path: Path) -> None:
    jar = function_jar(tmp_path, "one.jar", Longest=LONGEST, **greeting("hello"))
    other = function_jar(tmp_path, "two.jar", **greeting("ciao"))
    on_executors = "SELECT greet(id) FROM range(0, 2, 1, 2) ORDER BY id"

    greet = world.create(f"CREATE FUNCTION greet AS 'shop.Greet' USING JAR '{jar}'")
    longest = world.create(f"CREATE FUNCTION longest AS 'shop.Longest' LANGUAGE SCALA USING JAR '{jar}'")
    first = world.rows(on_executors)
    world.statements.create_temporary_function(world.other, replace(greet, name="old_greet"))
    jar.write_bytes(other.read_bytes())
    unchanged = world.rows(on_executors)
    world.create(f"CREATE OR REPLACE FUNCTION greet AS 'shop.Greet' USING JAR '{jar}'")

    assert (greet.returns, longest.returns, longest.kind) == ("STRING", "INT", FunctionKind.AGGREGATE)
    assert first == unchanged == [["hello0"], ["hello1"]]
    assert world.rows(on_executors) == [["ciao0"], ["ciao1"]]
    assert world.value("greet(7)", world.other) == "ciao7"
    assert world.rows("SELECT longest(CAST(id AS STRING)) FROM range(11)") == [[2]]
    with pytest.raises(QueryFailed, match="requires 1 parameter"):
        world.value("greet(1, 2)")


def test_a_class_that_cannot_be_a_function_is_refused_with_the_reason(world: World, tmp_path: Path) -> None:
    jar = function_jar(
        tmp_path,
        "odd.jar",
        Plain="{ }",
        Picky=PICKY,
    )

    with pytest.raises(DefinitionInvalid, match=r"class shop\.Missing cannot be used: .*ClassNotFound"):
        world.create(f"CREATE FUNCTION f AS 'shop.Missing' USING JAR '{jar}'")
    with pytest.raises(Unsupported, match="implements none of"):
        world.create(f"CREATE FUNCTION f AS 'shop.Plain' USING JAR '{jar}'")
    with pytest.raises(DefinitionInvalid, match="constructor without parameters"):
        world.create(f"CREATE FUNCTION f AS 'shop.Picky' USING JAR '{jar}'")
    with pytest.raises(DefinitionInvalid, match=r"there is no file /no/such\.jar"):
        world.create("CREATE FUNCTION f AS 'shop.Plain' USING JAR '/no/such.jar'")


def test_a_refresh_sees_functions_and_their_changes_and_skips_only_where_they_are_deterministic(
    world: World, tmp_path: Path
) -> None:
    jar = function_jar(tmp_path, "one.jar", **greeting("hello"))
    world.create(f"CREATE FUNCTION greet AS 'shop.Greet' USING JAR '{jar}'")
    world.create("CREATE FUNCTION plus(x INT) RETURN x + 1")
    world.create("CREATE FUNCTION twice(x INT) RETURN plus(plus(x))")
    query = "SELECT twice(1) AS a"

    reason, before = world.lineage(query)
    declared, _ = world.lineage("SELECT greet(1) AS a")
    world.create("CREATE OR REPLACE FUNCTION plus(x INT) RETURN x + 2")
    world.create(f"CREATE OR REPLACE FUNCTION greet DETERMINISTIC AS 'shop.Greet' USING JAR '{jar}'")
    _, after = world.lineage(query)

    assert reason is None
    assert [name for name, _ in before] == ["twice", "plus"]
    assert (before[0], before[1] == after[1]) == (after[0], False)
    assert declared is not None
    assert "greet" in declared
    assert world.lineage("SELECT greet(1) AS a")[0] is None


def test_a_temporary_function_is_of_its_session_alone(world: World) -> None:
    statement = parse("CREATE TEMPORARY FUNCTION own(x INT) RETURN x * 10")
    assert isinstance(statement, CreateFunction)

    world.statements.create_temporary_function(world.one, statement.function)

    assert world.value("own(2)") == 20
    assert world.statements.session_state(world.one).functions == {"own"}
    with pytest.raises(QueryFailed, match="own"):
        world.value("own(2)", world.other)
    world.rows("DROP TEMPORARY FUNCTION own")
    assert world.statements.session_state(world.one).functions == set()
