"""Programs in Python on a real gateway: the driver, pandas, SQLAlchemy with its own suite for dialects,
and the draft.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import registry

from mt_core.base.rowset import RowKind
from mt_core.client import dbapi
from tests.depth import DEPTH, rounds
from tests.support.gateway.own_process import ROOT, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SUITE_TIMEOUT_S = 1700
# How many tests of the suite ran when it was last looked through: none may slip out unseen.
SUITE, FEWEST_PASSED = ("all", 600) if DEPTH > 1 else ("chosen", 62)

KOLKATA = ZoneInfo("Asia/Kolkata")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
# Results tell intervals by the millisecond.
INTERVALS = st.integers(-(10**14), 10**14).map(lambda milliseconds: timedelta(milliseconds=milliseconds))
# Of Kolkata's clocks none showed an hour twice since then.
MOMENTS = st.datetimes(datetime(1950, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.floats(),
    st.decimals(-(10**20), 10**20, places=9),
    TEXTS,
    TEXTS.map(lambda text: f"${{spark.master}}\\{text}'"),
    st.binary(),
    st.dates(),
    st.datetimes(),
    MOMENTS,
    INTERVALS,
)
VALUES = st.one_of(
    SCALARS, st.lists(TEXTS | st.none()), st.dictionaries(TEXTS, st.lists(st.dates(), max_size=3), max_size=3)
)


@pytest.fixture(scope="module")
def cursor(clients_url: str) -> Iterator[dbapi.Cursor]:
    with (
        dbapi.connect(clients_url, catalog="lake", schema="default") as connection,
        connection.cursor() as cursor,
    ):
        yield cursor


@pytest.fixture(scope="module")
def engine(clients_url: str) -> Iterator[sa.Engine]:
    registry.register("freshtable", "mt_core.client.dialect", "FreshtableDialect")
    engine = sa.create_engine(f"freshtable://{clients_url.removeprefix('http://')}/lake/default")
    yield engine
    engine.dispose()


@settings(max_examples=rounds(8, 25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(VALUES, min_size=20, max_size=20))
def test_any_value_comes_back_as_it_was_sent(cursor: dbapi.Cursor, values: list[Any]) -> None:
    marks = ", ".join(f"-- a comment? \n 1 AS n{number}, ? AS c{number}" for number in range(len(values)))

    [row] = cursor.execute(f"SELECT {marks}", values).fetchall()

    # Not the types: an integer of more than 64 bits comes back as a Decimal.
    assert [shown(value) for value in row[1::2]] == [shown(value) for value in values]


def shown(value: Any) -> Any:
    """Return *value* so that NaN equals NaN, and -0.0 is another than 0.0."""
    return repr(value) if isinstance(value, float) else value


def test_a_minus_before_a_negative_number_begins_no_comment(cursor: dbapi.Cursor) -> None:
    assert cursor.execute("SELECT 5 -?, 5 -?, 5 -?", [-1, -1.5, Decimal("-1.5")]).fetchall() == [
        (6, 6.5, Decimal("6.5"))
    ]


def test_types_come_as_python_objects_and_in_arrow(cursor: dbapi.Cursor) -> None:
    query = """
        SELECT id, CAST(id AS TINYINT) AS tiny, CAST(1.1 AS FLOAT) AS real,
          CAST(id AS DECIMAL(38, 10)) AS exact,
          TIMESTAMP '2024-07-01 12:00:00Z' AS moment, DATE '2024-02-29' AS day, X'0AFF' AS bytes,
          INTERVAL '1-2' YEAR TO MONTH AS months, array(named_struct('k', id, 'v', NULL)) AS deep,
          NULL AS nothing
        FROM range(2) ORDER BY id"""
    moment = datetime(2024, 7, 1, 17, 30, tzinfo=KOLKATA)

    rows = cursor.execute(query).fetchall()
    table = cursor.execute(query).fetch_arrow()

    assert rows[1] == (
        1,
        1,
        1.1,
        Decimal("1.0000000000"),
        moment,
        date(2024, 2, 29),
        b"\x0a\xff",
        14,
        [{"k": 1, "v": None}],
        None,
    )
    assert table.num_rows == 2
    assert table.schema.field("exact").type == pa.decimal128(38, 10)
    assert table.column("moment")[0].as_py() == moment
    assert table.column("deep").to_pylist() == [[{"k": 0, "v": None}], [{"k": 1, "v": None}]]


def test_rowcount_is_what_a_change_has_changed(cursor: dbapi.Cursor) -> None:
    cursor.execute("CREATE TABLE counted (a INT) USING iceberg")

    many = cursor.executemany("INSERT INTO counted VALUES (?)", [(1,), (2,), (3,)]).rowcount
    selected = cursor.execute("INSERT INTO counted SELECT a FROM counted WHERE a > 1").rowcount

    assert (many, selected, cursor.execute("DELETE FROM counted WHERE a = 1").rowcount) == (3, 2, 1)


def test_a_temporary_function_of_sql_is_called_and_dropped(cursor: dbapi.Cursor) -> None:
    cursor.execute("CREATE TEMPORARY FUNCTION answer() RETURNS INT RETURN 6 * 7")
    called = cursor.execute("SELECT answer() + CAST(id AS INT) FROM range(2) ORDER BY 1").fetchall()
    cursor.execute("DROP TEMPORARY FUNCTION answer")

    assert called == [(42,), (43,)]
    with pytest.raises(dbapi.ProgrammingError, match="answer"):
        cursor.execute("SELECT answer()")


def test_a_function_of_a_database_with_parameters_is_refused_with_the_way_out(cursor: dbapi.Cursor) -> None:
    with pytest.raises(dbapi.NotSupportedError, match=r"a name without a database.* write one_more\."):
        cursor.execute("CREATE FUNCTION spark_catalog.default.one_more(x INT) RETURNS INT RETURN x + 1")


def test_a_temporary_function_of_sql_has_parameters(cursor: dbapi.Cursor) -> None:
    cursor.execute("CREATE OR REPLACE TEMPORARY FUNCTION one_more(x INT DEFAULT 5) RETURNS INT RETURN x + 1")

    assert cursor.execute("SELECT one_more(), one_more(1)").fetchall() == [(6, 2)]


def test_errors_of_spark_are_of_their_kinds(cursor: dbapi.Cursor) -> None:
    cursor.execute("CREATE TABLE needy (a INT NOT NULL) USING iceberg")

    with pytest.raises(dbapi.DataError) as division:
        cursor.execute("SELECT 1/0")
    with pytest.raises(dbapi.ProgrammingError) as missing:
        cursor.execute("SELECT * FROM nowhere")
    with pytest.raises(dbapi.IntegrityError):
        cursor.execute("INSERT INTO needy VALUES (?)", [None])

    assert (division.value.error_class, missing.value.error_class) == (
        "DIVIDE_BY_ZERO",
        "TABLE_OR_VIEW_NOT_FOUND",
    )


def test_what_is_in_the_catalog_is_reflected(cursor: dbapi.Cursor, engine: sa.Engine) -> None:
    cursor.execute("CREATE SCHEMA lake.shop")
    cursor.execute(
        "CREATE TABLE shop.sales (id BIGINT NOT NULL COMMENT 'it''s', day DATE) "
        "USING iceberg COMMENT 'all; of \"it\"'"
    )
    cursor.execute("CREATE VIEW shop.days AS SELECT day FROM lake.shop.sales")
    cursor.execute(
        "CREATE MATERIALIZED TABLE shop.daily FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL "
        "AS SELECT day, count(*) AS sales FROM lake.shop.sales GROUP BY day"
    )

    found = sa.inspect(engine)
    columns = found.get_columns("sales", schema="lake.shop")
    with engine.connect() as connection:
        catalogs = engine.dialect.get_catalog_names(connection)  # type: ignore[attr-defined]
    in_shop = sa.create_engine(engine.url.set(database="lake/shop"))
    inspector = sa.inspect(in_shop)
    names_in_shop = inspector.get_materialized_view_names(), inspector.get_materialized_view_names("shop")
    in_shop.dispose()

    assert "lake" in catalogs
    assert {"default", "shop"} <= set(found.get_schema_names())
    assert sorted(found.get_table_names("shop")) == ["daily", "sales"]
    assert found.get_materialized_view_names("shop") == ["daily"]
    assert names_in_shop == (["daily"], ["daily"])
    # Other tests have tables in the default namespace.
    assert "daily" not in found.get_materialized_view_names()
    assert found.get_view_names("shop") == ["days"]
    assert [
        (column["name"], str(column["type"]), column["nullable"], column["comment"]) for column in columns
    ] == [
        ("id", "BIGINT", False, "it's"),
        ("day", "DATE", True, None),
    ]
    assert [column["name"] for column in found.get_columns("daily", "shop")] == ["day", "sales"]
    assert found.get_table_comment("sales", "shop") == {"text": 'all; of "it"'}
    assert found.get_view_definition("days", "shop") == "SELECT day FROM lake.shop.sales"
    assert (found.has_table("daily", "shop"), found.has_table("none", "shop")) == (True, False)
    with pytest.raises(sa.exc.NoSuchTableError):
        found.get_columns("none", "shop")
    with pytest.raises(dbapi.ProgrammingError, match=r"use DROP MATERIALIZED TABLE lake\.shop\.daily"):
        cursor.execute("DROP TABLE shop.daily")


def test_a_model_is_created_filled_and_queried(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    fares = sa.Table(
        "fares",
        metadata,
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("Where", sa.String(20)),
        sa.Column("paid", sa.Numeric(10, 2)),
        sa.Column("at", sa.DateTime),
        comment="what's paid",
        freshtable_partitioned_by=["bucket(2, id)"],
    )
    morning = datetime(2024, 1, 1, 1, 2, 3, 4)  # noqa: DTZ001
    rows = [
        (number, f"it's {number}\\", Decimal(number) / 4, morning.replace(day=number)) for number in (1, 2, 3)
    ]

    metadata.create_all(engine)
    with engine.connect() as connection:
        connection.execute(
            fares.insert(), [dict(zip(("id", "Where", "paid", "at"), row, strict=True)) for row in rows]
        )
        connection.execute(fares.update().where(fares.c.id == 3).values(paid=None))
        connection.execute(fares.delete().where(fares.c.at < datetime(2024, 1, 2)))  # noqa: DTZ001
        found = connection.execute(sa.select(fares).order_by(fares.c.id).limit(5)).all()
        like = connection.scalar(
            sa.select(sa.func.count()).where(fares.c.Where.endswith("\\", autoescape=True))
        )
    metadata.drop_all(engine)

    assert found == [rows[1], (3, "it's 3\\", None, rows[2][3])]
    assert like == 2
    assert not sa.inspect(engine).has_table("fares")


def test_pandas_reads_through_sqlalchemy(engine: sa.Engine) -> None:
    pandas = pytest.importorskip("pandas")

    with engine.connect() as connection:
        frame = pandas.read_sql(
            sa.text("SELECT id, id * 1.5D AS half FROM range(:n)"), connection, params={"n": 3}
        )

    assert frame.to_dict("list") == {"id": [0, 1, 2], "half": [0.0, 1.5, 3.0]}


LAST = (
    "SELECT city, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY now() DESC) AS rn "
    "FROM visits) WHERE rn = 1"
)
COUNTS = "SELECT city, count(*) AS n FROM visits GROUP BY city"
TOP = (
    f"SELECT city, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC) AS rn FROM ({COUNTS})) WHERE rn <= 3"
)


def test_the_changes_of_a_stream_come_with_their_kinds(clients_url: str, cursor: dbapi.Cursor) -> None:
    cursor.execute("CREATE TABLE visits (city STRING, n INT) USING iceberg")
    cursor.execute("INSERT INTO visits VALUES ('Rome', 1)")
    properties = {"execution.runtime-mode": "streaming"}

    with (
        dbapi.connect(clients_url, catalog="lake", schema="default", properties=properties) as connection,
        connection.cursor() as reader,
    ):
        queries = {"count": COUNTS, "last": LAST, "top": TOP}
        reader.execute(
            " UNION ALL ".join(f"SELECT '{name}' AS q, * FROM ({text})" for name, text in queries.items())
        )
        changes = reader.fetch_changes()
        first = [next(changes) for _ in range(3)]
        cursor.execute("INSERT INTO visits VALUES ('Oslo', 7), ('Rome', 7), ('Rome', 7)")
        then = [next(changes) for _ in range(9)]
        with pytest.raises(dbapi.NotSupportedError, match="fetch_changes"):
            reader.fetchone()

    assert sorted(first, key=str) == [(RowKind.INSERT, (q, "Rome", 1)) for q in ("count", "last", "top")]
    # The rows of different groups come in any order, those of one in this.
    for q, rome, oslo in (("count", 3, 1), ("last", 7, 7), ("top", 3, 1)):
        assert [change for change in then if change[1][:2] == (q, "Rome")] == [
            (RowKind.UPDATE_BEFORE, (q, "Rome", 1)),
            (RowKind.UPDATE_AFTER, (q, "Rome", rome)),
        ]
        assert (RowKind.INSERT, (q, "Oslo", oslo)) in then


def test_a_program_runs_plans_that_it_holds_as_a_batch_and_as_a_job_with_its_own_ttl(
    clients_url: str, cursor: dbapi.Cursor, clients_home: Path
) -> None:
    for table in ("planned_clicks", "planned_firsts"):
        cursor.execute(f"CREATE TABLE {table} (city STRING, n INT)")
    cursor.execute("INSERT INTO planned_clicks VALUES ('Rome', 1)")
    batch = cursor.connection.compile_plan(
        "INSERT INTO planned_firsts SELECT city, n + 1 FROM planned_clicks"
    )
    insert = (
        "INSERT INTO planned_firsts SELECT city, n FROM (SELECT city, n, ROW_NUMBER() OVER (PARTITION BY "
        "city ORDER BY p) AS rn FROM (SELECT *, current_timestamp() AS p FROM planned_clicks)) WHERE rn = 1"
    )

    batch_job = batch.execute()
    with dbapi.connect(
        clients_url, catalog="lake", schema="default", properties={"execution.runtime-mode": "streaming"}
    ) as connection:
        body = json.loads(connection.compile_plan(insert).as_json())
        [state] = [state for node in body["nodes"] for state in node.get("state", ())]
        state["ttl"] = "2 h"
        job = connection.load_plan(json.dumps(body)).execute()
        folder = clients_home / "sessions" / connection.client.session
        files = len(list(folder.glob("plan-*.json")))

    rows = "SELECT * FROM planned_firsts ORDER BY n"
    wait_until(lambda: len(cursor.execute(rows).fetchall()) == 2, "the job wrote no row")
    cursor.execute(f"STOP JOB '{job}'")
    assert cursor.execute(rows).fetchall() == [("Rome", 1), ("Rome", 2)]
    assert (files, folder.exists()) == (2, False)
    assert batch_job != job
    assert [row[0] for row in cursor.execute("SHOW JOBS").fetchall()].count(batch_job) == 1


def test_the_draft_answers_the_first_rows_of_a_result_without_end(
    clients_url: str, cursor: dbapi.Cursor
) -> None:
    cursor.execute("CREATE TABLE drafted (city STRING) USING iceberg")
    cursor.execute("INSERT INTO drafted VALUES ('Rome'), ('Rome')")
    query = "SELECT city, count(*) AS n FROM lake.default.drafted GROUP BY city"

    answer = httpx.post(
        f"{clients_url}/v1/statements", json={"statement": query, "execution_type": "streaming"}, timeout=120
    )

    [result] = answer.json()["results"]
    assert (result["data"], result["change_flags"]) == ([["Rome", 2]], [True])


@pytest.mark.timeout(SUITE_TIMEOUT_S + 100)
def test_the_dialect_passes_the_suite_of_sqlalchemy(clients_url: str, cursor: dbapi.Cursor) -> None:
    # The schema of the suite's connections, and the other one that it expects.
    cursor.execute("CREATE SCHEMA lake.suite")
    cursor.execute("CREATE SCHEMA lake.test_schema")
    target = f"freshtable://{clients_url.removeprefix('http://')}/lake/suite"
    command = [sys.executable, "-m", "tests.integration.dialect_suite", target, SUITE, "-rfE"]

    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SUITE_TIMEOUT_S, check=False
    )

    passed = re.search(r"(\d+) passed", run.stdout)
    assert run.returncode == 0, run.stdout[-10_000:] + run.stderr[-2_000:]
    assert passed is not None
    assert int(passed[1]) >= FEWEST_PASSED
