from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.errors import DefinitionInvalid, SqlSyntaxError, Unsupported
from mt_core.model.cron import Cron
from mt_core.model.freshness import Freshness
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshMode, TableIdentifier
from mt_core.model.transform import Transform, TransformKind
from mt_core.sql.parser import parse, parse_name
from mt_core.sql.statements import (
    AlterOptions,
    AlterQuery,
    ColumnSpec,
    CreateMaterializedTable,
    DescribeTable,
    DropTable,
    ExplainCreate,
    ExplainRefresh,
    Name,
    RefreshTable,
    ResetProperty,
    ResumeTable,
    SetFreshness,
    SetProperty,
    SetRefreshMode,
    SetSchedule,
    ShowCreateTable,
    ShowLineage,
    ShowMaterializedTables,
    ShowRefreshes,
    Statement,
    SuspendTable,
    VerifyTable,
    qualify,
)

ALTER = "ALTER MATERIALIZED TABLE t"


# ------------------------------------------------------------------------------------------------ all but SET


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"{ALTER} SUSPEND", SuspendTable(name=("t",))),
        ("alter materialized table c.`d.e`.`t``x` suspend ;", SuspendTable(name=("c", "d.e", "t`x"))),
        (f"{ALTER} RESUME", ResumeTable(name=("t",))),
        (
            f"{ALTER} RESUME WITH ('a' = 'b', \"c\"='d')",
            ResumeTable(name=("t",), options={"a": "b", "c": "d"}),
        ),
        (f"{ALTER} RESUME WITH ()", ResumeTable(name=("t",))),
        (f"{ALTER} REFRESH", RefreshTable(name=("t",))),
        (
            f"{ALTER} REFRESH PARTITION (ds='2026-01-01', `h h` = 7)",
            RefreshTable(name=("t",), partitions={"ds": "2026-01-01", "h h": "7"}),
        ),
        (f"{ALTER} SET REFRESH_MODE = FULL", SetRefreshMode(name=("t",), mode=RefreshMode.FULL)),
        (f"{ALTER} SET ('a' = 'b', 'c' = 'd')", AlterOptions(name=("t",), options={"a": "b", "c": "d"})),
        (f"{ALTER} RESET ('a', 'c')", AlterOptions(name=("t",), removed=("a", "c"))),
        (f"{ALTER} SET SCHEDULE CRON '0 6 * * mon'", SetSchedule(name=("t",), cron=Cron("0 6 * * MON"))),
        (
            f"{ALTER} SET SCHEDULE CRON '0 6 * * *' AT TIME ZONE 'Europe/Rome'",
            SetSchedule(name=("t",), cron=Cron("0 6 * * *"), zone="Europe/Rome"),
        ),
        (
            f"{ALTER} SET FRESHNESS = INTERVAL '2' DAYS",
            SetFreshness(name=("t",), freshness=Freshness(2, "DAY")),
        ),
        (f"{ALTER} AS SELECT 1", AlterQuery(name=("t",), query="SELECT 1", query_line=1, query_column=31)),
        ("DROP MATERIALIZED TABLE t", DropTable(name=("t",))),
        ("DROP MATERIALIZED TABLE IF EXISTS a.t;", DropTable(name=("a", "t"), if_exists=True)),
        ("SHOW MATERIALIZED TABLES", ShowMaterializedTables()),
        ("SHOW MATERIALIZED TABLES FROM c.d", ShowMaterializedTables(namespace=("c", "d"))),
        ("SHOW MATERIALIZED TABLES IN d LIKE 'a%'", ShowMaterializedTables(namespace=("d",), like="a%")),
        ("SHOW MATERIALIZED TABLES NOT LIKE 'a_b'", ShowMaterializedTables(like="a_b", negated=True)),
        ("SHOW MATERIALIZED TABLES EXTENDED", ShowMaterializedTables(extended=True)),
        ("SHOW MATERIALIZED TABLES LATE", ShowMaterializedTables(late=True)),
        (
            "SHOW MATERIALIZED TABLES IN d LIKE 'a%' EXTENDED LATE",
            ShowMaterializedTables(namespace=("d",), like="a%", extended=True, late=True),
        ),
        (
            "SHOW MATERIALIZED TABLES IN d LIKE 'a%' EXTENDED;",
            ShowMaterializedTables(namespace=("d",), like="a%", extended=True),
        ),
        ("SHOW CREATE MATERIALIZED TABLE t", ShowCreateTable(name=("t",))),
        ("SHOW CREATE OR ALTER MATERIALIZED TABLE a.t", ShowCreateTable(name=("a", "t"), or_alter=True)),
        ("SHOW REFRESHES", ShowRefreshes()),
        ("SHOW REFRESHES FOR a.t", ShowRefreshes(name=("a", "t"))),
        ("SHOW REFRESHES LIMIT 5", ShowRefreshes(limit=5)),
        ("SHOW REFRESHES EXTENDED", ShowRefreshes(extended=True)),
        (
            "SHOW REFRESHES FOR t WHERE status = 'FAILED' EXTENDED LIMIT 5",
            ShowRefreshes(name=("t",), status=RunStatus.FAILED, extended=True, limit=5),
        ),
        ("SHOW REFRESHES FOR extended", ShowRefreshes(name=("extended",))),
        ("SHOW LINEAGE", ShowLineage()),
        ("show lineage of a.t;", ShowLineage(name=("a", "t"))),
        ("SHOW LINEAGE EXTENDED", ShowLineage(extended=True)),
        ("SHOW LINEAGE OF extended EXTENDED", ShowLineage(name=("extended",), extended=True)),
        ("SHOW REFRESHES FOR t LIMIT 0;", ShowRefreshes(name=("t",), limit=0)),
        ("EXPLAIN REFRESH a.t", ExplainRefresh(name=("a", "t"))),
        ("EXPLAIN REFRESH t PARTITION (ds = 'x')", ExplainRefresh(name=("t",), partitions={"ds": "x"})),
        ("VERIFY MATERIALIZED TABLE a.t", VerifyTable(name=("a", "t"))),
        ("verify materialized table t sample 0.5", VerifyTable(name=("t",), percent=0.5)),
        ("VERIFY MATERIALIZED TABLE t SAMPLE 5 PERCENT;", VerifyTable(name=("t",), percent=5.0)),
        ("EXPLAIN REFRESH table", ExplainRefresh(name=("table",))),
        (
            "EXPLAIN CREATE MATERIALIZED TABLE t AS SELECT 1",
            ExplainCreate(
                statement=CreateMaterializedTable(
                    name=("t",), query="SELECT 1", query_line=1, query_column=40
                )
            ),
        ),
        (
            "explain create or alter materialized table a.t\nas SELECT 1",
            ExplainCreate(
                statement=CreateMaterializedTable(
                    name=("a", "t"), or_alter=True, query="SELECT 1", query_line=2, query_column=4
                )
            ),
        ),
        ("DESCRIBE t", DescribeTable(name=("t",), text="DESCRIBE t")),
        ("desc a.b.t;", DescribeTable(name=("a", "b", "t"), text="desc a.b.t;")),
        ("DESC TABLE EXTENDED t", DescribeTable(name=("t",), extended=True, text="DESC TABLE EXTENDED t")),
        ("DESC FORMATTED t", DescribeTable(name=("t",), extended=True, text="DESC FORMATTED t")),
        ("DESC extended", DescribeTable(name=("extended",), text="DESC extended")),
        ("DESC table", DescribeTable(name=("table",), text="DESC table")),
    ],
)
def test_a_statement_of_ours_is_read(sql: str, expected: Statement) -> None:
    assert parse(sql) == expected


