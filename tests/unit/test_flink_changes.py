from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid, MtError, Unsupported
from mt_core.sql.catalog import CreateConnectorTable, DropTemporaryView, SparkStatement
from mt_core.sql.parser import parse
from mt_core.sql.statements import RefreshTable


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        ("ALTER TABLE c.d.t SET ('k' = 'v', 'l' = 'it''s')", "SET TBLPROPERTIES ('k' = 'v', 'l' = 'it\\'s')"),
        ("ALTER TABLE c.d.t RESET ('k', 'l')", "UNSET TBLPROPERTIES IF EXISTS ('k', 'l')"),
        ("ALTER TABLE c.d.t RENAME TO d.u", "RENAME TO `d`.`u`"),
        ("ALTER TABLE c.d.t RENAME TO c.d.u", "RENAME TO `d`.`u`"),
        ("ALTER TABLE c.d.t RENAME a TO b", "RENAME COLUMN `a` TO `b`"),
        ("ALTER TABLE c.d.t RENAME `column` TO b", "RENAME COLUMN `column` TO `b`"),
        ("ALTER TABLE c.d.t ADD a INT", "ADD COLUMNS (`a` INT)"),
        (
            "ALTER TABLE c.d.t ADD (a TIMESTAMP(3) COMMENT 'x' FIRST, b ROW<x INT> AFTER a)",
            "ADD COLUMNS (`a` TIMESTAMP_NTZ COMMENT 'x' FIRST, `b` STRUCT<`x`: INT> AFTER `a`)",
        ),
        ("ALTER TABLE c.d.t ADD PRIMARY KEY (a, b) NOT ENFORCED", "SET IDENTIFIER FIELDS `a`, `b`"),
        ("ALTER TABLE c.d.t MODIFY a BIGINT", "CHANGE COLUMN `a` `a` BIGINT"),
        (
            "ALTER TABLE c.d.t MODIFY (a BIGINT COMMENT 'x' AFTER b)",
            "CHANGE COLUMN `a` `a` BIGINT COMMENT 'x' AFTER `b`",
        ),
        ("ALTER TABLE c.d.t DROP a", "DROP COLUMNS (`a`)"),
        ("ALTER TABLE c.d.t DROP (a, b)", "DROP COLUMNS (`a`, `b`)"),
    ],
)
def test_alter_table_of_flink_is_said_in_sparks_words(flink: str, spark: str) -> None:
    assert parse(flink) == SparkStatement(spark_sql=f"ALTER TABLE `c`.`d`.`t` {spark}")


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t SET TBLPROPERTIES ('k' = 'v')",
        "ALTER TABLE t SET LOCATION 'x'",
        "ALTER TABLE t SET IDENTIFIER FIELDS a",
        "ALTER TABLE t ADD COLUMNS (a INT)",
        "ALTER TABLE t ADD COLUMN a INT",
        "ALTER TABLE t ADD PARTITION FIELD a",
        "ALTER TABLE t ADD IF NOT EXISTS PARTITION (a = 1)",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t DROP COLUMNS (a, b)",
        "ALTER TABLE t DROP IF EXISTS PARTITION (a = 1)",
        "ALTER TABLE t DROP BRANCH b",
        "ALTER TABLE t DROP CONSTRAINT c",
        "ALTER TABLE t ALTER COLUMN a TYPE BIGINT",
        "ALTER TABLE t CREATE TAG x",
        "ALTER TABLE t WRITE ORDERED BY a",
        "CREATE DATABASE d",
        "CREATE DATABASE d WITH DBPROPERTIES ('k' = 'v')",
        "ALTER DATABASE d SET DBPROPERTIES ('k' = 'v')",
        "DROP TABLE t",
        "DROP VIEW v",
        "DROP TEMPORARY FUNCTION d.f",
        "CREATE FUNCTION d.f AS 'a.B'",
        "REFRESH TABLE t",
    ],
)
def test_what_is_in_sparks_words_is_left_to_spark(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        (
            "CREATE DATABASE IF NOT EXISTS c.d COMMENT 'x' WITH ('k' = 'v')",
            "CREATE NAMESPACE IF NOT EXISTS `c`.`d` COMMENT 'x' WITH DBPROPERTIES ('k' = 'v')",
        ),
        ("ALTER DATABASE c.d SET ('k' = 'v')", "ALTER NAMESPACE `c`.`d` SET DBPROPERTIES ('k' = 'v')"),
    ],
)
def test_properties_of_a_database_are_said_in_sparks_words(flink: str, spark: str) -> None:
    assert parse(flink) == SparkStatement(spark_sql=spark)


