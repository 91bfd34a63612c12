"""Java programs reach us through Flink's JDBC driver."""

from __future__ import annotations

import pytest

from tests.integration.flink_client.jdbc import JdbcProgram

pytestmark = [pytest.mark.spark, pytest.mark.flink, pytest.mark.slow]

FAILED = "org.apache.flink.table.client.gateway.SqlExecutionException"


def test_metadata_and_the_place_in_the_url(jdbc: JdbcProgram) -> None:
    product, place, catalogs, schemas, moved, elsewhere, zone, _, set_zone = jdbc.run(
        "/lake/default?table.local-time-zone=Asia/Tokyo",
        *("product", "where", "catalogs", "schemas", "set-catalog spark_catalog", "where"),
        *(
            "client-info table.local-time-zone",
            "set-client-info table.local-time-zone=UTC",
            "client-info table.local-time-zone",
        ),
    )

    assert product == [["Flink JDBC Driver", "2.3.0", "org.apache.flink.table.jdbc.FlinkDriver"]]
    assert place == [["lake", "default"]]
    assert catalogs[2:] == [["lake"], ["spark_catalog"]]
    assert schemas[2:] == [["default", "lake"], ["default", "spark_catalog"]]
    assert (moved, elsewhere) == ([], [["spark_catalog", "default"]])
    assert (zone, set_zone) == ([["Asia/Tokyo"]], [["UTC"]])


def test_values_of_every_type_that_the_driver_knows(jdbc: JdbcProgram) -> None:
    numbers, times, late, texts, maps = jdbc.run(
        "?table.local-time-zone=Asia/Tokyo",
        "query SELECT true, CAST(1 AS TINYINT), CAST(2 AS SMALLINT), 3, 4L, CAST(1.1 AS FLOAT), "
        "1e20D, CAST('NaN' AS DOUBLE), CAST('-Infinity' AS FLOAT), CAST(1e30 AS DECIMAL(38, 0)), "
        "CAST(100 AS DECIMAL(10, 2)), CAST(NULL AS INT)",
        "query SELECT DATE '2024-02-29', TIME '01:02:03', TIMESTAMP_NTZ '2024-01-02 03:04:05.12', "
        "TIMESTAMP '2024-01-02 03:04:05.12Z', DATE '0001-01-01', TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'",
        "query SELECT DATE '+12345-01-01', TIMESTAMP_NTZ '+12345-01-01 00:00:00', CAST(NULL AS DATE)",
        "query SELECT 'text', '', '日本語', X'0AFF', CAST(NULL AS STRING)",
        "query SELECT map('k', 1)",
    )

    assert numbers[1:] == [
        [
            *("BOOLEAN NOT NULL", "TINYINT NOT NULL", "SMALLINT NOT NULL", "INT NOT NULL", "BIGINT NOT NULL"),
            *(
                "FLOAT NOT NULL",
                "DOUBLE NOT NULL",
                "DOUBLE",
                "FLOAT",
                "DECIMAL(38, 0)",
                "DECIMAL(10, 2)",
                "INT",
            ),
        ],
        ["true", "1", "2", "3", "4", "1.1", "1.0E20", "NaN", "-Infinity", f"1{'0' * 30}", "100.00", "null"],
    ]
    assert times[2] == [
        *("2024-02-29", "01:02:03", "2024-01-02 03:04:05.12", "2024-01-02 12:04:05.12"),
        *("0001-01-01", "9999-12-31 23:59:59.999999"),
    ]
    # Java's Date has the year 12345 and prints four digits of it.
    assert late[2] == ["2345-01-01", "12345-01-01 00:00:00.0", "null"]
    assert texts[2] == ["text", "", "日本語", "[10, -1]", "null"]
    assert maps[2] == ["{k=1}"]


def test_tables_are_made_written_and_read(jdbc: JdbcProgram) -> None:
    made, inserted, found, described, many, shown, dropped = jdbc.run(
        "/lake/default",
        "execute CREATE TABLE boxes (id BIGINT NOT NULL, size DECIMAL(10, 2)) USING iceberg",
        "execute INSERT INTO boxes VALUES (1, 1.50), (2, NULL)",
        "query SELECT * FROM boxes ORDER BY id",
        "execute DESCRIBE boxes",
        "query SELECT count(*), max(id) FROM (SELECT id FROM range(20000))",
        "execute SHOW TABLES LIKE 'box%'",
        "execute DROP TABLE boxes",
    )

    assert made == dropped == [["updated", "0"]]
    assert inserted[0] == ["job id"]
    assert found == [["id", "size"], ["BIGINT NOT NULL", "DECIMAL(10, 2)"], ["1", "1.50"], ["2", "null"]]
    assert [row[:3] for row in described[2:]] == [
        ["id", "BIGINT", "false"],
        ["size", "DECIMAL(10, 2)", "true"],
    ]
    assert many[2] == ["20000", "19999"]
    assert shown[2:] == [["boxes"]]


def test_results_of_many_pages_come_whole(jdbc: JdbcProgram) -> None:
    [found] = jdbc.run("", "query SELECT id FROM range(12000) ORDER BY id")

    assert [row[0] for row in found[2:]] == [str(number) for number in range(12000)]


def test_errors_say_what_and_the_connection_goes_on(jdbc: JdbcProgram) -> None:
    parse, division, no_query, catalog, after, closed = jdbc.run(
        "",
        "query SELEC 1",
        "query SELECT 1 / 0",
        "query SHOW TABLES",
        "set-catalog nope",
        "query SELECT 1",
        "close",
    )

    assert parse[0][:2] == ["error", FAILED]
    assert [
        (
            "Caused by: QueryFailed: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. "
            "SQLSTATE: 42601 (line 1, position 1)"
        )
    ] in parse
    assert any(line[0].startswith("Caused by: QueryFailed: [DIVIDE_BY_ZERO]") for line in division)
    assert no_query == [["error", "java.sql.SQLException", "Statement[SHOW TABLES] is not a query."]]
    assert any(
        "Catalog nope does not exist; the catalogs are lake, spark_catalog." in line[0] for line in catalog
    )
    assert (after[2], closed) == (["1"], [["true"]])


def test_a_catalog_in_the_url_that_does_not_exist_is_told(jdbc: JdbcProgram) -> None:
    [told] = jdbc.run("/nope")

    assert told[0][:2] == ["error", FAILED]
    assert any(
        "Catalog nope does not exist; the catalogs are lake, spark_catalog." in line[0] for line in told
    )