@pytest.mark.parametrize("comment", ["/* c */", "-- c ; '\n", "/* a /* nested */ */"])
def test_comments_may_stand_anywhere(comment: str) -> None:
    words = [
        "",
        "ALTER",
        "MATERIALIZED",
        "TABLE",
        "a",
        ".",
        "t",
        "REFRESH",
        "PARTITION",
        "(",
        "ds",
        "=",
        "'x'",
        ")",
        ";",
        "",
    ]

    assert parse(f" {comment} ".join(words)) == RefreshTable(name=("a", "t"), partitions={"ds": "x"})


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "  ;",
        "-- nothing",
        "SELECT 'ALTER MATERIALIZED TABLE t SUSPEND'",
        "SELECT * FROM t WHERE a = 'not closed",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "CREATE TABLE t (a INT)",
        "CREATE OR REPLACE TABLE t AS SELECT 1",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN a INT",
        "REFRESH TABLE t",
        "DESCRIBE FUNCTION d.f",
        "DESCRIBE t c",
        "DESCRIBE t PARTITION (a = 1)",
        "DESCRIBE EXTENDED t AS JSON",
        "DESCRIBE QUERY SELECT 1",
        "DESCRIBE SELECT 1",
        "DESCRIBE",
        "DESCRIBE 'x'",
        "`ALTER` MATERIALIZED TABLE t SUSPEND",
        "CREATE",
        "BEGIN SELECT 1; END",
    ],
)
def test_the_rest_is_for_spark(sql: str) -> None:
    assert parse(sql) is None