def test_drop_temporary_names_a_temporary_view() -> None:
    assert parse("DROP TEMPORARY VIEW v") == DropTemporaryView(name="v")
    assert parse("DROP TEMPORARY TABLE IF EXISTS `v 1`") == DropTemporaryView(name="v 1", if_exists=True)


def test_refresh_materialized_table_is_the_refresh_of_alter() -> None:
    assert parse("REFRESH MATERIALIZED TABLE d.t") == RefreshTable(name=("d", "t"))
    assert parse("REFRESH MATERIALIZED TABLE t PARTITION (ds = 'x')") == RefreshTable(
        name=("t",), partitions={"ds": "x"}
    )
    assert parse("REFRESH MATERIALIZED TABLE t PARTITION (ds = 'x')") == parse(
        "ALTER MATERIALIZED TABLE t REFRESH PARTITION (ds = 'x')"
    )


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        (
            "ALTER TABLE t ADD WATERMARK FOR a AS a",
            "leave it out, because batch queries do not use watermarks",
        ),
        (
            "ALTER TABLE t MODIFY WATERMARK FOR a AS a",
            "leave it out, because batch queries do not use watermarks",
        ),
        ("ALTER TABLE t DROP WATERMARK", "leave it out, because batch queries do not use watermarks"),
        ("ALTER TABLE t DROP PRIMARY KEY", "DROP IDENTIFIER FIELDS"),
        ("ALTER TABLE t MODIFY PRIMARY KEY (a) NOT ENFORCED", "SET IDENTIFIER FIELDS"),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", r"write PRIMARY KEY \(…\) NOT ENFORCED"),
        ("ALTER TABLE t ADD a INT NOT NULL", "leave NOT NULL out"),
        ("ALTER TABLE t ADD a AS b + 1", "use a view"),
        ("ALTER TABLE t MODIFY (a INT, b INT)", "one at a time"),
        ("ALTER TABLE t MODIFY a INT NOT NULL", "SET NOT NULL"),
        ("ALTER TABLE IF EXISTS t SET ('k' = 'v')", "leave IF EXISTS out"),
        (
            "CREATE TEMPORARY FUNCTION IF NOT EXISTS d.f AS 'a.B' LANGUAGE JAVA USING JAR '/x.jar'",
            r"Function d\.f: .*write f\.",
        ),
        ("DROP TEMPORARY VIEW d.v", "without a database"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a))", r"write PRIMARY KEY \(…\) NOT ENFORCED"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b) NOT ENFORCED)", "names b, which is not a column"),
        ("CREATE TABLE t (a DOUBLE, PRIMARY KEY (a) NOT ENFORCED)", "of type DOUBLE"),
        (
            "CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED)",
            "has one PRIMARY KEY",
        ),
        ("CREATE TEMPORARY TABLE t (a INT) WITH ('k' = 'v')", "CREATE TEMPORARY VIEW"),
    ],
)
def test_what_spark_cannot_do_is_refused_with_a_way_out(text: str, way_out: str) -> None:
    with pytest.raises(MtError, match=way_out) as refused:
        parse(text)

    assert isinstance(refused.value, Unsupported | DefinitionInvalid)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("CREATE TABLE t (a INT, b STRING, PRIMARY KEY (b, a) NOT ENFORCED)", ("b", "a")),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED) WITH ('k' = 'v')", ("a",)),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'iceberg')", ("a",)),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'parquet')", ()),
        (
            (
                "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY NOT ENFORCED) WITH "
                "('connector' = 'csv', 'path' = '/x')"
            ),
            (),
        ),
    ],
)
def test_a_primary_key_is_kept_where_the_table_has_a_place_for_it(text: str, keys: tuple[str, ...]) -> None:
    found = parse(text)

    assert isinstance(found, CreateConnectorTable)
    assert found.keys == keys
