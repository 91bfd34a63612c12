"""Functions of users in Spark: SQL, classes and Python, each in sessions, queries of refreshes and views."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mt_core.clock import SystemClock
from mt_core.errors import Canceled, ConfigError, DefinitionInvalid, MtError, QueryFailed, Unsupported
from mt_core.model.function import CreatedFunction, FunctionKind
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.ports import SessionContext
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.session_functions import NoFunctions
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.function_sync import FunctionSync
from mt_core.spark.functions.python_code import ModuleReader
from mt_core.spark.refresh.engine import spark_engine
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.sql.functions import CreateFunction
from mt_core.sql.parser import parse
from mt_core.tables.engine import Query
from tests.integration.stream_world import StreamWorld
from tests.support.buckets import S3
from tests.support.buckets import object_stores as object_stores
from tests.support.function_code import (
    LONGEST,
    OF_HIVE,
    PYTHON,
    TOTAL,
    function_jar,
    greeting,
    module_archive,
)
from tests.support.gateway.own_process import wait_until
from tests.support.memory_registry import MemoryRegistry

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PICKY = (
    "implements UDF1<Integer, Integer> { public Picky(int a) { } public Integer "
    "call(Integer a) { return a; } }"
)

OF_PYTHON = {
    each: each for each in ("scaled", "joined", "marked", "doubled", "counted", "middle", "tripled")
} | {
    "letters": "Letters",
    "named": "Named",
}
SCALARS = (
    "SELECT scaled(id), marked(id), doubled(id), counted(id), tripled(id), shifted(id), kind(id) "
    "FROM range(1, 3) ORDER BY id"
)

# As a gateway has one, which remembers what it has read of a file.
READER = ModuleReader({})

_numbers = itertools.count()


class World:
    """The statements and the refreshes of one gateway, with its functions."""

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        self.shared = CreatedFunctions(MemoryRegistry(SystemClock()))
        # It stands still unless a test lets each look at it take a while.
        self.now_s, self.step_s = 0.0, 0.0
        self.driver, self.files = driver, FunctionFiles(folder / "functions")
        self.use(has_code=True)

    def use(self, *, has_code: bool) -> None:
        """Begin as a gateway does, with its option or without it."""
        self.driver.functions = FunctionSync(
            self.shared.all,
            self.files,
            self._now,
            modules=READER,
            keep=self.shared.declare,
            has_code=has_code,
        )
        contexts = SparkContexts(self.driver)
        self.statements, self.engine = SparkStatements(contexts), spark_engine(contexts)
        self.one, self.other = self.session(), self.session()

    def _now(self) -> float:
        self.now_s += self.step_s
        return self.now_s

    def session(self) -> SessionContext:
        return SessionContext(session_id=f"functions-{next(_numbers)}", properties={})

    def create(
        self, text: str, context: SessionContext | None = None, *, job_id: str = "functions-create"
    ) -> CreatedFunction:
        """Create, or replace, a function of all sessions."""
        statement = parse(text)
        assert isinstance(statement, CreateFunction)
        kept = self.statements.check_function(context or self.one, statement.function, job_id=job_id)
        self.shared.replace(kept)
        return kept

    def rows(self, sql: str, context: SessionContext | None = None) -> list[list[Any]]:
        rows = self.statements.execute(
            context or self.one, sql, job_id=f"functions-job-{next(_numbers)}"
        ).rows
        return rows.page(0, 100) if rows is not None else []

    def value(self, expression: str, context: SessionContext | None = None) -> Any:
        return self.rows(f"SELECT {expression}", context)[0][0]

    def lineage(self, text: str) -> tuple[str | None, list[tuple[str, str]]]:
        """Return why rows of a query may differ from equal sources, and the versions of the functions
        that it calls.
        """
        vector = self.engine.sources.read_vector(Query(text=text, catalog="lake", namespace=("default",)))
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


def test_a_function_of_sql_has_parameters_and_is_seen_by_every_session_until_it_is_dropped(
    world: World,
) -> None:
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
    kept = world.create(
        "CREATE FUNCTION firsts(n INT) RETURNS TABLE RETURN SELECT id AS a FROM range(10) WHERE id < n"
    )

    assert (kept.kind, world.rows("SELECT * FROM firsts(2)")) == (FunctionKind.TABLE, [[0], [1]])


def test_a_body_that_cannot_be_called_fails_at_create(world: World) -> None:
    for text in (
        "CREATE FUNCTION f(x INT) RETURN y + 1",
        "CREATE FUNCTION f(x INT) RETURNS INT RETURN nothing(x)",
        "CREATE FUNCTION f(x INT) RETURNS INT RETURN sum(x)",
        "CREATE FUNCTION abs(x INT) RETURN x",
        "CREATE FUNCTION f(x ARRAY<INT>) RETURN explode(x)",
        "CREATE FUNCTION f() RETURNS INT RETURN explode(array(1, 2))",
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


def test_classes_of_a_jar_are_called_and_a_replaced_jar_really_replaces_them(
    world: World, tmp_path: Path
) -> None:
    jar = function_jar(tmp_path, "one.jar", Longest=LONGEST, Total=TOTAL, **greeting("hello"))
    other = function_jar(tmp_path, "two.jar", **greeting("ciao"))
    on_executors = "SELECT greet(id) FROM range(0, 2, 1, 2) ORDER BY id"

    greet = world.create(f"CREATE FUNCTION greet AS 'shop.Greet' USING JAR '{jar}'")
    longest = world.create(f"CREATE FUNCTION longest AS 'shop.Longest' LANGUAGE SCALA USING JAR '{jar}'")
    total = world.create(f"CREATE FUNCTION total DETERMINISTIC AS 'shop.Total' USING JAR '{jar}'")
    first = world.rows(on_executors)
    world.statements.create_temporary_function(
        world.other, replace(greet, name="old_greet"), job_id="functions-create"
    )
    jar.write_bytes(other.read_bytes())
    unchanged = world.rows(on_executors)
    world.create(f"CREATE OR REPLACE FUNCTION greet AS 'shop.Greet' USING JAR '{jar}'")

    assert (greet.returns, longest.returns, longest.kind) == ("STRING", "INT", FunctionKind.AGGREGATE)
    assert (total.returns, total.kind) == ("STRING", FunctionKind.AGGREGATE)
    assert first == unchanged == [["hello0"], ["hello1"]]
    assert world.rows(on_executors) == [["ciao0"], ["ciao1"]]
    assert world.value("greet(7)", world.other) == "ciao7"
    assert world.rows(
        "SELECT longest(CAST(id AS STRING)), total(CAST(id AS INT)) FROM range(0, 11, 1, 2)"
    ) == [[2, "total 55"]]
    assert world.lineage("SELECT total(id) AS t FROM range(3)")[0] is None
    with pytest.raises(QueryFailed, match="requires 1 parameter"):
        world.value("greet(1, 2)")


def test_a_class_that_cannot_be_a_function_is_refused_with_the_reason(world: World, tmp_path: Path) -> None:
    jar = function_jar(
        tmp_path,
        "odd.jar",
        Plain="{ }",
        Picky=PICKY,
        OfHive=OF_HIVE,
        OfRows=TOTAL.replace("Long, Long, String", "Row, Long, String")
        .replace("Long a)", "Row a)")
        .replace("b + a", "b"),
    )

    with pytest.raises(DefinitionInvalid, match=r"class shop\.Missing cannot be used: .*ClassNotFound"):
        world.create(f"CREATE FUNCTION f AS 'shop.Missing' USING JAR '{jar}'")
    for returned in ("TABLE", "TABLE (n INT)"):
        with pytest.raises(
            Unsupported, match=r"RETURNS TABLE.*write it with LANGUAGE PYTHON, or as RETURN and a query"
        ):
            world.create(f"CREATE FUNCTION f RETURNS {returned} AS 'shop.Plain' USING JAR '{jar}'")
    with pytest.raises(Unsupported, match="implements none of"):
        world.create(f"CREATE FUNCTION f AS 'shop.Plain' USING JAR '{jar}'")
    with pytest.raises(
        Unsupported, match=r"class shop\.OfHive is a function of Hive.*UDF0 to UDF22 in its place"
    ):
        world.create(f"CREATE FUNCTION f AS 'shop.OfHive' USING JAR '{jar}'")
    with pytest.raises(
        QueryFailed, match=r"Aggregator shop\.OfRows takes org\.apache\.spark\.sql\.Row, not one number"
    ):
        world.create(f"CREATE FUNCTION f AS 'shop.OfRows' USING JAR '{jar}'")
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

    world.statements.create_temporary_function(world.one, statement.function, job_id="functions-create")

    assert world.value("own(2)") == 20
    assert world.statements.session_state(world.one).functions == {"own"}
    with pytest.raises(QueryFailed, match="own"):
        world.value("own(2)", world.other)
    world.rows("DROP TEMPORARY FUNCTION own")
    assert world.statements.session_state(world.one).functions == set()


@pytest.mark.slow
def test_functions_of_a_python_file_are_called_as_it_was_when_they_were_created(
    world: World, tmp_path: Path
) -> None:
    before = set(sys.modules)
    file = tmp_path / "users.py"
    file.write_text(PYTHON.format(factor=3))
    using = f"LANGUAGE PYTHON USING FILE '{file}'"
    kept = [
        world.create(f"CREATE FUNCTION {name} AS 'users.{body}' {using}") for name, body in OF_PYTHON.items()
    ]
    world.create(f"CREATE FUNCTION kind(x INT) RETURNS STRING AS 'users.bare' {using}")
    world.create(f"CREATE FUNCTION shifted RETURNS BIGINT AS 'users.plain_series' {using}")
    world.create(f"CREATE FUNCTION times RETURNS TABLE (n INT) AS 'users.Plain' {using}")
    world.create(f"CREATE FUNCTION old_scaled AS 'users.scaled' {using}")
    file.write_text(PYTHON.format(factor=5))

    assert [(each.kind.value, each.returns) for each in kept] == [
        ("SCALAR", "BIGINT"),
        ("SCALAR", "ARRAY<STRING>"),
        ("SCALAR", "STRING"),
        ("SCALAR", "BIGINT"),
        ("SCALAR", "BIGINT"),
        ("AGGREGATE", "DOUBLE"),
        ("SCALAR", "BIGINT"),
        ("TABLE", "n INT,word STRING"),
        ("TABLE", ""),
    ]
    assert world.rows(SCALARS, world.other) == [
        [3, "<1>", 2, 101, 3, 2, "int"],
        [6, "<2>", 4, 102, 6, 3, "int"],
    ]
    assert world.rows("SELECT middle(id) FROM range(3)") == [[1.0]]
    assert world.rows("SELECT * FROM letters('ab'), times(2)") == [
        [0, "a", 0],
        [0, "a", 3],
        [1, "b", 0],
        [1, "b", 3],
    ]
    assert world.rows("SELECT m FROM named('m')") == [[3]]
    assert world.value("joined('1', end => 2)") == ["1.02"]
    assert world.value("joined(1, '', 'x')") == ["1.0", "x"]
    with pytest.raises(QueryFailed, match="requires 1 parameter"):
        world.value("scaled(1, 2)")

    world.create(f"CREATE OR REPLACE FUNCTION scaled AS 'users.scaled' {using}")

    assert world.rows(
        "SELECT scaled(id), old_scaled(id) FROM range(1, 3, 1, 2) ORDER BY id", world.other
    ) == [
        [5, 3],
        [10, 6],
    ]
    assert not [name for name in set(sys.modules) - before if name.startswith(("freshtable_code_", "users"))]


def test_a_table_function_is_deterministic_as_its_statement_says_else_as_python_does(
    world: World, spark_driver: SparkDriver, tmp_path: Path
) -> None:
    file = tmp_path / "users.py"
    body = "class {}:\n    def eval(self) -> Iterator[tuple[int]]:\n        yield (1,)\n"
    file.write_text(
        "from collections.abc import Iterator\nfrom pyspark.sql.functions import udtf\n"
        f"{body.format('Plain')}Sure = udtf(Plain, returnType='n INT').asDeterministic()\n"
    )
    for name, clause, code in (
        ("sure", "", "Sure"),
        ("unsure", "NOT DETERMINISTIC", "Sure"),
        ("plain", "RETURNS TABLE (n INT)", "Plain"),
        ("declared", "RETURNS TABLE (n INT) DETERMINISTIC", "Plain"),
    ):
        world.create(f"CREATE FUNCTION {name} {clause} AS 'users.{code}' LANGUAGE PYTHON USING FILE '{file}'")

    session = spark_driver.new_session()
    spark_driver.functions.apply(session)
    found = {}
    for name in world.shared.all():
        plan: Any = session.sql(f"SELECT * FROM {name}()")._jdf.queryExecution().analyzed()
        while plan.nodeName() != "Generate":
            plan = plan.children().head()
        found[name] = plan.generator().deterministic()

    assert found == {"sure": True, "unsure": False, "plain": False, "declared": True}


@pytest.mark.slow
def test_modules_of_two_archives_of_equal_names_are_told_apart(world: World, tmp_path: Path) -> None:
    one = module_archive(tmp_path / "one.zip", "!")
    other = module_archive(tmp_path / "other.whl", "?")

    for name, archive in (("shout", one), ("ask", other)):
        world.create(
            f"CREATE FUNCTION {name} DETERMINISTIC AS 'shop.words.shout' LANGUAGE PYTHON "
            f"USING ARCHIVE '{archive}'"
        )

    assert world.rows("SELECT shout(id), ask(id) FROM range(0, 2, 1, 2) ORDER BY id") == [
        ["0!", "0?"],
        ["1!", "1?"],
    ]
    assert world.lineage("SELECT ask(id) AS a FROM range(2)")[0] is None


def test_a_function_that_cannot_be_registered_is_tried_again_before_the_next_statement(
    world: World, tmp_path: Path
) -> None:
    file = tmp_path / "users.py"
    file.write_text("def f() -> int:\n    return 1\n")
    kept = world.create(f"CREATE FUNCTION f AS 'users.f' LANGUAGE PYTHON USING FILE '{file}'")
    lost = replace(kept, files=(replace(kept.files[0], content="1" * 64),))
    world.shared.replace(lost)
    with pytest.raises(QueryFailed) as raised:
        world.value("F()")
    assert (raised.value.message, raised.value.error_class, raised.value.line, raised.value.position) == (
        f"Function f cannot be called: file {file} does not have the content {'1' * 64} that the "
        "function needs; restore that file, or CREATE OR REPLACE the function without #sha256=….",
        "UNRESOLVED_ROUTINE",
        1,
        8,
    )

    (tmp_path / "functions" / f"{'1' * 64}.py").write_text("def f() -> int:\n    return 2\n")

    assert world.value("f()") == 2


def test_a_copy_that_the_home_has_lost_comes_back_from_a_file_that_is_still_the_same(
    world: World, tmp_path: Path
) -> None:
    file = tmp_path / "users.py"
    file.write_text("def f() -> int:\n    return 1\n")
    kept = world.create(f"CREATE FUNCTION f AS 'users.f' LANGUAGE PYTHON USING FILE '{file}'")
    copy = tmp_path / "functions" / f"{kept.files[0].content}.py"
    copy.unlink()

    answers = world.value("f()", world.other), world.value("f()")

    assert (answers, copy.read_text()) == ((1, 1), file.read_text())


@pytest.mark.slow
def test_a_stream_whose_function_has_lost_its_file_waits_for_it(
    world: World, spark_driver: SparkDriver, tmp_path: Path
) -> None:
    file = tmp_path / "users.py"
    file.write_text("def f(a: str) -> str:\n    return a + '!'\n")
    kept = world.create(f"CREATE FUNCTION f AS 'users.f' LANGUAGE PYTHON USING FILE '{file}'")
    copy = tmp_path / "functions" / f"{kept.files[0].content}.py"
    streams = StreamWorld(spark_driver, tmp_path)
    engine = streams.engine
    job_id, definition = streams.start("INSERT INTO arrivals SELECT f(row) FROM flights")
    streams.append("a")
    streams.wait_rows(["a!"])
    engine.stop(job_id, definition)
    taken = copy.rename(tmp_path / "taken.py")
    file.unlink()

    engine.start(job_id, definition, 2)

    end = streams.wait_end(job_id)
    engine.stop(job_id, definition)
    missing = engine.missing(job_id, definition)
    taken.rename(copy)
    back = engine.missing(job_id, definition)
    streams.append("b")
    engine.start(job_id, definition, 3)
    streams.wait_rows(["a!", "b!"])
    engine.stop(job_id, definition)
    assert (end.missing, end.final, end.error) == (True, False, missing)
    assert missing is not None
    assert missing.startswith("Function f cannot be called: there is no file ")
    assert missing.endswith(
        " The job continues once it is back; STOP JOB ends the job and keeps the rows that it has written."
    )
    assert back is None


@pytest.mark.slow
@pytest.mark.usefixtures("object_stores")
def test_files_are_fetched_from_object_stores_from_https_and_from_what_spark_has_a_file_system_for(
    world: World, spark_driver: SparkDriver, tmp_path: Path
) -> None:
    hadoop = spark_driver.session.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.code.link./dir", tmp_path.as_uri())
    jar = function_jar(tmp_path, "remote.jar", **greeting("far"))
    archive = module_archive(tmp_path / "far.zip", "!")

    with S3() as store:
        store.objects["users.py"] = b"def f() -> int:\n    return 1\n"
        store.objects["far.zip"] = archive.read_bytes()
        web = f"http://{store.address}/bucket/far.zip"
        world.create(f"CREATE FUNCTION f AS 'users.f' LANGUAGE PYTHON USING FILE '{store.uri('users.py')}'")
        world.create(f"CREATE FUNCTION loud AS 'shop.words.shout' LANGUAGE PYTHON USING ARCHIVE '{web}'")
        world.create("CREATE FUNCTION greet AS 'shop.Greet' USING JAR 'viewfs://code/dir/remote.jar'")
    jar.unlink()

    assert world.rows("SELECT f(), loud('a'), greet(7)", world.other) == [[1, "a!", "far7"]]
    with (
        S3() as store,
        pytest.raises(DefinitionInvalid, match=r"^Function g: s3://bucket/no\.py.* cannot be read: "),
    ):
        world.create(f"CREATE FUNCTION g AS 'no.g' LANGUAGE PYTHON USING FILE '{store.uri('no.py')}'")
    with pytest.raises(ConfigError, match=r"^Function g: oss://bucket/no\.py: .*add hadoop-aliyun"):
        world.create("CREATE FUNCTION g AS 'no.g' LANGUAGE PYTHON USING FILE 'oss://bucket/no.py'")
    with (
        S3() as store,
        pytest.raises(DefinitionInvalid, match=r"^Function g: http://.*/bucket/no\.py cannot be read: "),
    ):
        world.create(
            f"CREATE FUNCTION g AS 'no.g' LANGUAGE PYTHON USING FILE 'http://{store.address}/bucket/no.py'"
        )


def test_the_name_of_a_dropped_function_is_free_although_only_another_session_called_it(world: World) -> None:
    world.create("CREATE FUNCTION freed() RETURN 1")
    called = world.value("freed()", world.other)
    world.shared.drop("freed")

    world.create("CREATE FUNCTION freed() RETURN 2")

    assert (called, world.value("freed()")) == (1, 2)


def test_a_function_that_fails_slowly_does_not_hold_up_each_statement(world: World, tmp_path: Path) -> None:
    file = tmp_path / "users.py"
    file.write_text("def f() -> int:\n    return 1\n")
    kept = world.create(f"CREATE FUNCTION slow AS 'users.f' LANGUAGE PYTHON USING FILE '{file}'")
    world.shared.replace(replace(kept, files=(replace(kept.files[0], content="2" * 64),)))
    world.now_s, world.step_s = 100.0, 1.0
    world.rows("SELECT 1")

    (tmp_path / "functions" / f"{'2' * 64}.py").write_text(file.read_text())

    with pytest.raises(QueryFailed, match=r"Function slow cannot be called: .* does not have the content"):
        world.value("slow()")
    world.now_s = 200.0
    assert world.value("slow()") == 1


def test_a_function_without_a_declaration_is_read_once_at_its_first_use_and_kept(
    world: World, tmp_path: Path
) -> None:
    loads = tmp_path / "loads"
    broken, file = tmp_path / "broken.py", tmp_path / "users.py"
    file.write_text("def f() -> int:\n    return 1\n")
    broken.write_text(file.read_text())
    kept = world.create(f"CREATE FUNCTION f AS 'users.f' LANGUAGE PYTHON USING FILE '{file}'")
    other = world.create(f"CREATE FUNCTION g AS 'broken.f' LANGUAGE PYTHON USING FILE '{broken}'")
    exits = f"open({str(loads)!r}, 'a').write('x')\nimport os\nos._exit(3)\n"
    (tmp_path / "functions" / f"{'3' * 64}.py").write_text(exits)
    world.shared.replace(replace(kept, declared=None))
    world.shared.replace(replace(other, declared=None, files=(replace(other.files[0], content="3" * 64),)))

    values = world.value("f()"), world.value("f()", world.other)

    assert (values, world.shared.get("f")) == ((1, 1), kept)
    with pytest.raises(
        QueryFailed, match=r"Function g cannot be called: module broken ends the process .*exit code 3"
    ):
        world.value("g()", world.other)
    assert loads.read_text() == "x"


def test_a_module_that_hangs_holds_up_its_own_statement_alone_until_that_is_cancelled(
    world: World, tmp_path: Path
) -> None:
    begun, file, errors = tmp_path / "begun", tmp_path / "users.py", list[MtError]()
    file.write_text(f"open({str(begun)!r}, 'w').close()\nimport time\ntime.sleep(600)\n")

    def create() -> None:
        try:
            world.create(
                f"CREATE FUNCTION f AS 'users.f' LANGUAGE PYTHON USING FILE '{file}'", job_id="hanging"
            )
        except MtError as error:
            errors.append(error)

    thread = threading.Thread(target=create)
    thread.start()
    wait_until(begun.exists, "the module was not loaded")
    world.create("CREATE FUNCTION plus(x INT) RETURN x + 1", world.other)
    meanwhile = world.value("plus(1)", world.session())
    world.statements.cancel("hanging")
    thread.join()

    assert (meanwhile, [type(error) for error in errors], list(world.shared.all())) == (
        2,
        [Canceled],
        ["plus"],
    )


def test_without_functions_only_those_in_sql_are_called(world: World, tmp_path: Path) -> None:
    file = tmp_path / "users.py"
    file.write_text("def f() -> int:\n    return 1\n")
    of_python = f"AS 'users.f' LANGUAGE PYTHON USING FILE '{file}'"
    world.create(f"CREATE FUNCTION f {of_python}")

    # Before a session has it, as after a start.
    world.use(has_code=False)
    world.create("CREATE FUNCTION plus(x INT) RETURN x + 1")

    assert world.value("plus(1)", world.session()) == 2
    with pytest.raises(
        QueryFailed, match="Function f cannot be called: the gateway was started with --without-functions"
    ):
        world.value("f()", world.session())
    with pytest.raises(Unsupported, match=r"Function g cannot be created: .*--without-functions"):
        world.create(f"CREATE FUNCTION g {of_python}", world.session())


def test_an_error_in_python_shows_its_own_traceback(world: World, tmp_path: Path) -> None:
    file = tmp_path / "users.py"
    file.write_text(PYTHON.format(factor=3))
    world.create(f"CREATE FUNCTION failing AS 'users.failing' LANGUAGE PYTHON USING FILE '{file}'")

    file.write_text("# Another version.")

    with pytest.raises(QueryFailed) as raised:
        world.value("failing(1)")

    assert raised.value.message.splitlines() == [
        "An exception was thrown from the Python worker. Please see the stack trace below.",
        "Traceback (most recent call last):",
        f'  File "{file}", line 32, in failing',
        "    return {}[x]",
        "           ~~^^^",
        "KeyError: 1",
    ]


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all cases, which is read once."""
    file = tmp_path_factory.mktemp("users") / "users.py"
    more = "from builtins import max\n\nasync def later(x: int) -> int:\n    return x\n"
    file.write_text(PYTHON.format(factor=3) + more)
    return file


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("AS 'users.nothing'", "module users has no nothing; it has Letters, Named, Plain, bare"),
        ("AS 'other.bare'", r"users\.py is the module users, not other; write AS 'users\.bare'"),
        ("AS 'bare'", "names no module"),
        ("AS 'users.bare'", "no type hint for its result"),
        ("AS 'users.FACTOR'", "is not a function"),
        ("AS 'users.several'", "yields several values"),
        ("AS 'users.Plain'", "does not declare its columns"),
        ("RETURNS TABLE (n INT) AS 'users.scaled'", "returns a value, not a table"),
        ("RETURNS INT AS 'users.Letters'", "returns rows"),
        ("RETURNS INT AS 'users.marked'", "is declared in Python to return STRING, not INT"),
        ("RETURNS nothing AS 'users.bare'", "(?i)nothing"),
        ("(x INT, y INT) AS 'users.scaled'", "does not accept the 2 parameters"),
        ("(x INT DEFAULT 1) AS 'users.scaled'", "write the default of a parameter in Python"),
        (
            "RETURNS INT AS 'users.max'",
            r"users\.max does not declare its parameters; write a function in Python",
        ),
        ("RETURNS INT AS 'users.later'", "is asynchronous; write def"),
    ],
)
def test_python_that_cannot_be_a_function_is_refused_with_the_reason(
    world: World, users: Path, clauses: str, reason: str
) -> None:
    with pytest.raises(MtError, match=reason):
        world.create(f"CREATE FUNCTION f {clauses} LANGUAGE PYTHON USING FILE '{users}'")
