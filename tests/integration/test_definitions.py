from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from py4j.clientserver import JavaClient
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import DataFrame

from mt_core.errors import (
    CatalogUnsupported,
    DefinitionInvalid,
    MtError,
    QueryFailed,
    TableExists,
    TableNotFound,
)
from mt_core.model.run import RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.jvm_objects import active_session, java_dataset, own_class
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.queries.plan_json import json_of
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(world: RefreshWorld) -> RefreshWorld:
    """A world with a source of two rows."""
    world.spark(
        "CREATE TABLE orders (id INT, ds STRING, amount DECIMAL(10,2)) USING iceberg",
        "INSERT INTO orders VALUES (1, '2026-03-01', 1.50), (2, '2026-03-02', 2.25)",
    )
    return world


# ---------------------------------------------------------------------------------------- what can be created


def test_every_type_that_storage_has_arrives_with_its_values(world: RefreshWorld) -> None:
    query = """SELECT CAST(7 AS TINYINT) AS tiny, CAST(8 AS SMALLINT) AS small, CAST('ab' AS STRING) AS text,
        CAST(1.25 AS DECIMAL(38,18)) AS dec, X'CAFE' AS bin, CAST('NaN' AS DOUBLE) AS dbl,
        CAST(1.5 AS FLOAT) AS flt, DATE '1582-10-15' AS day, TIMESTAMP_NTZ '2026-03-29 02:30:00' AS ntz,
        TIMESTAMP_LTZ '2026-03-29 02:30:00.123456' AS ltz,
        array(1, NULL) AS arr, map('k', named_struct('a b', 1, 'B', array('x'))) AS nested, true AS yes,
        CAST(NULL AS BIGINT) AS nothing"""

    run = world.create("mt", query)

    assert run.status is RunStatus.SUCCEEDED, run.error
    assert [kind for _, kind in world.columns("mt")] == [
        "int", "int", "string", "decimal(38,18)", "binary", "double", "float", "date", "timestamp_ntz",
        "timestamp", "array<int>", "map<string,struct<a b:int,B:array<string>>>", "boolean", "bigint",
    ]  # fmt: skip
    assert str(world.rows("mt")) == str(world.plain(query))
    declared = [row[:2] for row in world.sql("DESCRIBE mt").rows.page(0, 3)]  # type: ignore[union-attr]
    assert declared == [["tiny", "INT"], ["small", "INT"], ["text", "STRING"]]


PIPES = [
    "FROM orders",
    "FROM orders |> WHERE id > 0",
    "FROM orders |> WHERE orders.id > 0 |> EXTEND id * 2 AS t",
    "FROM orders |> EXTEND 1 AS one |> SET id = id + 1 |> DROP ds",
    "FROM orders AS o |> WHERE o.id > 0 |> ORDER BY id |> AS p |> SELECT p.id, p.ds",
    "FROM orders |> AS p |> JOIN orders AS o USING (id, ds, amount)",
    "FROM orders |> UNION ALL (SELECT 7, 'x', 1.00)",
    "SELECT id FROM (FROM orders |> UNION ALL (SELECT 7, 'x', 1.00))",
    "FROM orders |> AGGREGATE sum(id) AS t GROUP BY ds |> EXTEND t + 2 AS tt",
    "WITH c AS (SELECT * FROM orders) FROM c |> EXTEND 'y' AS y",
    "SELECT * FROM orders |> EXTEND id * 2 AS t",
    "TABLE orders |> WHERE id > 0",
    "SELECT id FROM orders WHERE id IN (FROM orders |> SELECT id)",
]


def test_a_query_in_pipe_syntax_has_the_columns_that_its_sources_had_when_it_was_created(
    orders: RefreshWorld,
) -> None:
    tables = {f"mt_{number}": query for number, query in enumerate(PIPES)}
    created = {query: orders.create(name, query).status for name, query in tables.items()}
    before = {query: orders.plain(query) for query in PIPES}

    orders.spark("ALTER TABLE orders ADD COLUMN z INT")
    refreshed = {
        query: (run.status, run.error) for name, query in tables.items() for run in [orders.refresh(name)]
    }

    assert created == dict.fromkeys(PIPES, RunStatus.SUCCEEDED)
    assert refreshed == dict.fromkeys(PIPES, (RunStatus.SUCCEEDED, None))
    assert {query: orders.rows(name) for name, query in tables.items()} == before