@pytest.mark.parametrize(
    ("elsewhere", "here"),
    [
        (
            "CREATE MATERIALIZED VIEW a.`b c` AS SELECT 1 AS x",
            "CREATE MATERIALIZED TABLE a.`b c` FRESHNESS = INTERVAL '1' HOUR AS SELECT 1 AS x",
        ),
        (
            "CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS v (a, b) TBLPROPERTIES ('k' = 'as') COMMENT "
            "'it''s' PARTITIONED BY (a) SCHEDULE EVERY 1 HOUR AS WITH c AS (SELECT 1) SELECT * FROM c;",
            "CREATE OR ALTER MATERIALIZED TABLE v (a, b) COMMENT 'it''s' PARTITIONED BY (a) "
            "FRESHNESS = INTERVAL '1' HOUR AS WITH c AS (SELECT 1) SELECT * FROM c",
        ),
        (
            "CREATE DYNAMIC TABLE t TARGET_LAG = '20 minutes' WAREHOUSE = w AS SELECT 1 AS x",
            "CREATE MATERIALIZED TABLE t FRESHNESS = INTERVAL '20' MINUTE AS SELECT 1 AS x",
        ),
        (
            "create dynamic table t TARGET_LAG = DOWNSTREAM AS SELECT 1 AS x",
            "CREATE MATERIALIZED TABLE t FRESHNESS = INTERVAL '1' HOUR AS SELECT 1 AS x",
        ),
        ("REFRESH MATERIALIZED VIEW v ;", "REFRESH MATERIALIZED TABLE v"),
        ("ALTER DYNAMIC TABLE t SUSPEND", "ALTER MATERIALIZED TABLE t SUSPEND"),
        ("DROP MATERIALIZED VIEW IF EXISTS a.v", "DROP MATERIALIZED TABLE IF EXISTS a.v"),
        ("SHOW DYNAMIC TABLES LIKE 'a%'", "SHOW MATERIALIZED TABLES LIKE 'a%'"),
    ],
)
def test_what_other_systems_call_a_materialized_table_is_answered_with_the_statement_to_write(
    elsewhere: str, here: str
) -> None:
    with pytest.raises(Unsupported) as raised:
        parse(elsewhere)

    assert str(raised.value).partition(" is a materialized table: ")[2] == here
    assert parse(here) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE MATERIALIZED VIEW",
        "CREATE DYNAMIC TABLE t",
        "REFRESH MATERIALIZED VIEW",
        "CREATE DYNAMIC TABLE t (",
    ],
)
def test_a_part_of_such_a_statement_is_refused_too(sql: str) -> None:
    with pytest.raises((Unsupported, SqlSyntaxError)):
        parse(sql)


@given(st.text())
def test_any_text_is_read_or_refused(sql: str) -> None:
    with suppress(SqlSyntaxError):
        assert parse(sql) is None or sql.strip()


