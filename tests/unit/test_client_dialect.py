from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import registry
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateTable, DropTable, SetColumnComment, SetTableComment
from sqlalchemy.sql import sqltypes

from mt_core.base.rowset import LogicalType
from mt_core.client import dbapi
from mt_core.client.dialect import INTERVAL_DAY_TIME, MAP, STRUCT, TINYINT, VARIANT, FreshtableDialect
from mt_core.client.dialect.types import column_type

ROOT = Path(__file__).resolve().parents[2]
# An installation knows it by its entry point.
registry.register("freshtable", "mt_core.client.dialect", "FreshtableDialect")
DIALECT = FreshtableDialect()
METADATA = sa.MetaData()
FARES = sa.Table(
    "fares",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("Where", sa.String(20), comment="it's here"),
    sa.Column("paid", sa.Numeric(10, 2), nullable=False),
    sa.Column("other", sa.ForeignKey("lake.my-schema.fares.id")),
    sa.UniqueConstraint("Where"),
    schema="lake.my-schema",
    comment="all \\ fares",
    freshtable_partitioned_by=["days(day)"],
    freshtable_tblproperties={"write.format.default": "parquet"},
)


def sql(statement: Any, **options: Any) -> str:
    text = str(statement.compile(dialect=DIALECT, compile_kwargs=options))
    return " ".join(text.split())


def test_the_entry_points_lead_to_the_dialect() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    points = project["entry-points"]["sqlalchemy.dialects"]

    assert sorted(points) == ["freshtable", "freshtable.gateway"]
    for point in points.values():
        module, _, name = point.partition(":")
        assert getattr(import_module(module), name) is FreshtableDialect


def test_the_driver_loads_nothing_heavy() -> None:
    heavy = ("pyspark", "fastapi", "pyarrow", "sqlalchemy", "pandas", "orjson")
    code = f"import sys, mt_core.client.dbapi; print([name for name in {heavy} if name in sys.modules])"

    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("url", "address", "options"),
    [
        ("freshtable://", "http://127.0.0.1:8083", {}),
        ("freshtable://gw", "http://gw:8083", {}),
        ("freshtable://gw:1/lake", "http://gw:1", {"catalog": "lake"}),
        (
            "freshtable://gw/lake/my%2Fschema?token=t&secure=true&table.local-time-zone=UTC",
            "https://gw:8083",
            {
                "token": "t",
                "catalog": "lake",
                "schema": "my/schema",
                "properties": {"table.local-time-zone": "UTC"},
            },
        ),
        ("freshtable://:secret@[::1]:1", "http://[::1]:1", {"token": "secret"}),
    ],
)
def test_a_url_says_where_and_what_to_connect_to(url: str, address: str, options: dict[str, Any]) -> None:
    arguments, found = DIALECT.create_connect_args(make_url(url))

    assert arguments == [address]
    assert found == {"token": None, "catalog": None, "schema": None, "properties": {}} | options


def test_a_table_is_created_in_iceberg_without_what_spark_does_not_enforce() -> None:
    assert sql(CreateTable(FARES)) == (
        "CREATE TABLE lake.`my-schema`.fares ( id INT NOT NULL, `Where` STRING COMMENT 'it\\'s here', "
        "paid DECIMAL(10, 2) NOT NULL, other INT ) USING iceberg PARTITIONED BY (days(day)) "
        "COMMENT 'all \\\\ fares' TBLPROPERTIES ('write.format.default' = 'parquet')"
    )
    assert sql(DropTable(FARES)) == "DROP TABLE lake.`my-schema`.fares"


def test_comments_are_set() -> None:
    assert sql(SetTableComment(FARES)) == "COMMENT ON TABLE lake.`my-schema`.fares IS 'all \\\\ fares'"
    assert sql(SetColumnComment(FARES.c.Where)) == (
        "ALTER TABLE lake.`my-schema`.fares ALTER COLUMN `Where` COMMENT 'it\\'s here'"
    )