def test_a_pipe_over_a_version_of_a_source_names_what_to_write_in_its_place(orders: RefreshWorld) -> None:
    [[version]] = orders.plain(f"SELECT snapshot_id FROM lake.{orders.namespace}.orders.snapshots")
    refusal = orders.refused(
        "CREATE MATERIALIZED TABLE mt FRESHNESS = INTERVAL '1' DAY AS "
        f"FROM orders VERSION AS OF {version} |> WHERE id > 0",
        DefinitionInvalid,
    )

    assert refusal.startswith("orders of the query cannot be expanded to columns")


NAMELESS = [
    ("SELECT id, ds, _file FROM orders", "Column _file of"),
    ("SELECT id, ds, id AS _POS FROM orders", None),
    ("SELECT id, ds, 1 AS _row_id FROM orders", "Column _row_id of"),
    ("SELECT id, ds, 1 AS `` FROM orders", "Column 3 of"),
    ("SELECT id, ds, _partition AS p FROM orders", "Column p has type struct<>"),
]


@pytest.mark.parametrize(("query", "refusal"), NAMELESS)
def test_a_column_that_iceberg_could_not_write_or_read_is_refused_before_the_table_is_made(
    orders: RefreshWorld, query: str, refusal: str | None
) -> None:
    create = f"MATERIALIZED TABLE mt FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS {query}"
    if refusal is None:
        assert orders.create("mt", query).status is RunStatus.SUCCEEDED
        assert len(orders.rows("mt")) == 2
        return

    assert orders.refused(f"CREATE {create}", DefinitionInvalid).startswith(refusal)

    orders.create("mt", "SELECT id, ds FROM orders")
    assert orders.refused(f"ALTER MATERIALIZED TABLE mt AS {query}", DefinitionInvalid).startswith(refusal)
    assert orders.refused(f"CREATE OR ALTER {create}", DefinitionInvalid).startswith(refusal)


def test_char_and_varchar_are_stored_as_strings(world: RefreshWorld) -> None:
    world.spark("CREATE TABLE spark_catalog.default.chars_of_mt (c CHAR(4), v VARCHAR(9)) USING parquet")
    world.spark("INSERT INTO spark_catalog.default.chars_of_mt VALUES ('ab', 'cd')")

    run = world.create("mt", "SELECT * FROM spark_catalog.default.chars_of_mt")

    world.spark("DROP TABLE spark_catalog.default.chars_of_mt")
    assert run.status is RunStatus.SUCCEEDED, run.error
    assert world.columns("mt") == [("c", "string"), ("v", "string")]
    assert world.rows("mt") == [("ab  ", "cd")]


def test_a_variant_column_is_stored(world: RefreshWorld) -> None:
    run = world.create("mt", """SELECT 1 AS id, parse_json('{"a": [1, 2]}') AS doc""")

    assert run.status is RunStatus.SUCCEEDED, run.error
    assert world.columns("mt") == [("id", "int"), ("doc", "variant")]
    assert world.plain("SELECT id, variant_get(doc, '$.a[1]', 'int') FROM mt") == [(1, 2)]


def test_a_column_list_gives_order_types_and_comments(orders: RefreshWorld) -> None:
    run = orders.create(
        "mt (amount DECIMAL(20,4) COMMENT 'it''s money', ID BIGINT COMMENT "
        "'the \"key\"', ds STRING NOT NULL)",
        "SELECT amount, id, ds FROM orders",
        clauses="COMMENT 'all orders; ''quoted''' PARTITIONED BY (ds)",
    )

    described = orders.plain("DESCRIBE TABLE EXTENDED mt")
    assert run.status is RunStatus.SUCCEEDED, run.error
    assert orders.columns("mt") == [("amount", "decimal(20,4)"), ("id", "bigint"), ("ds", "string")]
    assert ("amount", "decimal(20,4)", "it's money") in described
    assert ("id", "bigint", 'the "key"') in described
    assert ("Comment", "all orders; 'quoted'", "") in described
    assert orders.rows("mt") == [(Decimal("1.5000"), 1, "2026-03-01"), (Decimal("2.2500"), 2, "2026-03-02")]


def test_a_declared_type_that_rows_are_not_stored_as_is_refused_naming_the_column(
    orders: RefreshWorld,
) -> None:
    refusal = orders.refused(
        "CREATE MATERIALIZED TABLE mt (ds INT) REFRESH_MODE = FULL AS SELECT ds FROM orders",
        DefinitionInvalid,
    )

    assert "Column ds is declared INT, its query gives STRING" in refusal
    assert "CAST(ds AS INT)" in refusal


