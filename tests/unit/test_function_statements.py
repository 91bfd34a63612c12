"""Statements about functions: their grammar, and what they do over fakes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mt_core.errors import DefinitionInvalid, IllegalStatus, QueryFailed, SqlSyntaxError, Unsupported
from mt_core.model.function import CreatedFunction, FileKind, FunctionFile, FunctionKind, FunctionLanguage
from mt_core.sessions.session import Session
from mt_core.sessions.statements.function_commands import FunctionCommands
from mt_core.sessions.statements.listings import CatalogRequest
from mt_core.sql.functions import AlterFunction, CreateFunction, DescribeFunction, DropFunction, ShowCreateFunction
from mt_core.sql.parser import parse
from mt_core.tables.created_functions import CreatedFunctions, calls
from tests.support.fake_statements import FakeStatementEngine
from tests.support.manager_world import ManagerWorld

PLUS = CreatedFunction(
    name="plus", language=FunctionLanguage.SQL, body="x + 1", parameters="x INT", returns="INT", comment="one more"
)
JAR = FunctionFile(kind=FileKind.JAR, uri="/opt/shop.jar")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (
            "CREATE FUNCTION plus(x INT) RETURNS INT COMMENT 'one more' RETURN x + 1;",
            CreateFunction(function=PLUS),
        ),
        (
            "CREATE OR REPLACE TEMPORARY SYSTEM FUNCTION Plus(x INT) RETURNS INT COMMENT 'one more' RETURN x + 1",
            CreateFunction(function=PLUS, temporary=True, or_replace=True),
        ),
        (
            "CREATE FUNCTION IF NOT EXISTS f(a ARRAY<STRUCT<b: DECIMAL(3, 2)>>, c INT) RETURNS MAP<STRING, INT> "
            "NOT DETERMINISTIC AS 'shop.F' LANGUAGE SCALA USING JAR '/opt/shop.jar', JAR 'b.jar'",
            CreateFunction(
                function=CreatedFunction(
                    name="f",
                    language=FunctionLanguage.SCALA,
                    body="shop.F",
                    parameters="a ARRAY<STRUCT<b: DECIMAL(3, 2)>>, c INT",
                    returns="MAP<STRING, INT>",
                    deterministic=False,
                    files=(JAR, replace(JAR, uri="b.jar")),
                ),
                if_not_exists=True,
            ),
        ),
        (
            "CREATE FUNCTION g() RETURNS TABLE (n INT) DETERMINISTIC RETURN SELECT 1",
            CreateFunction(
                function=CreatedFunction(
                    name="g",
                    language=FunctionLanguage.SQL,
                    body="SELECT 1",
                    parameters="",
                    returns="n INT",
                    kind=FunctionKind.TABLE,
                    deterministic=True,
                )
            ),
        ),
        (
            "ALTER FUNCTION IF EXISTS f AS 'shop.F'",
            AlterFunction(
                function=CreatedFunction(name="f", language=FunctionLanguage.JAVA, body="shop.F"), if_exists=True
            ),
        ),
        (
            "DROP TEMPORARY SYSTEM FUNCTION IF EXISTS `F`",
            DropFunction(name="f", text="DROP TEMPORARY SYSTEM FUNCTION IF EXISTS `F`", temporary=True, if_exists=True),
        ),
        ("SHOW CREATE FUNCTION Plus", ShowCreateFunction(name="plus")),
        (
            "DESC FUNCTION EXTENDED plus",
            DescribeFunction(name="plus", text="DESC FUNCTION EXTENDED plus", extended=True),
        ),
        ("DESCRIBE FUNCTION +", DescribeFunction(name="+", text="DESCRIBE FUNCTION +")),
        # Functions of a database are Spark's.
        ("CREATE FUNCTION d.f AS 'a.B'", None),
        ("DROP FUNCTION d.f", None),
        ("DESCRIBE FUNCTION d.f", None),
    ],
)
def test_a_statement_about_a_function_is_read(text: str, fact: object) -> None:
    assert parse(text) == fact


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("CREATE FUNCTION f(x INT", SqlSyntaxError, r"expected \) after the parameters"),
        ("CREATE FUNCTION f RETURN", SqlSyntaxError, "expected an expression after RETURN"),
        ("CREATE FUNCTION f AS 'x' LANGUAGE R", SqlSyntaxError, "expected JAVA or SCALA"),
        ("CREATE FUNCTION f", SqlSyntaxError, "expected AS 'class', or RETURN expression"),
        ("CREATE FUNCTION f RETURNS RETURN 1", SqlSyntaxError, "expected a type after RETURNS"),
        ("CREATE FUNCTION f AS 'x' USING FILE 'x.py'", SqlSyntaxError, "expected JAR"),
        ("CREATE FUNCTION f AS 'm.x' LANGUAGE PYTHON", Unsupported, "Functions in PYTHON are not supported; write"),
        ("CREATE OR REPLACE FUNCTION IF NOT EXISTS f RETURN 1", DefinitionInvalid, "exclude each other"),
        (
            "CREATE FUNCTION d.f(x INT) RETURN x",
            Unsupported,
            "a name without a database, which all sessions see; write f",
        ),
    ],
)
def test_a_wrong_statement_about_a_function_is_refused_with_the_reason(
    text: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        parse(text)


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("SELECT plus(1)", True),
        ("SELECT `PLUS` (1)", True),
        ("SELECT plus FROM t", False),
        ("SELECT d.plus(1)", False),
        ("SELECT 'plus(1)'", False),
        ("SELECT surplus(1)", False),
    ],
)
def test_a_call_is_a_name_without_a_database_before_a_bracket(text: str, called: bool) -> None:
    assert calls(text, "plus") is called


class World:
    """A session over fakes."""

    def __init__(self) -> None:
        self.tables = ManagerWorld()
        self.engine, self.registry = FakeStatementEngine(), self.tables.registry
        self.shared = CreatedFunctions(self.registry)
        self.commands = FunctionCommands(self.engine, self.shared)
        self.session = Session("s", name=None, defaults={}, properties={}, opened_at=self.tables.clock.now())

    def rows(self, text: str) -> list[list[Any]]:
        statement = parse(text)
        request = CatalogRequest(session=self.session, context=self.session.context(), job_id="j")
        result = self.commands.execute(statement, request)  # type: ignore[arg-type]
        return result.rows.page(0, 100) if result.rows is not None else []


@pytest.fixture
def world() -> World:
    return World()


CREATE = "CREATE FUNCTION plus(x INT) RETURNS INT COMMENT 'one more' RETURN x + 1"


def test_a_function_is_kept_described_and_shown_until_it_is_dropped(world: World) -> None:
    world.rows(CREATE)
    kept = CreatedFunctions(world.registry).get("plus")
    described, extended = world.rows("DESCRIBE FUNCTION plus"), world.rows("DESCRIBE FUNCTION EXTENDED plus")
    shown = world.rows("SHOW CREATE FUNCTION plus")
    world.rows("DROP FUNCTION plus")

    assert kept == replace(PLUS, catalog="lake", namespace=("default",))
    assert described == [["is system function", "false"], ["is temporary", "false"]]
    assert extended == [
        *described,
        ["kind", "SCALAR"],
        ["function language", "SQL"],
        ["expression", "x + 1"],
        ["resource uris", "[]"],
        ["is deterministic", "not declared"],
        ["signature", "plus(x INT)"],
        ["returns", "INT"],
        ["comment", "one more"],
    ]
    assert shown == [["CREATE FUNCTION `plus`(x INT)\nRETURNS INT\nCOMMENT 'one more'\nRETURN x + 1\n"]]
    assert parse(shown[0][0]) == CreateFunction(function=PLUS)
    assert CreatedFunctions(world.registry).all() == {}


def test_a_function_is_created_once_unless_it_is_replaced(world: World) -> None:
    world.rows(CREATE)

    world.rows("CREATE FUNCTION IF NOT EXISTS plus RETURN 1")
    with pytest.raises(DefinitionInvalid, match=r"plus exists already.*CREATE OR REPLACE FUNCTION"):
        world.rows(CREATE)
    before = world.shared.get("plus")
    world.rows("CREATE OR REPLACE FUNCTION plus RETURN 2")
    after = world.shared.get("plus")
    world.rows("ALTER FUNCTION plus RETURN 3")

    assert before is not None
    assert after is not None
    assert before.body == "x + 1"
    assert (after.body, after.parameters, after.digest == before.digest) == ("2", None, False)
    assert world.shared.all()["plus"].body == "3"


def test_a_function_that_spark_refuses_is_not_kept(world: World) -> None:
    world.engine.broken_functions.add("plus")

    with pytest.raises(QueryFailed, match="cannot be resolved"):
        world.rows(CREATE)

    assert world.shared.all() == {}


def test_a_missing_function_is_named(world: World) -> None:
    for text in ("DROP FUNCTION plus", "ALTER FUNCTION plus RETURN 1", "SHOW CREATE FUNCTION plus"):
        with pytest.raises(DefinitionInvalid, match="Function plus does not exist; SHOW USER FUNCTIONS lists"):
            world.rows(text)

    world.rows("DROP FUNCTION IF EXISTS plus")
    world.rows("ALTER FUNCTION IF EXISTS plus RETURN 1")

    assert world.shared.all() == {}


def test_a_function_that_a_table_or_another_function_uses_is_not_dropped(world: World) -> None:
    world.rows(CREATE)
    world.rows("CREATE FUNCTION twice(x INT) RETURN plus(plus(x))")
    world.tables.sql("CREATE MATERIALIZED TABLE sums FRESHNESS = INTERVAL '1' HOUR AS SELECT * FROM orders")
    with world.registry.transaction() as transaction:
        (table,) = transaction.tables.page()
        definition = replace(table.definition, expanded_query="SELECT plus(amount) AS a FROM lake.default.orders")
        transaction.tables.replace(replace(table, definition=definition))

    with pytest.raises(
        IllegalStatus, match=r"plus cannot be dropped: materialized table lake\.default\.sums, function twice use it"
    ):
        world.rows("DROP FUNCTION plus")

    assert set(world.shared.all()) == {"plus", "twice"}


def test_a_temporary_function_and_one_of_all_sessions_have_different_names(world: World) -> None:
    world.rows("CREATE TEMPORARY FUNCTION own RETURN 1")
    world.rows(CREATE)

    with pytest.raises(DefinitionInvalid, match="which would hide it; DROP TEMPORARY FUNCTION own first"):
        world.rows("CREATE FUNCTION own RETURN 2")
    with pytest.raises(DefinitionInvalid, match="which a temporary one cannot hide"):
        world.rows("CREATE TEMPORARY FUNCTION plus RETURN 2")
    with pytest.raises(DefinitionInvalid, match="Temporary function own exists already"):
        world.rows("CREATE TEMPORARY FUNCTION own RETURN 2")
    with pytest.raises(DefinitionInvalid, match="DROP TEMPORARY FUNCTION own drops it"):
        world.rows("DROP FUNCTION own")
    with pytest.raises(DefinitionInvalid, match="DROP FUNCTION plus drops it for all sessions"):
        world.rows("DROP TEMPORARY FUNCTION plus")
    world.rows("DROP TEMPORARY FUNCTION own")

    assert (set(world.shared.all()), world.engine.temporary_functions) == ({"plus"}, frozenset())