def test_an_index_is_refused() -> None:
    index = sa.Index("ix", sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer)).c.a)

    with pytest.raises(exc.CompileError, match="Index ix of table t: tables in Spark have no indexes"):
        sql(sa.schema.CreateIndex(index))


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (
            sa.select(FARES.c.id).limit(5).offset(2),
            "SELECT lake.`my-schema`.fares.id FROM lake.`my-schema`.fares LIMIT 5 OFFSET 2",
        ),
        (sa.select(sa.literal(1)).offset(2), "SELECT 1 AS anon_1 OFFSET 2"),
        (sa.select(sa.literal("a'\\b")), "SELECT 'a\\'\\\\b' AS anon_1"),
        (sa.select(sa.literal(1)).with_for_update(), "SELECT 1 AS anon_1"),
        (
            sa.insert(FARES).values(id=1, paid=2),
            "INSERT INTO lake.`my-schema`.fares (id, paid) VALUES (1, 2)",
        ),
        (sa.select(sa.column("a").regexp_match("x")), "SELECT a RLIKE 'x' AS anon_1"),
        (sa.select(~sa.column("a").regexp_match("x")), "SELECT a NOT RLIKE 'x' AS anon_1"),
        (sa.select(sa.column("a").regexp_replace("x", "y")), "SELECT regexp_replace(a, 'x', 'y') AS anon_1"),
        (sa.select(sa.column("a", sa.Integer) % 2), "SELECT a % 2 AS anon_1"),
        (sa.select(sa.column("select"), sa.column("a`b")), "SELECT `select`, `a``b`"),
    ],
)
def test_a_statement_is_spark_sql(statement: Any, text: str) -> None:
    assert sql(statement, literal_binds=True) == text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (sa.String(5), "STRING"),
        (sa.VARCHAR(5), "VARCHAR(5)"),
        (sa.CHAR(5), "CHAR(5)"),
        (sa.Text(), "STRING"),
        (sa.Unicode(), "STRING"),
        (sa.JSON(), "STRING"),
        (sa.Enum("a", "b"), "STRING"),
        (sa.Uuid(), "STRING"),
        (sa.Boolean(), "BOOLEAN"),
        (TINYINT(), "TINYINT"),
        (sa.SmallInteger(), "SMALLINT"),
        (sa.Integer(), "INT"),
        (sa.BigInteger(), "BIGINT"),
        (sa.Numeric(), "DECIMAL(38, 18)"),
        (sa.Numeric(5), "DECIMAL(5, 0)"),
        (sa.Float(), "DOUBLE"),
        (sa.REAL(), "FLOAT"),
        (sa.Double(), "DOUBLE"),
        (sa.Date(), "DATE"),
        (sa.Time(), "TIME"),
        (sa.DateTime(), "TIMESTAMP_NTZ"),
        (sa.DateTime(timezone=True), "TIMESTAMP"),
        (sa.LargeBinary(), "BINARY"),
        (INTERVAL_DAY_TIME(), "INTERVAL DAY TO SECOND"),
        (VARIANT(), "VARIANT"),
        (sa.ARRAY(sa.Integer, dimensions=2), "ARRAY<ARRAY<INT>>"),
        (MAP(sa.String(), STRUCT({"a b": sa.Integer()})), "MAP<STRING, STRUCT<`a b`: INT>>"),
    ],
)
def test_a_type_has_its_name_in_spark(kind: sqltypes.TypeEngine[Any], text: str) -> None:
    assert DIALECT.type_compiler_instance.process(kind) == text


def test_a_logical_type_is_a_column_type_at_any_depth() -> None:
    text = {"type": "VARCHAR", "nullable": True, "length": 2147483647}
    local = {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "nullable": True, "precision": 6}
    number = {"type": "DECIMAL", "nullable": True, "precision": 38, "scale": 3}
    fields = [
        {"name": "a", "fieldType": {"type": "MAP", "nullable": True, "keyType": text, "valueType": number}}
    ]
    kind = LogicalType(
        root="ARRAY", extras={"elementType": {"type": "ROW", "nullable": True, "fields": fields}}
    )

    shown = DIALECT.type_compiler_instance.process(column_type(kind))

    assert shown == "ARRAY<STRUCT<a: MAP<STRING, DECIMAL(38, 3)>>>"
    assert DIALECT.type_compiler_instance.process(column_type(LogicalType.from_json(local))) == "TIMESTAMP"


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (dbapi.OperationalError("x", code="SESSION_LOST"), True),
        (dbapi.OperationalError("x", code="GATEWAY_FAILED"), True),
        (dbapi.OperationalError("x", code="TABLE_BUSY"), False),
        (dbapi.InterfaceError("The connection is closed; connect() again."), True),
        (dbapi.ProgrammingError("x", code="QUERY_FAILED"), False),
    ],
)
def test_a_lost_session_is_a_disconnect(error: dbapi.Error, lost: bool) -> None:
    assert DIALECT.is_disconnect(error, None, None) is lost
