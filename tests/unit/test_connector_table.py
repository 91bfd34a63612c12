from __future__ import annotations

from typing import Any

import pytest

from mt_core.errors import DefinitionInvalid, SqlSyntaxError, Unsupported
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.connectors.catalog_options import catalog_settings, configured_catalogs
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.flink.types import read_type, type_text
from mt_core.sql.parser import parse

STRING = {"type": "VARCHAR", "length": 2147483647}


def spark_sql(sql: str) -> str:
    found = parse(sql)
    assert isinstance(found, CreateConnectorTable)
    return found.spark_sql


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'parquet', 'path' = '/x')",
            "CREATE TABLE `t` (`a` INT) USING parquet OPTIONS ('path' = '/x')",
        ),
        (
            "CREATE TABLE IF NOT EXISTS c.d.`t 1` (a BIGINT NOT NULL, b STRING COMMENT 'it''s') COMMENT 'c' "
            "PARTITIONED BY (b) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '/x', "
            "'csv.field-delimiter' = ';', 'csv.ignore-parse-errors' = 'true', 'csv.header' = 'true')",
            "CREATE TABLE IF NOT EXISTS `c`.`d`.`t 1` (`a` BIGINT NOT NULL, `b` STRING COMMENT 'it\\'s') "
            "USING csv OPTIONS ('path' = '/x', 'sep' = ';', 'mode' = 'DROPMALFORMED', 'header' = 'true') "
            "PARTITIONED BY (`b`) COMMENT 'c'",
        ),
        (
            (
                "CREATE TABLE t (a INT) WITH ('connector' = 'JSON', 'path' = '/x', "
                "'json.timestamp-format.standard' = 'SQL')"
            ),
            "CREATE TABLE `t` (`a` INT) USING json OPTIONS ('path' = '/x', 'timestampFormat' = "
            "'yyyy-MM-dd HH:mm:ss[.SSSSSS]', 'timestampNTZFormat' = 'yyyy-MM-dd HH:mm:ss[.SSSSSS]')",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'orc', 'path' = '/x', 'orc.compress' = 'ZLIB')",
            "CREATE TABLE `t` (`a` INT) USING orc OPTIONS ('path' = '/x', 'compress' = 'ZLIB')",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'iceberg', 'format-version' = '3', 'path' = '/x')",
            "CREATE TABLE `t` (`a` INT) USING iceberg LOCATION '/x' TBLPROPERTIES ('format-version' = '3')",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://h/d', "
            "'table-name' = 's.t', 'username' = 'u', 'password' = 'p', 'scan.fetch-size' = '10')",
            "CREATE TABLE `t` (`a` INT) USING jdbc OPTIONS ('url' = 'jdbc:postgresql://h/d', 'dbtable' = "
            "'s.t', 'user' = 'u', 'password' = 'p', 'fetchsize' = '10', 'driver' = 'org.postgresql.Driver')",
        ),
        (
            "CREATE OR REPLACE TEMPORARY TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED) PARTITIONED BY (a) "
            "WITH ('connector' = 'csv', 'path' = '/x')",
            "CREATE OR REPLACE TEMPORARY VIEW `t` (`a` INT) USING csv OPTIONS ('path' = '/x', "
            "'freshtable.partition-keys' = '`a`')",
        ),
        (
            "CREATE TEMPORARY TABLE t (b INT, A INT, c TIMESTAMP(3), "
            "WATERMARK FOR c AS c - INTERVAL '5' SECOND) "
            "PARTITIONED BY (a, b) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '/x')",
            "CREATE TEMPORARY VIEW `t` (`b` INT, `A` INT, `c` TIMESTAMP) USING json OPTIONS ('path' = '/x', "
            "'freshtable.partition-keys' = '`a`.`b`', 'freshtable.watermark.column' = 'c', "
            "'freshtable.watermark.delay' = '5 SECOND')",
        ),
        (
            "CREATE TABLE t (a INT) COMMENT 'c' PARTITIONED BY (a) WITH ('write.format.default' = 'orc')",
            (
                "CREATE TABLE `t` (`a` INT) PARTITIONED BY (`a`) COMMENT 'c' "
                "TBLPROPERTIES ('write.format.default' = 'orc')"
            ),
        ),
        (
            "CREATE TABLE t WITH ('k' = 'v') AS SELECT 1 AS a",
            "CREATE TABLE `t` TBLPROPERTIES ('k' = 'v') AS SELECT 1 AS a",
        ),
        (
            "CREATE TABLE t (id BIGINT COMMENT 'x', b STRING, CONSTRAINT k PRIMARY KEY (ID) NOT ENFORCED)",
            "CREATE TABLE `t` (`id` BIGINT NOT NULL COMMENT 'x', `b` STRING)",
        ),
        (
            "REPLACE TABLE t WITH ('connector' = 'iceberg') AS SELECT 1 AS a",
            "REPLACE TABLE `t` USING iceberg AS SELECT 1 AS a",
        ),
        (
            "CREATE TABLE t WITH ('connector' = 'parquet') AS SELECT 1 AS a",
            "CREATE TABLE `t` USING parquet AS SELECT 1 AS a",
        ),
        (
            (
                "CREATE OR REPLACE TABLE t WITH ('connector' = 'iceberg') AS (WITH x AS (SELECT 1) SELECT * "
                "FROM x);"
            ),
            "CREATE OR REPLACE TABLE `t` USING iceberg AS (WITH x AS (SELECT 1) SELECT * FROM x)",
        ),
        (
            "CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED COMMENT 'x', ts TIMESTAMP(3), "
            "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, CONSTRAINT k UNIQUE (a) NOT ENFORCED) "
            "WITH ('connector' = 'text', 'path' = '/x')",
            "CREATE TABLE `t` (`a` INT COMMENT 'x', `ts` TIMESTAMP) USING text OPTIONS ('path' = '/x')",
        ),
    ],
)
def test_a_table_with_a_connector_is_said_in_sparks_words(sql: str, expected: str) -> None:
    assert spark_sql(sql) == expected