@pytest.mark.parametrize(
    ("sql", "reason", "line", "column"),
    [
        ("ALTER MATERIALIZED TABLE", 'Encountered "<EOF>"; expected the name of a materialized table', 1, 25),
        (f"{ALTER}", 'Encountered "<EOF>"; expected SUSPEND, RESUME', 1, 27),
        (f"{ALTER} STOP", 'Encountered "STOP"; expected SUSPEND, RESUME', 1, 28),
        (f"{ALTER}\n SUSPEND now", 'Encountered "now"; expected the end of the statement', 2, 10),
        (f"{ALTER} RESUME WITH", 'Encountered "<EOF>"; expected \\( before the options', 1, 39),
        (f"{ALTER} RESUME WITH (a = 'b')", 'Encountered "a"; expected an option key in quotes', 1, 41),
        (f"{ALTER} RESUME WITH ('a' 'b')", "Encountered \"'b'\"; expected =", 1, 45),
        (f"{ALTER} RESUME WITH ('a' = b)", "expected the value of option 'a' in quotes", 1, 47),
        (
            f"{ALTER} RESUME WITH ('a' = 'b' 'c')",
            "Encountered \"'c'\"; expected , or \\) after the options",
            1,
            51,
        ),
        (f"{ALTER} RESUME WITH ('a' = 'b'", 'Encountered "<EOF>"; expected , or \\)', 1, 50),
        (f"{ALTER} RESUME WITH ('a' = 'b', 'a' = 'c')", "option 'a' is given twice", 1, 52),
        (f"{ALTER} REFRESH PARTITION ()", "expected a partition column", 1, 47),
        (f"{ALTER} REFRESH PARTITION (ds = x)", "expected the value of partition column ds in quotes", 1, 52),
        (f"{ALTER} REFRESH PARTITION (ds='x', ds='y')", "partition column ds is given twice", 1, 55),
        (f"{ALTER} SET ()", 'Encountered "<EOF>"; SET names at least one option', 1, 34),
        (f"{ALTER} RESET ()", "expected an option key in quotes", 1, 35),
        (f"{ALTER} SET", 'Encountered "<EOF>"; expected FRESHNESS', 1, 31),
        (f"{ALTER} SET FRESHNESS INTERVAL '1' DAY", 'Encountered "INTERVAL"; expected =', 1, 42),
        (f"{ALTER} AS", 'Encountered "<EOF>"; expected a query after AS', 1, 30),
        (f"{ALTER} AS SELECT 1; SELECT 2", "only one statement can be run at a time", 1, 39),
        ("ALTER MATERIALIZED t SUSPEND", 'Encountered "t"; expected TABLE', 1, 20),
        ("DROP MATERIALIZED TABLE IF EXISTS", 'Encountered "<EOF>"; expected the name', 1, 34),
        ("DROP MATERIALIZED TABLE 'a'", "Encountered \"'a'\"; expected the name", 1, 25),
        ("DROP MATERIALIZED TABLE a.", 'Encountered "<EOF>"; expected the next part of the name', 1, 27),
        ("DROP MATERIALIZED TABLE ``", 'Encountered "``"; expected the name', 1, 25),
        ("SHOW MATERIALIZED TABLES NOT 'a'", "expected LIKE", 1, 30),
        ("SHOW MATERIALIZED TABLES LIKE a", "expected a pattern in quotes", 1, 31),
        ("SHOW MATERIALIZED TABLES WHERE a", "expected FROM namespace", 1, 26),
        ("SHOW REFRESHES t", r"expected FOR name \[BATCHES\], WHERE status", 1, 16),
        ("SHOW REFRESHES FOR t BATCHES EXTENDED", "expected FOR name", 1, 30),
        ("SHOW LINEAGE FOR t", "expected OF name, EXTENDED, or the end of the statement", 1, 14),
        ("SHOW LINEAGE OF", "expected the name of a materialized table", 1, 16),
        ("SHOW REFRESHES LIMIT 1.5", "expected a whole number of rows", 1, 22),
        ("SHOW REFRESHES LIMIT x", "expected a whole number of rows", 1, 22),
        ("SHOW CREATE OR ALTER TABLE t", "expected MATERIALIZED", 1, 22),
        (
            "VERIFY MATERIALIZED TABLE t SAMPLE 101",
            'Encountered "101"; expected a percentage greater than 0',
            1,
            36,
        ),
        ("EXPLAIN REFRESH", 'Encountered "<EOF>"; expected the name', 1, 16),
        ("DESCRIBE MATERIALIZED TABLE t", "DESCRIBE MATERIALIZED TABLE does not exist", 1, 10),
        (f"{ALTER} SUSPEND 'x", 'Encountered "<EOF>": unterminated string', 1, 36),
    ],
)
def test_a_mistake_is_named_with_its_place(sql: str, reason: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError, match=reason) as refused:
        parse(sql)

    assert (refused.value.line, refused.value.column) == (line, column)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            f"{ALTER} SET TBLPROPERTIES ('a' = 'b')",
            "t: SET TBLPROPERTIES is not supported; use SET ",
        ),
        (f"{ALTER} UNSET ('a')", "UNSET of options is not supported; use RESET "),
        (f"{ALTER} RENAME TO x", "RENAME is not supported; CREATE it under the new name"),
        (f"{ALTER} ADD (a INT)", "ADD is not supported; its columns come from its query"),
        (f"{ALTER} MODIFY (a INT)", "MODIFY is not supported"),
        (f"{ALTER} DROP a", "DROP of a part is not supported"),
        ("CREATE OR REPLACE MATERIALIZED TABLE t AS SELECT 1", "use CREATE OR ALTER MATERIALIZED TABLE"),
        (
            "CREATE TEMPORARY MATERIALIZED TABLE t AS SELECT 1",
            "TEMPORARY MATERIALIZED TABLE is not supported",
        ),
        (
            "CREATE OR REPLACE TEMPORARY MATERIALIZED TABLE t AS SELECT 1",
            "TEMPORARY MATERIALIZED TABLE is not",
        ),
        ("DROP TEMPORARY MATERIALIZED TABLE t", "TEMPORARY MATERIALIZED TABLE is not supported"),
    ],
)
def test_what_is_known_and_refused_names_the_way_out(sql: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        parse(sql)


# ------------------------------------------------------------------------------------------------- SET, RESET


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SET", SetProperty()),
        ("set;", SetProperty()),
        ("SET 'a.b' = 'c d'", SetProperty(key="a.b", value="c d")),
        ("SET 'a.b'='it''s';", SetProperty(key="a.b", value="it's")),
        ("SET a.b-c = 10 min", SetProperty(key="a.b-c", value="10 min")),
        ("SET spark.sql.x=a=b,c", SetProperty(key="spark.sql.x", value="a=b,c")),
        ("SET a.b = 'quoted'", SetProperty(key="a.b", value="quoted")),
        ("SET `a.b` = x -- why", SetProperty(key="a.b", value="x")),
        ("SET a.b =", SetProperty(key="a.b", value="")),
        ("SET a.b", SetProperty(key="a.b")),
        ("SET 'a b'", SetProperty(key="a b")),
        ("SET time = 1", SetProperty(key="time", value="1")),
        (
            "SET table.local-time-zone = Europe/Berlin",
            SetProperty(key="table.local-time-zone", value="Europe/Berlin"),
        ),
        ("RESET", ResetProperty()),
        ("RESET 'a.b'", ResetProperty(key="a.b")),
        ("RESET a.b-c;", ResetProperty(key="a.b-c")),
    ],
)
def test_properties_are_set_and_reset(sql: str, expected: Statement) -> None:
    assert parse(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SET -v",
        "SET TIME ZONE LOCAL",
        "SET TIME ZONE 'UTC'",
        "SET TIME ZONE INTERVAL 1 HOUR",
        "SET VAR x = 1",
        "SET VARIABLE x = (SELECT 1)",
        "SET VAR (a, b) = (SELECT 1, 2)",
        "SET CATALOG c",
        "SET ROLE admin",
        "SET a b = c",
        "SET = c",
        "RESET a b",
    ],
)
def test_other_forms_of_set_are_for_spark(sql: str) -> None:
    assert parse(sql) is None


