from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid, MtError, Unsupported
from mt_core.model.connector_table import GeneratedRows, Watermark
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import parse


def table(sql: str) -> CreateConnectorTable:
    found = parse(sql)
    assert isinstance(found, CreateConnectorTable)
    return found


def datagen(columns: str, **options: str) -> str:
    texts = {
        "connector": "datagen",
        **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
    }
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in texts.items())
    return f"CREATE TEMPORARY TABLE g ({columns}) WITH ({pairs})"


def item(columns: str, **options: str) -> str:
    rows = table(datagen(columns, **options)).unbounded
    assert rows is not None
    [item] = rows.items
    return item


def test_datagen_without_a_number_of_rows_has_rows_without_end() -> None:
    found = table(
        "CREATE OR REPLACE TEMPORARY TABLE g (n TINYINT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL "
        "'5' SECOND) WITH ('connector' = 'DataGen', 'rows-per-second' = '7')"
    )

    assert found == CreateConnectorTable(
        name=("g",),
        connector="datagen",
        spark_sql="",
        is_temporary=True,
        or_replace=True,
        unbounded=GeneratedRows(
            items=(
                "CAST(-128L + pmod(xxhash64(value, 'n'), 256L) AS TINYINT) AS `n`",
                "CAST(timestamp AS TIMESTAMP) AS `at`",
            ),
            rows_per_second=7,
        ),
        watermark=Watermark(column="at", delay="5 SECOND"),
    )


def test_datagen_with_a_number_of_rows_is_a_view_over_as_many() -> None:
    found = table(datagen("o BOOLEAN, p AS PROCTIME()", number_of_rows="3"))

    assert (found.unbounded, found.has_statement) == (None, False)
    assert found.bounded == GeneratedRows(
        items=("(pmod(xxhash64(value, 'o'), 2) = 0) AS `o`", "current_timestamp() AS `p`"),
        rows_per_second=10_000,
        number_of_rows=3,
    )
    assert found.rows == (
        "SELECT (pmod(xxhash64(value, 'o'), 2) = 0) AS `o`, current_timestamp() AS `p` FROM "
        "(SELECT id AS value, current_timestamp() AS timestamp FROM range(3))"
    )


@pytest.mark.parametrize(
    ("rows", "expected"), [({}, 3), ({"number_of_rows": "2"}, 2), ({"number_of_rows": "9"}, 3)]
)
def test_the_shortest_sequence_ends_a_table(rows: dict[str, str], expected: int) -> None:
    sequences = {"fields__a__kind": "sequence", "fields__a__start": "5", "fields__a__end": "7"}
    longer = {"fields__b__kind": "sequence", "fields__b__start": "0", "fields__b__end": "9"}

    found = table(datagen("a BIGINT, b STRING", **sequences, **longer, **rows))

    assert "CAST(5L + value AS BIGINT) AS `a`, CAST(0L + value AS STRING) AS `b`" in found.rows
    assert f"range({expected})" in found.rows


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ("b BIGINT", {}, "xxhash64(value, 'b') AS `b`"),
        (
            "b INT",
            {"fields__b__min": "1", "fields__b__max": "6"},
            "CAST(1L + pmod(xxhash64(value, 'b'), 6L) AS INT) AS `b`",
        ),
        (
            "b BIGINT",
            {"fields__b__min": "-9223372036854775808", "fields__b__max": "9223372036854775806"},
            "CAST(-9223372036854775808BD + pmod(CAST(xxhash64(value, 'b') AS DECIMAL(20, 0)), "
            "18446744073709551615BD) AS BIGINT) AS `b`",
        ),
        (
            "b DECIMAL(4, 1)",
            {},
            (
                "CAST(0D + (pmod(xxhash64(value, 'b'), 9007199254740992) / 9007199254740992D) * (99D - 0D) "
                "AS DECIMAL(4, 1)) AS `b`"
            ),
        ),
        (
            "b VARCHAR(8)",
            {},
            "substring(sha2(concat(CAST(value AS STRING), '/b/'), 256), 1, 8) AS `b`",
        ),
        (
            "b BYTES",
            {"fields__b__length": "4", "fields__b__var_len": "true"},
            "unhex(substring(sha2(concat(CAST(value AS STRING), '/b/'), 256), 1, "
            "CAST(2 * (1 + pmod(xxhash64(value, 'b length'), 4L)) AS INT))) AS `b`",
        ),
        (
            "b BOOLEAN",
            {"fields__b__null_rate": "0.25"},
            "IF((pmod(xxhash64(value, 'b null'), 9007199254740992) / 9007199254740992D) < 0.25D, NULL, "
            "(pmod(xxhash64(value, 'b'), 2) = 0)) AS `b`",
        ),
        ("b DATE", {}, "CAST(timestamp AS DATE) AS `b`"),
        (
            "b TIMESTAMP(3)",
            {"fields__b__max_past": "2 min"},
            "CAST((timestamp - make_dt_interval(0, 0, 0, (pmod(xxhash64(value, 'b'), 9007199254740992) / "
            "9007199254740992D) * 120.0D)) AS TIMESTAMP_NTZ) AS `b`",
        ),
    ],
)
def test_each_type_has_its_expression(columns: str, options: dict[str, str], expected: str) -> None:
    assert item(columns, **options) == expected


