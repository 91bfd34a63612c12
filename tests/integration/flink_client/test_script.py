"""Flink's SQL client runs scripts against us."""

from __future__ import annotations

import pytest

from mt_core.base.tokens import split_statements
from tests.integration.flink_client.sql_client import DONE, SqlClient, column, error, rows

pytestmark = [pytest.mark.spark, pytest.mark.flink, pytest.mark.slow]

VALUES = """
SELECT true AS yes, CAST(1 AS TINYINT) AS tiny, CAST(2 AS SMALLINT) AS small, 3 AS whole, 4L AS big,
  CAST(1.1 AS FLOAT) AS real, 1e20D AS double, CAST('NaN' AS DOUBLE) AS nan,
  CAST('-Infinity' AS FLOAT) AS inf,
  CAST(1.5 AS DECIMAL(38, 10)) AS exact, CAST(NULL AS INT) AS none, NULL AS nothing;
SELECT DATE '2024-02-29' AS day, TIME '01:02:03.5' AS time, TIMESTAMP_NTZ '2024-01-02 03:04:05.12' AS wall,
  TIMESTAMP '2024-01-02 03:04:05Z' AS moment, INTERVAL '1 02:03:04.5' DAY TO SECOND AS span,
  INTERVAL '1-2' YEAR TO MONTH AS months;
SELECT array(1, 2, NULL) AS list, map('k', 1) AS by_name, map(1, 'x') AS by_number,
  named_struct('x', 1, 'y', 'z') AS row, array(map('a', array(1))) AS deep,
  parse_json('{"a": [1]}') AS variant;
SELECT 'text' AS text, '' AS empty, '日本語' AS wide, X'0AFF' AS bytes, repeat('long', 30) AS cut,
  '--no; comment' AS tricky;
"""
TABLES = """
CREATE DATABASE market;
USE market;
SHOW CURRENT DATABASE;
-- it's a comment; the statement goes on
CREATE TABLE `sales` (id BIGINT NOT NULL COMMENT 'the id', day STRING, paid DECIMAL(10, 2)) USING iceberg
  PARTITIONED BY (day);
INSERT INTO sales VALUES (1, '2024-01-01', 10.00), (2, '2024-01-02', 20.50);
SELECT * FROM sales ORDER BY id;
SHOW TABLES;
DESCRIBE sales;
SHOW PARTITIONS sales;
SHOW CREATE TABLE sales;
CREATE TEMPORARY VIEW firsts AS SELECT * FROM sales WHERE id = 1;
SHOW VIEWS;
SELECT count(*) AS n FROM firsts;
CREATE TABLE copy WITH ('connector' = 'iceberg') AS SELECT * FROM sales;
SELECT count(*) AS n FROM copy;
EXPLAIN SELECT * FROM sales;
DROP TABLE copy;
DROP TABLE sales;
USE `default`;
DROP DATABASE market;
"""
CATALOGS = """
CREATE CATALOG files WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '$FOLDER/files');
SHOW CATALOGS;
USE CATALOG files;
CREATE DATABASE one;
SHOW DATABASES;
SHOW CURRENT CATALOG;
DROP DATABASE one;
USE CATALOG lake;
DROP CATALOG files;
SHOW CATALOGS;
"""
MATERIALIZED_TABLE = """
CREATE TABLE fares (at TIMESTAMP, day STRING, paid DECIMAL(10, 2)) USING iceberg;
INSERT INTO fares VALUES (TIMESTAMP '2024-01-01 10:00:00', '2024-01-01', 1.50);
CREATE MATERIALIZED TABLE daily PARTITIONED BY (day)
  WITH ('partition.fields.day.date-formatter' = 'yyyy-MM-dd')
  FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL
  AS SELECT day, sum(paid) AS paid, max(at) AS newest, map('n', array(named_struct('x', count(*)))) AS deep
  FROM fares GROUP BY day;
SHOW MATERIALIZED TABLES;
DESCRIBE daily;
SHOW CREATE MATERIALIZED TABLE daily;
INSERT INTO fares VALUES (TIMESTAMP '2024-01-02 10:00:00', '2024-01-02', 2.00);
ALTER MATERIALIZED TABLE daily REFRESH PARTITION (day = '2024-01-02');
SELECT day, paid FROM daily ORDER BY day;
ALTER MATERIALIZED TABLE daily SUSPEND;
SHOW MATERIALIZED TABLES;
ALTER MATERIALIZED TABLE daily RESUME;
ALTER MATERIALIZED TABLE daily REFRESH;
SHOW REFRESHES FOR daily;
EXPLAIN REFRESH daily;
DROP MATERIALIZED TABLE daily;
SHOW MATERIALIZED TABLES;
DROP TABLE fares;
"""
FAILING = """
SELECT 1;
SELECT 1,
  2 3;
SELECT 2;
"""
# The client ends at the error of the last.
SCRIPTS = (VALUES, TABLES, CATALOGS, MATERIALIZED_TABLE, FAILING)


class Session:
    """What one client, which was given all scripts as one, showed of each."""

    def __init__(self, client: SqlClient) -> None:
        self._shown = client.run("".join(SCRIPTS).replace("$FOLDER", str(client.folder)))

    def answers(self, script: str) -> list[str]:
        """Return what each statement of *script* showed, as far as the client came."""
        begin = sum(len(split_statements(each)) for each in SCRIPTS[: SCRIPTS.index(script)])
        answers = self._shown[begin : begin + len(split_statements(script))]
        assert answers, self._shown[-1]
        assert script == FAILING or not any("[ERROR]" in answer for answer in answers), answers[-1]
        return answers


@pytest.fixture(scope="module")
def session(client: SqlClient) -> Session:
    return Session(client)