def test_the_query_stands_where_it_was_written() -> None:
    sql = "CREATE TABLE t\nWITH ('connector' = 'iceberg')\nAS\n  SELECT nope FROM t2"

    lines = spark_sql(sql).split("\n")

    assert lines == ["CREATE TABLE `t` USING iceberg AS", "", "", "  SELECT nope FROM t2"]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a INT)",
        "CREATE TABLE t (a INT) USING csv OPTIONS ('connector' = 'x')",
        "CREATE TABLE t AS WITH x AS (SELECT 'connector') SELECT * FROM x",
        "CREATE TABLE t AS SELECT * FROM f(WITH ('connector' = 'x'))",
        "CREATE TABLE t (a INT COMMENT 'WITH (''connector'' = ''csv'')')",
    ],
)
def test_a_table_without_a_connector_is_sparks(sql: str) -> None:
    assert parse(sql) is None


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'pulsar')",
            Unsupported,
            (
                "Table t: connector 'pulsar' is not supported; supported are parquet, orc, csv, json, text, "
                "filesystem, iceberg, jdbc"
            ),
        ),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem')",
            DefinitionInvalid,
            "needs the option 'format'",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv')",
            DefinitionInvalid,
            "needs the option 'path'",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'avro')",
            Unsupported,
            "format 'avro' is not supported",
        ),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'jdbc')", DefinitionInvalid, "needs the option 'url'"),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'iceberg', 'catalog-name' = 'x')",
            Unsupported,
            "option 'catalog-name' of connector 'iceberg'.*CREATE CATALOG",
        ),
        (
            "CREATE TABLE t (a AS b + 1) WITH ('connector' = 'csv')",
            Unsupported,
            "column a: computed and metadata",
        ),
        ("CREATE TABLE t (a INT METADATA) WITH ('connector' = 'csv')", Unsupported, "metadata columns"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY (a) WITH ('connector' = 'csv')", Unsupported, "DISTRIBUTED"),
        ("CREATE TABLE t WITH ('connector' = 'csv') LIKE u", Unsupported, "LIKE is not supported"),
        (
            "CREATE TABLE t (a INT NOT NULL) AS SELECT 1 AS a",
            Unsupported,
            "column a: NOT NULL cannot be combined with AS",
        ),
        (
            "CREATE TABLE t (a INT COMMENT 'x') AS SELECT 1 AS a",
            Unsupported,
            "column a: COMMENT cannot be combined with AS",
        ),
        (
            "CREATE TABLE t (PRIMARY KEY (a) NOT ENFORCED) AS SELECT 1 AS a",
            Unsupported,
            "first, then INSERT INTO t",
        ),
        (
            "CREATE TABLE t (a INT, b) AS SELECT 1 AS a",
            Unsupported,
            "every column of the list a type, or none",
        ),
        ("CREATE TABLE t (a, A) AS SELECT 1 AS a", SqlSyntaxError, "column A is given twice"),
        (
            "CREATE TEMPORARY TABLE t WITH ('connector' = 'csv') AS SELECT 1",
            Unsupported,
            "AS query cannot be combined with",
        ),
        ("CREATE TABLE t (a) WITH ('connector' = 'csv')", SqlSyntaxError, "expected the type of column a"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'csv') x", SqlSyntaxError, "expected AS query"),
    ],
)
def test_what_cannot_be_said_in_sparks_words_is_refused_by_name(
    sql: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        parse(sql)


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        ("INTEGER", "INT"),
        ("BYTES", "BINARY"),
        ("VARBINARY(10)", "BINARY"),
        ("VARCHAR", "STRING"),
        ("VARCHAR(2147483647)", "STRING"),
        ("VARCHAR(9)", "VARCHAR(9)"),
        ("CHAR(3)", "CHAR(3)"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("NUMERIC(10, 2)", "DECIMAL(10, 2)"),
        ("TIMESTAMP", "TIMESTAMP_NTZ"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP_NTZ"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP"),
        ("TIME(3)", "TIME(3)"),
        ("INTERVAL DAY(2) TO SECOND(3)", "INTERVAL DAY TO SECOND"),
        ("INTERVAL YEAR", "INTERVAL YEAR"),
        ("ARRAY<ROW<a INT NOT NULL, `b c` STRING>>", "ARRAY<STRUCT<`a`: INT, `b c`: STRING>>"),
        ("ROW(a INT, b MAP<STRING, BYTES>)", "STRUCT<`a`: INT, `b`: MAP<STRING, BINARY>>"),
        ("MULTISET<STRING>", "MAP<STRING, INT>"),
    ],
)
def test_a_type_of_flinks_is_read_as_sparks(flink: str, spark: str) -> None:
    assert read_type(TokenCursor(flink)) == spark