def test_a_list_of_names_orders_the_columns(orders: RefreshWorld) -> None:
    orders.create("mt (ds, AMOUNT, id)", "WITH o AS (SELECT * FROM orders) SELECT * FROM o -- every order")

    assert orders.columns("mt") == [("ds", "string"), ("amount", "decimal(10,2)"), ("id", "int")]
    assert orders.rows("mt") == orders.plain("SELECT ds, amount, id FROM orders")


def test_comments_quotes_and_ctes_may_stand_anywhere(orders: RefreshWorld) -> None:
    orders.sql(
        f"""/* one */ CREATE -- two
        MATERIALIZED /* three */ TABLE lake.{orders.namespace}.`odd -- name` /* ; */ COMMENT 'not -- a comment'
        WITH ('write.orc.bloom.filter.columns' = 'a;b') FRESHNESS = INTERVAL /* 9 */ '1' HOUR REFRESH_MODE = FULL AS
        /* AS */ WITH `a b` (`x;y`) AS (SELECT id FROM orders /* orders */ WHERE ds <> '--' AND ds <> '/*') -- ; end
        SELECT `x;y` AS `z``z` FROM `a b` /* done */"""  # noqa: E501
    )
    orders.work()

    assert orders.rows("odd -- name") == [(1,), (2,)]
    assert orders.columns("odd -- name") == [("z`z", "int")]


@pytest.mark.parametrize("name", ["Größe 表 with blank.dot", "back`tick per%20cent's UPPER"])
def test_a_table_of_any_name_is_created_refreshed_and_dropped(orders: RefreshWorld, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"

    run = orders.create(quoted, "SELECT * FROM orders", clauses="PARTITIONED BY (ds)")
    again = orders.refresh(name, ds="2026-03-01")

    assert [run.status, again.status] == [RunStatus.SUCCEEDED] * 2, (run.error, again.error)
    assert orders.rows(name) == orders.plain("TABLE orders")
    assert orders.files() != []
    orders.sql(f"DROP MATERIALIZED TABLE {quoted}")
    assert orders.files() == []
    assert (orders.namespace, name, False) not in orders.plain("SHOW TABLES")


@pytest.mark.slow
def test_the_values_of_a_long_list_cost_no_calls_of_the_jvm(
    orders: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def query(length: int, count: int) -> str:
        values = ", ".join(map(str, range(1, length)))
        others = values.replace(", ", ", 10")
        return (
            "WITH some AS (SELECT * FROM orders "
            f"WHERE id * 2 NOT IN (4, -1, {others})) SELECT *, {count} AS n FROM some "
            f"WHERE id IN ({values}) AND EXISTS (SELECT * FROM orders AS o WHERE o.id IN (0, {values}))"
        )

    calls, send = 0, JavaClient.send_command

    def counted(client: Any, command: str, *rest: Any, **options: Any) -> Any:
        nonlocal calls
        # What earlier tests have left is released whenever Python collects it.
        calls += not command.startswith(MEMORY_COMMAND_NAME)
        return send(client, command, *rest, **options)

    numbers = dict[int, int]()
    for count, length in enumerate((20, 20, 3000)):
        calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(JavaClient, "send_command", counted)
            run = orders.create(f"listed_{count}", query(length, count))
        assert run.status is RunStatus.SUCCEEDED, run.error
        assert orders.rows(f"listed_{count}") == [(1, "2026-03-01", Decimal("1.50"), count)]
        numbers[length] = calls

    assert numbers[3000] < numbers[20] + 200


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id IN ({values}) AS a FROM orders",
        "SELECT id FROM orders WHERE NOT (id + 0 IN (NULL, {values}) OR amount IN (0.1, {values}))",
        "SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.id IN ({values}))",
        "WITH a AS (SELECT id FROM orders WHERE id IN ({values})) SELECT * FROM a",
    ],
)
def test_the_json_of_a_plan_has_no_long_list(orders: RefreshWorld, query: str) -> None:
    text = query.replace("{values}", ", ".join(map(str, range(-1000, 1))))
    frame = orders.session.sql(text)
    analysed = frame._jdf.queryExecution().analyzed()

    body = json_of(orders.session, analysed)

    assert max(map(int, re.findall(r'"num-children":([0-9]+)', body))) <= 65
    # It has all of the values, and means the same.
    assert set(map(str, range(-1000, 1))) <= set(re.findall(r'"value":"?(-?[0-9]+)', body))
    split = own_class(orders.session, "freshtable.plans.ShortLists").of(analysed)
    with active_session(orders.session):
        assert DataFrame(java_dataset(orders.session, split), orders.session).collect() == frame.collect()