def test_values_of_every_type_are_shown(session: Session) -> None:
    numbers, times, deep, texts = session.answers(VALUES)

    assert rows(numbers) == [
        ["yes", "tiny", "small", "whole", "big", "real", "double", "nan", "inf", "exact", "none", "nothing"],
        ["TRUE", "1", "2", "3", "4", "1.1", "1.0E20", "NaN", "-Infinity", "1.5000000000", "<NULL>", "<NULL>"],
    ]
    assert rows(times) == [
        ["day", "time", "wall", "moment", "span", "months"],
        [
            *("2024-02-29", "01:02:03.5", "2024-01-02 03:04:05.120000", "2024-01-02 08:34:05.000000"),
            *("+1 02:03:04.500", "+1-02"),
        ],
    ]
    assert rows(deep)[1] == ["[1, 2, NULL]", "{k=1}", "{1=x}", "(1, z)", "[{a=[1]}]", '{"a":[1]}']
    assert rows(texts)[1] == [
        "text",
        "",
        "日本語",
        "x'0aff'",
        "longlonglonglonglonglonglon...",
        "--no; comment",
    ]
    assert "1 row in set" in numbers


def test_tables_are_made_written_described_and_dropped(session: Session) -> None:
    answers = session.answers(TABLES)

    assert [answer.endswith(DONE) for answer in answers[:4]] == [True, True, False, True]
    assert column(answers[2]) == ["market"]
    assert (
        "[INFO] SQL update statement has been successfully submitted to the cluster:\nJob ID: " in answers[4]
    )
    assert rows(answers[5]) == [
        ["id", "day", "paid"],
        ["1", "2024-01-01", "10.00"],
        ["2", "2024-01-02", "20.50"],
    ]
    assert column(answers[6]) == ["sales"]
    assert rows(answers[7]) == [
        ["name", "type", "null", "key", "extras", "watermark", "comment"],
        ["id", "BIGINT", "FALSE", "", "", "", "the id"],
        ["day", "STRING", "TRUE", "", "", "", ""],
        ["paid", "DECIMAL(10, 2)", "TRUE", "", "", "", ""],
    ]
    assert column(answers[8]) == ["day=2024-01-01", "day=2024-01-02"]
    assert "CREATE TABLE lake.market.sales (" in answers[9]
    assert column(answers[11]) == ["firsts"]
    assert (column(answers[12]), column(answers[14])) == (["1"], ["2"])
    assert "== Physical Plan ==" in answers[15]
    assert [answer.splitlines()[0] for answer in answers[16:20]] == [DONE] * 4


def test_catalogs_are_made_used_and_dropped(session: Session) -> None:
    answers = session.answers(CATALOGS)

    assert column(answers[1]) == ["files", "lake", "spark_catalog"]
    assert (column(answers[4]), column(answers[5])) == (["one"], ["files"])
    assert column(answers[9]) == ["lake", "spark_catalog"]


def test_a_materialized_table_lives_from_create_to_drop(session: Session) -> None:
    answers = session.answers(MATERIALIZED_TABLE)

    assert answers[2].endswith(DONE)
    assert [(row[0], row[2], row[4]) for row in rows(answers[3])[1:]] == [("daily", "FULL", "ACTIVATED")]
    assert rows(answers[4]) == [
        ["name", "type", "null", "key", "extras", "watermark"],
        ["day", "STRING", "TRUE", "", "PARTITION KEY", ""],
        ["paid", "DECIMAL(20, 2)", "TRUE", "", "", ""],
        ["newest", "TIMESTAMP_LTZ(6)", "TRUE", "", "", ""],
        ["deep", "MAP<STRING NOT NULL, ARRAY<ROW<`x` BIGINT>>>", "TRUE", "", "", ""],
    ]
    assert "CREATE MATERIALIZED TABLE `lake`.`default`.`daily` (" in answers[5]
    assert rows(answers[7])[0] == ["job id", "cluster info", "partitions", "rows"]
    assert rows(answers[8])[1:] == [["2024-01-01", "1.50"], ["2024-01-02", "2.00"]]
    assert rows(answers[10])[1][4] == "SUSPENDED"
    assert [row[2] for row in rows(answers[13])[1:]] == ["SUCCEEDED"] * 3
    assert "decision: " in answers[14]
    assert "Empty set" in answers[16]


def test_an_error_ends_the_script_and_says_what_and_where(session: Session) -> None:
    one, failed = session.answers(FAILING)

    assert column(one) == ["1"]
    assert error(failed) == (
        "QueryFailed: [PARSE_SYNTAX_ERROR] Syntax error at or near '3': extra input '3'. "
        "SQLSTATE: 42601 (line 2, position 5)"
    )


def test_an_init_file_sets_the_session_up(client: SqlClient) -> None:
    setup = client.folder / "init.sql"
    setup.write_text(
        "-- what every session needs\nSET 'table.local-time-zone' = 'Asia/Tokyo';\n"
        "CREATE TEMPORARY VIEW one AS SELECT TIMESTAMP '2024-01-02 03:04:05Z' AS moment;\n",
        encoding="utf-8",
    )

    # A client's configuration may say streaming, which is kept; the client then shows rows as changes.
    own = ("-D", "my.key=mine", "-D", "execution.runtime-mode=streaming")
    [moment, properties] = client.run("SELECT * FROM one;\nSET;", "-i", str(setup), *own)

    assert rows(moment)[1] == ["+I", "2024-01-02 12:04:05.000000"]
    assert {
        "table.local-time-zone": "Asia/Tokyo",
        "my.key": "mine",
        "execution.runtime-mode": "streaming",
    }.items() <= dict(rows(properties)[1:]).items()