# ----------------------------------------------------------------------------------------------------- CREATE


def create(text: str) -> CreateMaterializedTable:
    found = parse(text)
    assert isinstance(found, CreateMaterializedTable)
    return found


def test_a_create_with_every_clause() -> None:
    sql = """-- daily
        CREATE MATERIALIZED TABLE lake.sales.daily (
          ds STRING NOT NULL COMMENT 'day; local',
          total DECIMAL(10, 2),
          parts ARRAY<STRUCT<a: INT COMMENT 'x', b: MAP<STRING, INT>>> NULL
        )
        COMMENT 'sales'
        PARTITIONED BY (ds, `h h`)
        WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd', 'k' = '')
        FRESHNESS = INTERVAL '1' DAY
        REFRESH_MODE = full
        AS
          WITH x AS (SELECT ';' AS a) -- keep
          SELECT * FROM x /* end */;
    """

    assert parse(sql) == CreateMaterializedTable(
        name=("lake", "sales", "daily"),
        columns=(
            ColumnSpec(name="ds", type="STRING", nullable=False, comment="day; local"),
            ColumnSpec(name="total", type="DECIMAL(10, 2)"),
            ColumnSpec(name="parts", type="ARRAY<STRUCT<a: INT COMMENT 'x', b: MAP<STRING, INT>>>"),
        ),
        comment="sales",
        partition_keys=("ds", "h h"),
        options={"partition.fields.ds.date-formatter": "yyyy-MM-dd", "k": ""},
        freshness=Freshness(1, "DAY"),
        refresh_mode=RefreshMode.FULL,
        query="WITH x AS (SELECT ';' AS a) -- keep\n          SELECT * FROM x",
        query_line=13,
        query_column=11,
    )


def test_a_create_with_nothing_but_a_query() -> None:
    assert parse("CREATE OR ALTER MATERIALIZED TABLE t AS SELECT 1") == CreateMaterializedTable(
        name=("t",), or_alter=True, query="SELECT 1", query_line=1, query_column=41
    )


@pytest.mark.parametrize(
    ("written", "kind", "column", "width"),
    [
        ("years(ts)", "years", "ts", None),
        ("Year (`t s`)", "years", "t s", None),
        ("month(ts)", "months", "ts", None),
        ("months(ts)", "months", "ts", None),
        ("date(ts)", "days", "ts", None),
        ("DAY(ts)", "days", "ts", None),
        ("days(days)", "days", "days", None),
        ("hour(ts)", "hours", "ts", None),
        ("date_hour(ts)", "hours", "ts", None),
        ("bucket(16, id)", "bucket", "id", 16),
        ("bucket(id, 16)", "bucket", "id", 16),
        ("truncate(name, 4)", "truncate", "name", 4),
        ("truncate(4, name)", "truncate", "name", 4),
    ],
)
def test_transforms_are_written_as_spark_and_iceberg_write_them(
    written: str, kind: str, column: str, width: int | None
) -> None:
    statement = create(
        f"CREATE MATERIALIZED TABLE t PARTITIONED BY (days, {written}, identity(ds)) AS SELECT 1"
    )

    assert statement.partition_keys == ("days", "ds")
    assert statement.transforms == (Transform(kind=TransformKind(kind), column=column, width=width),)