def test_a_namespace_with_a_dot_in_its_name_keeps_it(orders: RefreshWorld) -> None:
    space = f"{orders.namespace}.sales"
    orders.spark(f"CREATE NAMESPACE lake.`{space}`")

    run = orders.create(f"lake.`{space}`.daily", f"SELECT * FROM {orders.namespace}.orders")

    identifier = TableIdentifier("lake", (space,), "daily")
    assert (run.status, str(identifier)) == (RunStatus.SUCCEEDED, f"lake.`{space}`.daily")
    assert orders.services.intents.current(identifier).identifier == identifier
    assert orders.plain(f"SELECT * FROM lake.`{space}`.daily") == orders.plain("TABLE orders")
    # The catalog's database joins levels by dots too: it cannot hold both, and the second is refused.
    other = f"lake.{orders.namespace}.sales.daily"
    message = orders.refused(
        f"CREATE MATERIALIZED TABLE {other} REFRESH_MODE = FULL AS SELECT 1 AS a", TableExists
    )
    assert f"{other} exists already" in message


def test_a_table_may_read_another_one(orders: RefreshWorld) -> None:
    orders.create(
        "days", "SELECT ds, sum(amount) AS total FROM orders GROUP BY ds", clauses="PARTITIONED BY (ds)"
    )
    orders.create("total", "SELECT sum(total) AS total FROM days")
    orders.spark("INSERT INTO orders VALUES (3, '2026-03-03', 4.00)")

    before = orders.refresh("total")
    first_total = orders.rows("total")
    orders.refresh("days", ds="2026-03-03")
    orders.refresh("total")

    assert before.vector is not None
    assert [source["name"] for source in before.vector] == [f"lake.{orders.namespace}.days"]
    assert first_total == [(Decimal("3.75"),)]
    assert orders.rows("total") == [(Decimal("7.75"),)]


# -------------------------------------------------------------------------------------------- what is refused


def creating(query: str, name: str = "mt", clauses: str = "") -> str:
    return f"CREATE MATERIALIZED TABLE {name} {clauses} REFRESH_MODE = FULL AS {query}"


BY_ID = "PARTITIONED BY (id) WITH ('partition.fields.id.date-formatter' = 'yyyy')"
REFUSED: dict[str, tuple[str, type[Exception], list[str]]] = {
    "an interval": (
        creating("SELECT id, INTERVAL '1' DAY AS span FROM orders"),
        DefinitionInvalid,
        ["Column span has type interval day", "CAST(`span` AS STRING)"],
    ),
    "an interval inside a struct": (
        creating("SELECT struct(INTERVAL '1' DAY AS d) AS s FROM orders"),
        DefinitionInvalid,
        ["Column s has type struct<d:interval day>", "CAST"],
    ),
    "NULL without a type": (
        creating("SELECT NULL AS n FROM orders"),
        DefinitionInvalid,
        ["Column n has type void", "CAST"],
    ),
    "an unknown column": (
        creating("SELECT id,\n  nope\nFROM orders"),
        QueryFailed,
        ["`nope`", "line 2, position 3"],
    ),
    "an unknown table": (creating("SELECT * FROM nowhere"), QueryFailed, ["`nowhere`"]),
    "a query that cannot be read": (creating("SELECT FROM WHERE"), QueryFailed, ["line 1"]),
    "a command": (creating("DELETE FROM orders"), DefinitionInvalid, ["not a query"]),
    "two columns of one name": (
        creating("SELECT id, ds AS ID FROM orders"),
        DefinitionInvalid,
        ["two columns named ID"],
    ),
    "Spark's own catalog": (
        creating("SELECT * FROM orders", "spark_catalog.default.mt"),
        CatalogUnsupported,
        ["Catalog spark_catalog", "type jdbc"],
    ),
    "an unknown catalog": (
        creating("SELECT * FROM orders", "nowhere.ns.mt"),
        DefinitionInvalid,
        ["There is no catalog nowhere; known catalogs: lake, spark_catalog"],
    ),
    "a missing namespace": (
        creating("SELECT * FROM orders", "nospace.mt"),
        MtError,
        ["There is no namespace lake.nospace; create it first: CREATE NAMESPACE lake.nospace"],
    ),
    "a name of a plain table": (
        creating("SELECT 1 AS a", "orders_copy"),
        TableExists,
        ["orders_copy exists already"],
    ),
    "a name of a view": (creating("SELECT 1 AS a", "a_view"), TableExists, ["a_view exists already"]),
    "an unknown partition key": (
        creating("SELECT * FROM orders", clauses="PARTITIONED BY (dt)"),
        DefinitionInvalid,
        ["PARTITIONED BY (dt)", "it returns id, ds, amount"],
    ),
    "a nested partition key": (
        creating("SELECT id, array(ds) AS a FROM orders", clauses="PARTITIONED BY (a)"),
        MtError,
        ["PARTITIONED BY (a)", "use a simple type"],
    ),
    "a formatter of a number": (
        creating("SELECT * FROM orders", clauses=BY_ID),
        DefinitionInvalid,
        [
            "only string and date partition columns can have a date-formatter",
            "id of",
            "is INT",
            "CAST it to STRING",
        ],
    ),
    "a formatter of a column that is no partition": (
        creating("SELECT * FROM orders", clauses=BY_ID.replace("(id)", "(ds)")),
        DefinitionInvalid,
        ["partition.fields.id.date-formatter"],
    ),
    "a temporary view": (
        creating("SELECT * FROM passing"),
        QueryFailed,
        ["`passing`", "do not see temporary views"],
    ),
    "a column that the query does not give": (
        creating("SELECT id FROM orders", "mt (id, other)"),
        DefinitionInvalid,
        ["Column other", "which returns id"],
    ),
    "a declared type that is none": (
        creating("SELECT id FROM orders", "mt (id NUMBERISH)"),
        DefinitionInvalid,
        ["Column id"],
    ),
}