def test_rate_gives_its_time_and_its_counter_under_the_names_of_the_columns() -> None:
    bare = table("CREATE TEMPORARY TABLE r WITH ('connector' = 'rate')")
    named = table(
        "CREATE TEMPORARY TABLE r (n BIGINT, at TIMESTAMP(3), p AS PROCTIME()) WITH ('connector' = 'rate', "
        "'rows-per-second' = '50')"
    )

    assert bare.unbounded == GeneratedRows(items=("timestamp", "value"), rows_per_second=1)
    assert named.unbounded == GeneratedRows(
        items=("value AS `n`", "CAST(timestamp AS TIMESTAMP_NTZ) AS `at`", "current_timestamp() AS `p`"),
        rows_per_second=50,
    )


def test_a_table_that_stays_has_what_a_batch_reads_of_it_beside_its_rows() -> None:
    endless = table(
        "CREATE TABLE IF NOT EXISTS c.d.g (a INT NOT NULL, PRIMARY KEY (a) NOT ENFORCED) COMMENT 'x' WITH "
        "('connector' = 'datagen')"
    )
    bounded = table("CREATE TABLE g (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '2')")

    assert (endless.name, endless.is_temporary, endless.if_not_exists) == (("c", "d", "g"), False, True)
    assert (endless.column_list, endless.all_keys, endless.comment) == (("`a` INT",), ("a",), "x")
    assert endless.unbounded is not None
    assert endless.rows.startswith(
        "SELECT CAST(NULL AS INT) AS `a` FROM VALUES (1) WHERE CAST(raise_error('Table c.d.g: connector"
    )
    assert (bounded.unbounded, bounded.rows.endswith("FROM range(2))"), dict(bounded.options)) == (
        None,
        True,
        {"connector": "datagen", "number-of-rows": "2"},
    )