@pytest.mark.parametrize(
    ("written", "error"),
    [
        (
            "rand()",
            'Encountered "rand"; expected a column, or one of Iceberg\'s transforms: '
            "years(c), months(c), days(c), hours(c), "
            "bucket(n, c), truncate(n, c); compute anything else in the query and name it there with AS",
        ),
        (
            "days(e.ts)",
            'Encountered "."; days takes a whole column; give the field a name in the query with AS',
        ),
        ("days(1)", 'Encountered "1"; expected the column of days'),
        ("days(a, b)", 'Encountered "b"; expected )'),
        ("bucket(id)", 'Encountered ")"; bucket takes a column and a number, such as bucket(16, id)'),
        ("bucket(4)", 'Encountered ")"; bucket takes a column and a number, such as bucket(16, c)'),
        ("bucket(0, id)", 'Encountered "0"; expected a whole number of bucket, from 1 to 2147483647'),
        ("truncate(id, 2.5)", 'Encountered "2.5"; expected a whole number of truncate, from 1 to 2147483647'),
        ("truncate(a, b)", 'Encountered "b"; expected the number of truncate, such as truncate(16, a)'),
        ("identity(a b)", 'Encountered "b"; expected )'),
    ],
)
def test_a_transform_that_is_none_is_refused_with_those_there_are(written: str, error: str) -> None:
    with pytest.raises(SqlSyntaxError) as raised:
        create(f"CREATE MATERIALIZED TABLE t PARTITIONED BY ({written}) AS SELECT 1")

    assert error in raised.value.message


def test_a_create_with_a_list_of_names() -> None:
    assert create("CREATE MATERIALIZED TABLE t (b, `a a`) AS SELECT 1, 2").columns == (
        ColumnSpec(name="b"),
        ColumnSpec(name="a a"),
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "VALUES (1), (2)",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "FROM t |> SELECT a",
        "SELECT 'AS; FRESHNESS = ', \"x\", `AS` FROM a -- ;\n WHERE b",
        "SELECT /*+ BROADCAST(t) */ * FROM t VERSION AS OF 3",
        "TABLE x",
    ],
)
def test_a_query_is_kept_as_it_is_written(query: str) -> None:
    assert create(f"CREATE MATERIALIZED TABLE t FRESHNESS = INTERVAL '1' DAY AS\n{query} ;").query == query


@pytest.mark.parametrize(
    ("interval", "freshness"),
    [
        ("INTERVAL '1' SECOND", Freshness(1, "SECOND")),
        ("interval '30' minutes", Freshness(30, "MINUTE")),
        ("INTERVAL '2' HOURS", Freshness(2, "HOUR")),
        ("INTERVAL '1' DAY", Freshness(1, "DAY")),
        ("INTERVAL '3' WEEKS", Freshness(3, "WEEK")),
        ("INTERVAL '1.5' HOUR", Freshness(90, "MINUTE")),
        ("INTERVAL '1.5' DAY", Freshness(36, "HOUR")),
        ("INTERVAL '0.5' MINUTES", Freshness(30, "SECOND")),
        ("INTERVAL '1.0' DAY", Freshness(1, "DAY")),
        ("INTERVAL ' 7 ' DAY", Freshness(7, "DAY")),
        ("INTERVAL '+7' DAY", Freshness(7, "DAY")),
    ],
)
def test_freshness_is_an_interval_of_one_unit(interval: str, freshness: Freshness) -> None:
    assert create(f"CREATE MATERIALIZED TABLE t FRESHNESS = {interval} AS SELECT 1").freshness == freshness