@pytest.mark.parametrize(("text", "error", "parts"), list(REFUSED.values()), ids=list(REFUSED))
def test_a_definition_that_does_not_fit_is_refused_and_nothing_is_kept(
    refusing: RefreshWorld, text: str, error: type[Exception], parts: list[str]
) -> None:
    message = refusing.refused(text, error)

    assert [part for part in parts if part not in message] == [], message


@pytest.fixture(scope="module")
def refusing(module_driver: SparkDriver, tmp_path_factory: pytest.TempPathFactory) -> RefreshWorld:
    """One world for all refused statements: they leave it as it is."""
    world = RefreshWorld(module_driver)
    world.spark(
        "CREATE TABLE orders USING iceberg AS SELECT 1 AS id, '2026-03-01' AS ds, 1.50 AS amount",
        "CREATE TABLE orders_copy USING iceberg AS SELECT * FROM orders",
        "CREATE VIEW a_view AS SELECT 1 AS a",
        "CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT 1 AS a",
    )
    return world


@pytest.mark.parametrize(
    "statement",
    ["CREATE MATERIALIZED TABLE mt COMMENT 'c'\nREFRESH_MODE = FULL AS", "ALTER MATERIALIZED TABLE mt AS"],
)
def test_a_position_counts_from_the_beginning_of_the_statement(orders: RefreshWorld, statement: str) -> None:
    if statement.startswith("ALTER"):
        orders.create("mt", "SELECT id FROM orders")
    text = f"{statement} SELECT id, nope FROM orders"
    lines = text.splitlines()

    message = orders.refused(text, QueryFailed)

    assert f"(line {len(lines)}, position {lines[-1].index('nope') + 1})" in message


# ----------------------------------------------------------------------------------------- SHOW CREATE, ALTER


SHOWN = [
    ("plain", "SELECT * FROM orders", ""),
    (
        "`odd ``name`` ü`",
        (
            "SELECT id AS `a``b`, ds AS `d s`, 'it''s \\\\ ü' AS txt, named_struct('x y', 1) AS s "
            "FROM orders -- end"
        ),
        "COMMENT 'it''s; \"x\" -- y' PARTITIONED BY (`d s`) WITH ('partition.fields.d s.date-formatter' = "
        "'yyyy-MM-dd', 'write.orc.bloom.filter.columns' = 'a''b\\\\c')",
    ),
    (
        "typed (id BIGINT NOT NULL COMMENT 'k''ey', ds STRING, amount DECIMAL(20,4))",
        "SELECT id, ds, amount FROM orders",
        "",
    ),
    (
        "names (ds, id, amount)",
        "WITH orders AS (SELECT * FROM orders) SELECT * FROM orders",
        "PARTITIONED BY (ds, id)",
    ),
    ("reading_view", "SELECT * FROM some_view v WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = v.id)", ""),
]