@pytest.mark.parametrize(
    ("logical_type", "text"),
    [
        (STRING, "STRING"),
        ({"type": "VARCHAR", "length": 5}, "VARCHAR(5)"),
        ({"type": "VARBINARY", "length": 2147483647}, "BYTES"),
        ({"type": "INTEGER"}, "INT"),
        ({"type": "DECIMAL", "precision": 38, "scale": 2}, "DECIMAL(38, 2)"),
        ({"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 6}, "TIMESTAMP_LTZ(6)"),
        ({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 6}, "TIMESTAMP(6)"),
        ({"type": "TIME_WITHOUT_TIME_ZONE", "precision": 3}, "TIME(3)"),
        (
            {"type": "INTERVAL_YEAR_MONTH", "precision": 4, "resolution": "YEAR_TO_MONTH"},
            "INTERVAL YEAR TO MONTH",
        ),
        (
            {
                "type": "INTERVAL_DAY_TIME",
                "precision": 6,
                "fractionalPrecision": 6,
                "resolution": "DAY_TO_SECOND",
            },
            "INTERVAL DAY TO SECOND(6)",
        ),
        ({"type": "ARRAY", "elementType": {**STRING, "nullable": False}}, "ARRAY<STRING NOT NULL>"),
        ({"type": "MAP", "keyType": STRING, "valueType": {"type": "BIGINT"}}, "MAP<STRING, BIGINT>"),
        ({"type": "ROW", "fields": [{"name": "a b", "fieldType": {"type": "DATE"}}]}, "ROW<`a b` DATE>"),
        ({"type": "NULL"}, "NULL"),
    ],
)
def test_a_logical_type_is_printed_as_describe_does(logical_type: dict[str, Any], text: str) -> None:
    assert type_text(logical_type) == text


# --------------------------------------------------------------------------------------------------- catalogs


def test_options_of_a_catalog_become_settings_and_are_found_in_them_again() -> None:
    settings = catalog_settings("c", {"type": "iceberg", "catalog-type": "hadoop", "warehouse": "/w"})

    assert settings == {
        "spark.sql.catalog.c": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.c.cache-enabled": "false",
        "spark.sql.catalog.c.type": "hadoop",
        "spark.sql.catalog.c.warehouse": "/w",
    }
    assert configured_catalogs(settings | {"spark.sql.catalog.x.y": "1", "other": "2"}) == {
        "c": {
            "type": "org.apache.iceberg.spark.SparkCatalog",
            "cache-enabled": "false",
            "catalog-type": "hadoop",
            "warehouse": "/w",
        }
    }


def test_a_jdbc_catalog_of_flinks_is_one_of_sparks() -> None:
    options = {"type": "jdbc", "base-url": "jdbc:postgresql://h/", "default-database": "d", "username": "u"}

    assert catalog_settings("c", options) == {
        "spark.sql.catalog.c": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.c.url": "jdbc:postgresql://h/d",
        "spark.sql.catalog.c.user": "u",
        "spark.sql.catalog.c.driver": "org.postgresql.Driver",
    }


def test_a_class_may_stand_for_the_type_of_a_catalog() -> None:
    assert catalog_settings("c", {"type": "com.example.Plugin", "a": "b"}) == {
        "spark.sql.catalog.c": "com.example.Plugin",
        "spark.sql.catalog.c.a": "b",
    }


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("c", {}, DefinitionInvalid, "needs the option 'type'"),
        ("c", {"type": "paimon"}, Unsupported, "type 'paimon' is not supported; supported are iceberg, jdbc"),
        ("c", {"type": "iceberg"}, DefinitionInvalid, "needs the option 'catalog-type'"),
        ("c", {"type": "jdbc"}, DefinitionInvalid, "needs the option 'url'"),
        ("a.b", {"type": "jdbc", "url": "x"}, DefinitionInvalid, "cannot contain a dot"),
    ],
)
def test_a_catalog_that_cannot_be_made_is_refused_by_name(
    name: str, options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        catalog_settings(name, options)