@pytest.mark.parametrize(
    ("interval", "value"),
    [
        ("INTERVAL '0' DAY", "0"),
        ("INTERVAL '-1' DAY", "-1"),
        ("INTERVAL -'1' DAY", "-1"),
        ("INTERVAL '0.5' SECOND", "0.5"),
        ("INTERVAL '1.5' SECOND", "1.5"),
        ("INTERVAL '1.0001' DAY", "1.0001"),
        ("INTERVAL 'one' DAY", "one"),
        ("INTERVAL '' DAY", ""),
        ("INTERVAL '1' MONTH", "MONTH"),
        ("INTERVAL '1' YEARS", "YEARS"),
        ("INTERVAL '1:30' HOUR TO MINUTE", "HOUR TO MINUTE"),
        ("INTERVAL '99999999999' WEEK", "INTERVAL '99999999999' WEEK"),
    ],
)
def test_a_freshness_that_does_not_fit_is_refused_with_what_does_not(interval: str, value: str) -> None:
    with pytest.raises(DefinitionInvalid) as raised:
        parse(f"CREATE MATERIALIZED TABLE t FRESHNESS = {interval} AS SELECT 1")

    assert raised.value.facts == {"key": "FRESHNESS", "value": value}


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (
            "",
            (
                'Encountered "<EOF>"; expected COMMENT, PARTITIONED, WITH, '
                "FRESHNESS, SCHEDULE, REFRESH_MODE or AS"
            ),
        ),
        (
            "USING parquet AS SELECT 1",
            'Encountered "USING"; expected COMMENT, .*the clauses are, in this order',
        ),
        ("COMMENT 'a' COMMENT 'b' AS SELECT 1", "COMMENT is given twice"),
        (
            "WITH ('a'='b') COMMENT 'c' AS SELECT 1",
            "COMMENT cannot come after WITH; the clauses are, in this order",
        ),
        ("WITH ('a'='b') PARTITIONED BY (a) AS SELECT 1", "PARTITIONED cannot come after WITH"),
        (
            "REFRESH_MODE = FULL FRESHNESS = INTERVAL '1' DAY AS SELECT 1",
            "FRESHNESS cannot come after REFRESH_MODE",
        ),
        (
            "FRESHNESS = INTERVAL '1' DAY START_MODE = FROM_NOW AS SELECT 1",
            "START_MODE cannot come after FRESHNESS",
        ),
        ("REFRESH_MODE = FULL USING x AS SELECT 1", 'Encountered "USING"; expected AS; '),
        ("COMMENT c AS SELECT 1", "expected the comment in quotes"),
        ("PARTITIONED (a) AS SELECT 1", "expected BY"),
        ("PARTITIONED BY a AS SELECT 1", r"expected \( before the partition columns"),
        ("PARTITIONED BY (a, a) AS SELECT 1", "partition column a is given twice"),
        ("PARTITIONED BY (days a) AS SELECT 1", r"expected , or \) after the partition columns"),
        ("WITH ('a'='b', 'a'='c') AS SELECT 1", "option 'a' is given twice"),
        ("WITH (a='b') AS SELECT 1", "expected an option key in quotes"),
        ("FRESHNESS INTERVAL '1' DAY AS SELECT 1", "expected ="),
        ("FRESHNESS = '1' DAY AS SELECT 1", "only interval FRESHNESS is supported"),
        ("FRESHNESS = 5 AS SELECT 1", "only interval FRESHNESS is supported"),
        (
            "FRESHNESS = INTERVAL '1' DAY SCHEDULE CRON '0 6 * * *' AS SELECT 1",
            "FRESHNESS or SCHEDULE CRON, not both",
        ),
        ("SCHEDULE EVERY 1 HOUR AS SELECT 1", "expected CRON; an interval is FRESHNESS = INTERVAL 'n' unit"),
        ("SCHEDULE CRON AS SELECT 1", 'Encountered "AS"; expected a cron expression in quotes'),
        ("SCHEDULE CRON '0 6 * * *' AT TIME ZONE AS SELECT 1", "expected a time zone in quotes"),
        ("FRESHNESS = INTERVAL 1 DAY AS SELECT 1", 'Encountered "1"; expected a number in quotes'),
        ("FRESHNESS = INTERVAL '1'", 'Encountered "<EOF>"; expected a unit'),
        ("REFRESH_MODE = AUTOMATIC AS SELECT 1", 'Encountered "AUTOMATIC"; expected FULL or CONTINUOUS'),
        ("AS", 'Encountered "<EOF>"; expected a query after AS'),
        ("AS SELECT 1; SELECT 2", "only one statement"),
        ("() AS SELECT 1", "expected a column name"),
        ("(a INT, a STRING) AS SELECT 1", "Column a of t is given twice"),
        ("(a, A) AS SELECT 1", "Column A of t is given twice"),
        ("(a INT, b) AS SELECT 1", "Column b of t: give every column of the list a type, or none"),
        ("(a, b INT) AS SELECT 1", "Column b of t: give every column of the list a type, or none"),
        ("(a INT NOT b) AS SELECT 1", r"expected , or \) after the columns"),
        ("(a COMMENT 'x') AS SELECT 1", r"expected the type of column a, or , or \)"),
        ("(a INT", r'Encountered "<EOF>"; expected , or \) after the columns'),
        ("(a STRUCT<b: INT, c INT", r'Encountered "<EOF>"; expected , or \) after the columns'),
    ],
)
def test_a_mistake_in_a_create_is_named(rest: str, reason: str) -> None:
    with pytest.raises(SqlSyntaxError, match=reason):
        parse(f"CREATE MATERIALIZED TABLE t {rest}")


