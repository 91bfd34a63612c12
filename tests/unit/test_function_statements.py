"""Statements about functions: their grammar, and what they do over fakes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mt_core.errors import (
    DefinitionInvalid,
    EngineUnavailable,
    IllegalStatus,
    MtError,
    QueryFailed,
    SqlSyntaxError,
    Unsupported,
)
from mt_core.model.function import (
    CreatedFunction,
    FileKind,
    FunctionFile,
    FunctionKind,
    FunctionLanguage,
    PythonDeclaration,
    PythonForm,
)
from mt_core.model.table import MaterializedTable
from mt_core.sessions.catalog.created_functions import CreatedFunctions, calls
from mt_core.sessions.catalog.function_commands import FunctionCommands
from mt_core.sessions.session import Session
from mt_core.sessions.statements.listings import CatalogRequest
from mt_core.sql.functions import (
    AlterFunction,
    CreateFunction,
    DescribeFunction,
    DropFunction,
    ShowCreateFunction,
)
from mt_core.sql.parser import parse
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.engine import SourceVector
from tests.support.fake_statements import FakeStatementEngine
from tests.support.manager_world import ManagerWorld
from tests.support.registry_facts import a_job, a_stream

PLUS = CreatedFunction(
    name="plus",
    language=FunctionLanguage.SQL,
    body="x + 1",
    parameters="x INT",
    returns="INT",
    comment="one more",
)
VIEW = {"name": "lake.default.v", "kind": "view", "version": {"hash": "1"}}
CALLED = {"name": "plus", "kind": "function", "version": {"hash": "2"}}
JAR = FunctionFile(kind=FileKind.JAR, uri="/opt/shop.jar")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (
            "CREATE FUNCTION plus(x INT) RETURNS INT COMMENT 'one more' RETURN x + 1;",
            CreateFunction(function=PLUS),
        ),
        (
            (
                "CREATE OR REPLACE TEMPORARY SYSTEM FUNCTION Plus(x INT) RETURNS INT COMMENT "
                "'one more' RETURN x + 1"
            ),
            CreateFunction(function=PLUS, temporary=True, or_replace=True),
        ),
        (
            "CREATE FUNCTION IF NOT EXISTS f(a ARRAY<STRUCT<b: DECIMAL(3, 2)>>, c INT) RETURNS MAP<STRING, "
            "INT> NOT DETERMINISTIC AS 'shop.F' LANGUAGE SCALA USING JAR '/opt/shop.jar', JAR 'b.jar'",
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
            (
                "CREATE FUNCTION f AS 'shop.words.shout' LANGUAGE PYTHON "
                "USING FILE 'more.py', ARCHIVE '/opt/shop.zip'"
            ),
            CreateFunction(
                function=CreatedFunction(
                    name="f",
                    language=FunctionLanguage.PYTHON,
                    body="shop.words.shout",
                    files=(
                        FunctionFile(kind=FileKind.FILE, uri="more.py"),
                        FunctionFile(kind=FileKind.ARCHIVE, uri="/opt/shop.zip"),
                    ),
                )
            ),
        ),
        (
            "ALTER FUNCTION IF EXISTS f AS 'shop.F'",
            AlterFunction(
                function=CreatedFunction(name="f", language=FunctionLanguage.JAVA, body="shop.F"),
                if_exists=True,
            ),
        ),
        (
            "DROP TEMPORARY SYSTEM FUNCTION IF EXISTS `F`",
            DropFunction(
                name="f", text="DROP TEMPORARY SYSTEM FUNCTION IF EXISTS `F`", temporary=True, if_exists=True
            ),
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
        ("CREATE FUNCTION f AS 'x' LANGUAGE R", SqlSyntaxError, "expected JAVA, SCALA or PYTHON"),
        ("CREATE FUNCTION f", SqlSyntaxError, "expected AS 'class or module.function', or RETURN expression"),
        ("CREATE FUNCTION f RETURNS RETURN 1", SqlSyntaxError, "expected a type after RETURNS"),
        ("CREATE FUNCTION f AS 'x' USING 'x.py'", SqlSyntaxError, "expected JAR, FILE or ARCHIVE"),
        (
            "CREATE FUNCTION f AS 'x' USING FILE 'x.py'",
            DefinitionInvalid,
            "JAVA uses JAR, not FILE; write LANGUAGE PYTHON",
        ),
        (
            "CREATE FUNCTION f AS 'm.x' LANGUAGE PYTHON USING JAR 'a.jar'",
            DefinitionInvalid,
            "uses FILE or ARCHIVE, not JAR",
        ),
        ("CREATE OR REPLACE FUNCTION IF NOT EXISTS f RETURN 1", DefinitionInvalid, "exclude each other"),
        (
            "ALTER TEMPORARY FUNCTION f AS 'shop.F'",
            Unsupported,
            "^ALTER of a temporary function is not supported, as in Flink; "
            "write CREATE OR REPLACE TEMPORARY FUNCTION f in its place.$",
        ),
        (
            "ALTER TEMPORARY SYSTEM FUNCTION IF EXISTS d.f AS 'shop.F'",
            Unsupported,
            "CREATE OR REPLACE TEMPORARY FUNCTION f ",
        ),
        ("ALTER TEMP FUNCTION f RETURN 1", Unsupported, "CREATE OR REPLACE TEMPORARY FUNCTION f "),
        (
            "CREATE FUNCTION d.f(x INT) RETURN x",
            Unsupported,
            "a name without a database and are visible to all sessions; write f",
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


def test_a_name_with_a_back_quote_is_called_with_two() -> None:
    assert calls("SELECT `Two``Faced`(1)", "two`faced")


class World:
    """A session over fakes."""

    def __init__(self) -> None:
        self.tables = ManagerWorld()
        self.engine, self.registry = FakeStatementEngine(), self.tables.registry
        self.reads: SourceVector | MtError = SourceVector(sources=())
        self.shared = CreatedFunctions(self.registry, self._read_now)
        self.commands = FunctionCommands(self.engine, self.shared)
        self.session = Session("s", name=None, defaults={}, properties={}, opened_at=self.tables.clock.now())

    def _read_now(self, _table: MaterializedTable) -> SourceVector:
        if isinstance(self.reads, MtError):
            raise self.reads
        return self.reads

    def rows(self, text: str) -> list[list[Any]]:
        statement = parse(text)
        request = CatalogRequest(session=self.session, context=self.session.context(), job_id="j")
        result = self.commands.answers[type(statement)](statement, request)
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
    assert described == [
        ["is system function", "false"],
        ["is temporary", "false"],
        ["class name", None],
        ["function language", "SQL"],
        ["resource uris", "[]"],
    ]
    assert extended == [
        *described,
        ["kind", "SCALAR"],
        ["requirements", "[]"],
        ["is deterministic", "not declared"],
        ["supports constant folding", "true"],
        ["signature", "plus(x INT)"],
        ["expression", "x + 1"],
        ["returns", "INT"],
        ["comment", "one more"],
    ]
    assert shown == [["CREATE FUNCTION `plus`(x INT)\nRETURNS INT\nCOMMENT 'one more'\nRETURN x + 1\n"]]
    assert parse(shown[0][0]) == CreateFunction(function=PLUS)
    assert CreatedFunctions(world.registry).all() == {}


def test_a_class_is_described_with_its_jars_as_flink_does(world: World) -> None:
    world.rows("CREATE FUNCTION f DETERMINISTIC AS 'shop.F' USING JAR '/opt/shop.jar', JAR 'b.jar'")

    described, extended = world.rows("DESCRIBE FUNCTION f"), world.rows("DESCRIBE FUNCTION EXTENDED f")

    uris = "ResourceUri{resourceType=JAR, uri='/opt/shop.jar'}, ResourceUri{resourceType=JAR, uri='b.jar'}"
    assert described[2:] == [
        ["class name", "shop.F"],
        ["function language", "JAVA"],
        ["resource uris", f"[{uris}]"],
    ]
    assert extended[5:] == [
        ["kind", "SCALAR"],
        ["requirements", "[]"],
        ["is deterministic", "true"],
        ["supports constant folding", "true"],
        ["signature", "f(...)"],
        ["returns", "INT"],
        ["comment", None],
    ]


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


@pytest.mark.parametrize("name", ["../x", "a/b", "a\\b", "..", "a\nb", "a\x00b"])
@pytest.mark.parametrize("kind", ["FUNCTION", "TEMPORARY FUNCTION"])
def test_a_function_is_named_by_the_rule_of_tables(world: World, name: str, kind: str) -> None:
    with pytest.raises(
        DefinitionInvalid, match=r"must not contain a slash, a backslash or a control character"
    ):
        world.rows(f"CREATE {kind} `{name}`(x INT) RETURN x")

    assert (world.shared.all(), world.engine.temporary_functions) == ({}, frozenset())


@pytest.mark.parametrize("kind", ["FUNCTION", "TEMPORARY FUNCTION"])
def test_two_dots_inside_the_name_of_a_function_are_accepted(world: World, kind: str) -> None:
    world.rows(f"CREATE {kind} `a..b`(x INT) RETURN x")

    assert {*world.shared.all(), *world.engine.temporary_functions} == {"a..b"}


def test_what_a_module_declares_is_stored_only_of_the_function_as_it_is_now(world: World) -> None:
    declared = PythonDeclaration(python="3.11", form=PythonForm.VALUE, name="f", returns="INT", parameters=())
    world.rows("CREATE FUNCTION f AS 'users.f' LANGUAGE PYTHON USING FILE 'users.py'")
    old = world.shared.all()["f"]
    world.rows(
        "CREATE OR REPLACE FUNCTION f RETURNS BIGINT AS 'users.f' LANGUAGE PYTHON USING FILE 'users.py'"
    )
    new = world.shared.all()["f"]

    world.shared.declare(replace(old, declared=declared))
    after_old = world.shared.all()
    world.shared.declare(replace(new, declared=declared))
    after_new = CreatedFunctions(world.registry).all()
    world.rows("DROP FUNCTION f")
    world.shared.declare(replace(new, declared=declared))

    assert (after_old, after_new) == ({"f": new}, {"f": replace(new, declared=declared)})
    assert after_new["f"].digest == new.digest
    assert world.shared.all() == {}


def test_a_missing_function_is_named(world: World) -> None:
    for text in ("DROP FUNCTION plus", "ALTER FUNCTION plus RETURN 1", "SHOW CREATE FUNCTION plus"):
        with pytest.raises(
            DefinitionInvalid, match="Function plus does not exist; SHOW USER FUNCTIONS lists"
        ):
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
        definition = replace(
            table.definition, expanded_query="SELECT plus(amount) AS a FROM lake.default.orders"
        )
        transaction.tables.replace(replace(table, definition=definition))

    with pytest.raises(
        IllegalStatus,
        match=r"plus cannot be dropped: materialized table lake\.default\.sums, function twice use it",
    ):
        world.rows("DROP FUNCTION plus")

    assert set(world.shared.all()) == {"plus", "twice"}


def test_a_function_that_a_table_calls_through_a_view_is_not_dropped_until_a_refresh_no_longer_finds_it(
    world: World,
) -> None:
    world.rows(CREATE)
    world.tables.sql("CREATE MATERIALIZED TABLE sums FRESHNESS = INTERVAL '1' HOUR AS SELECT * FROM orders")
    recorded(world, "plus")

    with pytest.raises(IllegalStatus) as raised:
        world.rows("DROP FUNCTION plus")

    assert str(raised.value) == (
        "Function plus cannot be dropped: materialized table lake.default.sums through a view uses it. "
        "DROP or ALTER these first, STOP the jobs, or give the function another body with CREATE "
        "OR REPLACE FUNCTION. If a view has stopped calling it, refresh the table first."
    )
    assert set(world.shared.all()) == {"plus"}
    recorded(world, "other")
    world.rows("DROP FUNCTION plus")
    assert world.shared.all() == {}


def test_before_the_first_refresh_of_a_table_its_query_says_what_it_calls_through_views(world: World) -> None:
    world.rows(CREATE)
    world.tables.sql("CREATE MATERIALIZED TABLE sums FRESHNESS = INTERVAL '1' HOUR AS SELECT * FROM orders")
    recorded(world, "plus", fingerprint="of an earlier definition")
    world.reads = SourceVector.from_json([VIEW, CALLED])

    with pytest.raises(
        IllegalStatus, match=r"plus cannot be dropped: materialized table lake\.default\.sums through a view"
    ):
        world.rows("DROP FUNCTION plus")
    world.reads = EngineUnavailable("Spark is starting.")
    with pytest.raises(EngineUnavailable):
        world.rows("DROP FUNCTION plus")
    world.reads = QueryFailed("There is no such table.")
    world.rows("DROP FUNCTION plus")

    assert world.shared.all() == {}


def test_a_function_that_a_table_called_through_a_view_before_it_was_altered_is_dropped(world: World) -> None:
    world.rows(CREATE)
    world.tables.sql("CREATE MATERIALIZED TABLE sums FRESHNESS = INTERVAL '1' HOUR AS SELECT * FROM orders")
    recorded(world, "plus", fingerprint="of an earlier definition")

    world.rows("DROP FUNCTION plus")

    assert world.shared.all() == {}


def recorded(world: World, function: str, fingerprint: str | None = None) -> None:
    """Let the newest run of the one table have read a view that calls *function*."""
    with world.registry.transaction() as tx:
        (table,) = tx.tables.page()
        run = tx.runs.newest(table_id=table.table_id)[0]
        new = replace(
            run,
            vector=(VIEW, {**CALLED, "name": function}),
            fingerprint=fingerprint or fingerprint_of(table.definition),
        )
        tx.runs.replace(new, expected=run)


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


def test_a_job_gets_a_temporary_function_with_the_content_that_its_files_had(world: World) -> None:
    world.rows("CREATE TEMPORARY FUNCTION a RETURN 1")
    world.rows("CREATE TEMPORARY FUNCTION own AS 'shop.F' USING JAR '/opt/shop.jar'")
    world.rows("CREATE OR REPLACE TEMPORARY FUNCTION a RETURN 2")
    world.rows("CREATE TEMPORARY FUNCTION IF NOT EXISTS a RETURN 3")

    first, second = (parse(each.text) for each in world.session.temporary)

    assert isinstance(first, CreateFunction)
    assert isinstance(second, CreateFunction)
    assert first.function.body == "2"
    assert second.function.files == (replace(JAR, content="hash of /opt/shop.jar"),)
    assert "#" not in world.rows("SHOW CREATE FUNCTION own")[0][0]


def test_a_statement_of_a_job_that_cannot_be_read_any_more_keeps_no_gateway_from_its_start(
    world: World,
) -> None:
    world.rows(CREATE)
    temporary = (
        "CREATE TEMPORARY FUNCTION f AS 'x' LANGUAGE COBOL",
        "CREATE TEMPORARY FUNCTION own RETURN 1",
    )
    with world.registry.transaction() as tx:
        tx.jobs.insert(a_job(definition=a_stream(temporary=temporary)))

    needed = [function.name for function in world.shared.needed()]

    assert needed == ["plus", "own"]