@pytest.mark.parametrize(
    ("name", "query", "clauses"),
    [pytest.param(*shown, id=shown[0], marks=() if shown[2] else pytest.mark.slow) for shown in SHOWN],
)
def test_show_create_makes_the_same_table_again(
    orders: RefreshWorld, name: str, query: str, clauses: str
) -> None:
    orders.spark("CREATE VIEW some_view AS SELECT id, upper(ds) AS ds FROM orders")
    first = orders.create(name, query, clauses=clauses)
    assert first.status is RunStatus.SUCCEEDED, first.error
    bare = name.split(" (")[0].replace("``", "\0").strip("`").replace("\0", "`")
    definition, rows, columns = orders.table(bare).definition, orders.rows(bare), orders.columns(bare)
    shown = orders.text(f"SHOW CREATE MATERIALIZED TABLE {name.split(' (')[0]}")
    orders.sql(f"DROP MATERIALIZED TABLE {name.split(' (')[0]}")

    orders.sql(shown)
    orders.work()

    again = orders.table(bare).definition
    assert orders.text(f"SHOW CREATE MATERIALIZED TABLE {name.split(' (')[0]}") == shown
    assert (orders.rows(bare), orders.columns(bare)) == (rows, columns)
    assert (again.columns, again.partition_keys, again.options, again.comment) == (
        definition.columns,
        definition.partition_keys,
        definition.options,
        definition.comment,
    )


def test_an_appended_column_is_null_until_the_rebuild_ran(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT id FROM orders")

    orders.sql("ALTER MATERIALIZED TABLE mt AS SELECT id, ds, amount * 2 AS `twice x` FROM orders")

    assert orders.rows("mt") == [(1, None, None), (2, None, None)]
    orders.work()
    assert orders.rows("mt") == orders.plain("SELECT id, ds, amount * 2 FROM orders")
    assert orders.table("mt").rebuild_due is None
    described = orders.sql("DESCRIBE mt").rows.page(0, 9)  # type: ignore[union-attr]
    assert [row[0] for row in described] == ["id", "ds", "twice x"]


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("SELECT ds, id FROM orders", "Column 1 of the new query"),
        ("SELECT CAST(id AS BIGINT) AS id FROM orders", "Column 1 of the new query"),
        ("SELECT id, INTERVAL '1' DAY AS span FROM orders", "Column span has type interval day"),
    ],
)
def test_a_query_that_does_not_append_is_refused(orders: RefreshWorld, query: str, part: str) -> None:
    orders.create("mt", "SELECT id FROM orders")

    message = orders.refused(f"ALTER MATERIALIZED TABLE mt AS {query}", DefinitionInvalid)

    assert part in message
    assert orders.columns("mt") == [("id", "int")]


def test_a_run_that_began_before_an_alter_keeps_its_own_query(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT id FROM orders")
    orders.sql("ALTER MATERIALIZED TABLE mt AS SELECT id, ds FROM orders")
    orders.sql("ALTER MATERIALIZED TABLE mt AS SELECT -id AS id, ds FROM orders")

    orders.work()

    assert orders.rows("mt") == [(-1, "2026-03-01"), (-2, "2026-03-02")]


def test_a_name_can_be_used_again_at_once_for_another_table(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT id FROM orders")
    orders.sql("DROP MATERIALIZED TABLE mt")

    orders.create("mt", "SELECT ds FROM orders", clauses="PARTITIONED BY (ds)")

    assert orders.rows("mt") == [("2026-03-01",), ("2026-03-02",)]
    assert {file.split("/")[0] for file in orders.files()} == {f"mt-{orders.table('mt').table_id}"}


def test_dropping_twice_names_the_missing_table(orders: RefreshWorld) -> None:
    orders.create("mt", "SELECT id FROM orders")
    orders.sql("DROP MATERIALIZED TABLE mt")

    message = orders.refused("DROP MATERIALIZED TABLE mt", TableNotFound)

    assert f"lake.{orders.namespace}.mt" in message
    orders.sql("DROP MATERIALIZED TABLE IF EXISTS mt")


def test_the_zone_of_the_session_is_the_tables_own(orders: RefreshWorld) -> None:
    orders.context = orders.context_with({"table.local-time-zone": "America/New_York"})

    orders.create("mt", "SELECT TIMESTAMP '2026-01-01 00:00:00' AS at")

    assert orders.plain("SELECT CAST(at AS TIMESTAMP) FROM mt") == orders.plain(
        "SELECT TIMESTAMP '2026-01-01 05:00:00'"
    )
    assert isinstance(orders.rows("mt")[0][0], datetime)