def test_if_not_exists_is_refused_with_the_way_out() -> None:
    with pytest.raises(SqlSyntaxError, match=r'Encountered "IF"; .* use CREATE OR ALTER MATERIALIZED TABLE'):
        parse("CREATE MATERIALIZED TABLE IF NOT EXISTS t AS SELECT 1")


def test_a_table_may_be_called_if() -> None:
    assert create("CREATE MATERIALIZED TABLE if AS SELECT 1").name == ("if",)


def test_columns_may_be_called_like_constraints() -> None:
    columns = create(
        "CREATE MATERIALIZED TABLE t (watermark INT, primary INT, constraint STRING) AS SELECT 1"
    ).columns

    assert columns == (
        ColumnSpec(name="watermark", type="INT"),
        ColumnSpec(name="primary", type="INT"),
        ColumnSpec(name="constraint", type="STRING"),
    )


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("START_MODE = FROM_NOW", "START_MODE is not supported"),
        ("DISTRIBUTED BY (a) INTO 4 BUCKETS", "DISTRIBUTED is not supported"),
        ("(a INT, WATERMARK FOR a AS a)", "WATERMARK is not supported"),
        ("(a INT, PRIMARY KEY (a) NOT ENFORCED)", "PRIMARY KEY is not supported"),
        ("(a INT, CONSTRAINT c PRIMARY KEY (a) NOT ENFORCED)", "PRIMARY KEY is not supported"),
        ("(a INT PRIMARY KEY NOT ENFORCED)", "PRIMARY KEY is not supported"),
        ("(a INT, b AS a + 1)", "Column b: computed, metadata and default columns are not supported"),
        ("(a INT METADATA FROM 'x' VIRTUAL)", "Column a: computed, metadata"),
        ("(a INT GENERATED ALWAYS AS (1))", "Column a: computed, metadata"),
        ("(a INT DEFAULT 1)", "Column a: computed, metadata"),
    ],
)
def test_a_clause_that_is_not_supported_names_the_way_out(rest: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        parse(f"CREATE MATERIALIZED TABLE t {rest} AS SELECT 1")


# ------------------------------------------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (("t",), TableIdentifier("lake", ("default",), "t")),
        (("d", "t"), TableIdentifier("lake", ("d",), "t")),
        (("c", "d", "t"), TableIdentifier("c", ("d",), "t")),
        (("c", "d", "e", "t"), TableIdentifier("c", ("d", "e"), "t")),
    ],
)
def test_a_name_is_completed_from_the_session(name: Name, expected: TableIdentifier) -> None:
    assert qualify(name, "lake", ("default",)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", ("t",)),
        ("c.d.t", ("c", "d", "t")),
        ("`c`.`d.e`.`t``x`", ("c", "d.e", "t`x")),
        (" a . b ", ("a", "b")),
    ],
)
def test_a_name_that_stands_alone_is_read(text: str, expected: Name) -> None:
    assert parse_name(text) == expected


@pytest.mark.parametrize("text", ["", "a.", ".a", "a b", "'a'", "a.b(", "`a"])
def test_a_text_that_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match="Encountered"):
        parse_name(text)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_any_name_in_back_quotes_is_read(parts: list[str]) -> None:
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in parts)

    assert parse(f"ALTER MATERIALIZED TABLE {quoted} SUSPEND") == SuspendTable(name=tuple(parts))


@given(st.dictionaries(st.text(), st.text(), max_size=3))
def test_any_options_in_quotes_are_read(options: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"

    listed = ", ".join(f"{quoted(key)} = {quoted(value)}" for key, value in options.items())

    assert parse(f"{ALTER} RESUME WITH ({listed})") == ResumeTable(name=("t",), options=options)


def test_a_level_with_a_dot_in_its_name_is_one_level() -> None:
    quoted = qualify(("lake", "eu.sales", "daily"), "lake", ("default",))
    levels = qualify(("lake", "eu", "sales", "daily"), "lake", ("default",))

    assert quoted != levels
    assert (str(quoted), quoted.sql) == ("lake.`eu.sales`.daily", "`lake`.`eu.sales`.`daily`")
    assert (str(levels), levels.sql) == ("lake.eu.sales.daily", "`lake`.`eu`.`sales`.`daily`")