def test_a_sink_is_a_view_that_cannot_be_read() -> None:
    found = table(
        "CREATE TEMPORARY TABLE p (a INT, b STRING) WITH ('connector' = 'print', 'print-identifier' = 'x')"
    )

    reason = "raise_error('Table p: connector \\'print\\' is a sink and cannot be read; read another table.')"
    assert (found.connector, found.unbounded) == ("print", None)
    assert found.spark_sql == (
        "CREATE TEMPORARY VIEW `p` AS SELECT CAST(NULL AS INT) AS `a`, CAST(NULL AS STRING) AS `b` FROM "
        f"VALUES (1) WHERE CAST({reason} AS BOOLEAN)"
    )


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        (
            datagen("a INT", fields__a__min="x"),
            DefinitionInvalid,
            "'fields.a.min' is 'x'; expected a whole number",
        ),
        (
            datagen("a INT", fields__a__min="5", fields__a__max="4"),
            DefinitionInvalid,
            "expected a number from 5 on",
        ),
        (
            datagen("a TINYINT", fields__a__max="128"),
            DefinitionInvalid,
            "expected a number that TINYINT can hold",
        ),
        (
            datagen("a INT", fields__b__min="5"),
            DefinitionInvalid,
            "names the column b, which does not exist; the columns are a",
        ),
        (
            datagen("a INT", row_per_second="5"),
            DefinitionInvalid,
            "option 'row-per-second' does not exist; did you mean rows-per-second?",
        ),
        (
            datagen("a INT", rows_per_second="0"),
            DefinitionInvalid,
            "'rows-per-second' is '0'; expected a whole number above 0",
        ),
        (datagen("a INT", number_of_rows="all"), DefinitionInvalid, "'number-of-rows' is 'all'"),
        (datagen("a INT", fields__a__kind="line"), DefinitionInvalid, "expected random or sequence"),
        (
            datagen("a INT", fields__a__kind="sequence"),
            DefinitionInvalid,
            "a sequence needs 'fields.a.start'",
        ),
        (
            datagen("a DATE", fields__a__kind="sequence", fields__a__start="1", fields__a__end="2"),
            Unsupported,
            "which a column of type DATE cannot hold",
        ),
        (datagen("a STRING", fields__a__length="0"), DefinitionInvalid, "from 1 to 100000"),
        (datagen("a INT", fields__a__null_rate="2"), DefinitionInvalid, "a number from 0 to 1"),
        (
            datagen("a TIMESTAMP(3)", fields__a__max_past="soon"),
            DefinitionInvalid,
            "a duration such as 10 min",
        ),
        (
            datagen("a ARRAY<INT>"),
            Unsupported,
            "column a: connector 'datagen' cannot generate values of type ARRAY<INT>",
        ),
        ("CREATE TEMPORARY TABLE g WITH ('connector' = 'datagen')", DefinitionInvalid, "needs columns"),
        (
            "CREATE TEMPORARY TABLE g (a INT) WITH ('connector' = 'rate')",
            Unsupported,
            "column a: connector 'rate' generates",
        ),
        ("CREATE TEMPORARY TABLE g WITH ('connector' = 'print')", DefinitionInvalid, "needs columns"),
        (
            "CREATE TEMPORARY TABLE g (a INT) WITH ('connector' = 'blackhole', 'x' = 'y')",
            DefinitionInvalid,
            "has no option 'x'; it has no options",
        ),
        (
            "CREATE TEMPORARY TABLE d.g (a INT) WITH ('connector' = 'datagen')",
            Unsupported,
            "a name with a database cannot be combined with TEMPORARY",
        ),
        (
            "CREATE TABLE g WITH ('connector' = 'datagen') AS SELECT 1 AS a",
            Unsupported,
            "AS query cannot be combined with connector 'datagen', which generates its rows; "
            "leave AS query out.",
        ),
        (
            "CREATE TEMPORARY TABLE g WITH ('connector' = 'print') AS SELECT 1 AS a",
            Unsupported,
            r"which stores no rows; write CREATE TEMPORARY TABLE g \(column type, …\) WITH "
            r"\('connector' = 'print', …\) without "
            "AS, then INSERT INTO g and the query in streaming mode.",
        ),
        (
            (
                "CREATE TABLE d.g WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json') AS "
                "SELECT 1 AS a"
            ),
            Unsupported,
            r"which stores its rows in a topic; write CREATE TABLE d.g \(column type, …\) WITH "
            r"\('connector' = 'kafka', …\) without "
            "AS, then INSERT INTO d.g and the query.",
        ),
        (
            "CREATE TABLE g (a INT) PARTITIONED BY (a) WITH ('connector' = 'datagen')",
            Unsupported,
            "leave PARTITIONED BY out",
        ),
        (
            datagen("a INT, WATERMARK FOR a AS a"),
            DefinitionInvalid,
            "WATERMARK FOR a needs a column of type TIMESTAMP",
        ),
        (
            datagen("a INT, WATERMARK FOR b AS b"),
            DefinitionInvalid,
            "WATERMARK FOR b, which is not a column of the table",
        ),
        (
            datagen("a INT, WATERMARK FOR a AS a + 1"),
            Unsupported,
            "write WATERMARK FOR column AS column - INTERVAL",
        ),
        (
            "CREATE TEMPORARY TABLE t (a INT, p AS PROCTIME()) WITH ('connector' = 'csv', 'path' = '/x')",
            Unsupported,
            "column p: computed and metadata columns are not supported",
        ),
    ],
)
def test_what_cannot_be_generated_is_refused_by_name(sql: str, error: type[MtError], message: str) -> None:
    with pytest.raises(error, match=message):
        parse(sql)
