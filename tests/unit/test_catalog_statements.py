from __future__ import annotations

import pytest

from mt_core.errors import SqlSyntaxError, Unsupported
from mt_core.sql.catalog import (
    AddJar,
    AlterCatalog,
    CatalogStatement,
    CreateCatalog,
    DescribeCatalog,
    DescribeDatabase,
    DescribeJob,
    DropCatalog,
    Explain,
    ExplainMode,
    Pattern,
    ShowColumns,
    ShowCreateCatalog,
    ShowCreateRelation,
    Shown,
    ShowObjects,
    ShowPartitions,
    StopJob,
    UseCatalog,
)
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement, parse
from mt_core.sql.statements import DescribeTable


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SHOW CATALOGS", ShowObjects(kind=Shown.CATALOGS)),
        ("show catalogs;", ShowObjects(kind=Shown.CATALOGS)),
        ("SHOW DATABASES", ShowObjects(kind=Shown.DATABASES)),
        ("SHOW DATABASES IN `c 1`", ShowObjects(kind=Shown.DATABASES, name=("c 1",))),
        ("SHOW TABLES FROM c.d", ShowObjects(kind=Shown.TABLES, name=("c", "d"))),
        ("SHOW TABLES LIKE 'a%'", ShowObjects(kind=Shown.TABLES, pattern=Pattern(text="a%"))),
        (
            "SHOW TABLES IN d NOT ILIKE 'A%'",
            ShowObjects(
                kind=Shown.TABLES, name=("d",), pattern=Pattern(text="A%", negated=True, any_case=True)
            ),
        ),
        ("SHOW VIEWS", ShowObjects(kind=Shown.VIEWS)),
        ("SHOW FUNCTIONS", ShowObjects(kind=Shown.FUNCTIONS)),
        ("SHOW USER FUNCTIONS", ShowObjects(kind=Shown.USER_FUNCTIONS)),
        ("SHOW MODULES", ShowObjects(kind=Shown.MODULES)),
        ("SHOW FULL MODULES", ShowObjects(kind=Shown.FULL_MODULES)),
        ("SHOW CURRENT CATALOG", ShowObjects(kind=Shown.CURRENT_CATALOG)),
        ("SHOW CURRENT DATABASE", ShowObjects(kind=Shown.CURRENT_DATABASE)),
        ("SHOW JARS", ShowObjects(kind=Shown.JARS)),
        ("SHOW JOBS", ShowObjects(kind=Shown.JOBS)),
        ("SHOW COLUMNS FROM c.d.t LIKE 'a%'", ShowColumns(name=("c", "d", "t"), pattern=Pattern(text="a%"))),
        ("SHOW PARTITIONS t PARTITION (ds = 'x')", ShowPartitions(name=("t",), partition={"ds": "x"})),
        ("SHOW CREATE TABLE t", ShowCreateRelation(name=("t",))),
        ("SHOW CREATE VIEW d.v", ShowCreateRelation(name=("d", "v"))),
        ("SHOW CREATE CATALOG c", ShowCreateCatalog(name="c")),
        ("DESCRIBE CATALOG c", DescribeCatalog(name="c")),
        ("DESC CATALOG EXTENDED c", DescribeCatalog(name="c", extended=True)),
        ("DESCRIBE DATABASE EXTENDED c.d", DescribeDatabase(name=("c", "d"), extended=True)),
        ("DESCRIBE DATABASE extended", DescribeDatabase(name=("extended",))),
        ("DESCRIBE JOB 'ab'", DescribeJob(job_id="ab")),
        ("DESC job", DescribeTable(name=("job",), text="DESC job")),
        ("STOP JOB 'ab';", StopJob(job_id="ab")),
        ("stop job 'ab' with savepoint", StopJob(job_id="ab", savepoint=True)),
        ("STOP JOB 'ab' WITH SAVEPOINT WITH DRAIN", StopJob(job_id="ab", savepoint=True, drain=True)),
        ("STOP JOB 'ab' WITH DROP", StopJob(job_id="ab", drop=True)),
        ("USE CATALOG c", UseCatalog(name="c")),
        ("ALTER CATALOG c SET ('a' = 'b')", AlterCatalog(name="c", options={"a": "b"})),
        ("ALTER CATALOG c RESET ('a', 'b')", AlterCatalog(name="c", removed=("a", "b"))),
        ("ALTER CATALOG `c` COMMENT 'x';", AlterCatalog(name="c", comment="x")),
        ("DROP CATALOG IF EXISTS c", DropCatalog(name="c", if_exists=True)),
        (
            "CREATE CATALOG IF NOT EXISTS c COMMENT 'x' WITH ('type' = 'iceberg')",
            CreateCatalog(name="c", options={"type": "iceberg"}, comment="x", if_not_exists=True),
        ),
        ("ADD JAR '/a b.jar'", AddJar(path="/a b.jar")),
        ("ADD JAR /a/b-1.jar;", AddJar(path="/a/b-1.jar")),
    ],
)
def test_a_statement_about_catalogs_is_read(sql: str, expected: CatalogStatement) -> None:
    assert parse(sql) == expected


@pytest.mark.parametrize(
    ("sql", "mode"),
    [
        ("EXPLAIN SELECT 1", ExplainMode.SIMPLE),
        ("EXPLAIN PLAN FOR SELECT 1", ExplainMode.SIMPLE),
        ("EXPLAIN EXTENDED SELECT 1", ExplainMode.EXTENDED),
        ("EXPLAIN COST SELECT 1", ExplainMode.COST),
        ("EXPLAIN ESTIMATED_COST SELECT 1", ExplainMode.COST),
        ("EXPLAIN CHANGELOG_MODE, PLAN_ADVICE SELECT 1", ExplainMode.SIMPLE),
        ("EXPLAIN ESTIMATED_COST, CHANGELOG_MODE,\n JSON_EXECUTION_PLAN SELECT 1;", ExplainMode.JSON),
    ],
)
def test_explain_keeps_the_place_of_its_statement(sql: str, mode: ExplainMode) -> None:
    found = parse(sql)

    assert isinstance(found, Explain)
    assert (found.mode, found.statement.strip()) == (mode, "SELECT 1")
    assert found.statement.index("SELECT") == sql.index("SELECT")
    assert found.statement.count("\n") == sql.count("\n")


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("EXPLAIN SELECT 1", False),
        ("EXPLAIN ESTIMATED_COST SELECT 1", False),
        ("EXPLAIN CHANGELOG_MODE SELECT 1", True),
        ("EXPLAIN ESTIMATED_COST, CHANGELOG_MODE SELECT 1", True),
    ],
)
def test_explain_knows_whether_the_changes_are_asked_for(sql: str, changes: bool) -> None:
    found = parse(sql)

    assert isinstance(found, Explain)
    assert found.changes is changes


def test_explain_refresh_of_a_spark_statement_is_explained_as_such() -> None:
    assert parse("EXPLAIN REFRESH TABLE t") == Explain(
        mode=ExplainMode.SIMPLE, statement="        REFRESH TABLE t", start=8
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES 'a*'",
        "SHOW TABLE EXTENDED LIKE 'a'",
        "SHOW COLUMNS IN t FROM d",
        "SHOW SCHEMAS",
        "SHOW CREATE TABLE t AS SERDE",
        "SHOW CURRENT NAMESPACE",
        "USE CATALOG",
        "USE d",
        "USE c.d",
        "CREATE TABLE t (a INT) USING parquet",
        "DROP TABLE t",
        "ADD FILE x",
    ],
)
def test_other_forms_are_sparks(sql: str) -> None:
    assert parse(sql) is None


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("LOAD MODULE hive", "Spark has no modules"),
        ("UNLOAD MODULE core", "Spark has no modules"),
        ("USE MODULES core", "Spark has no modules"),
        ("REMOVE JAR 'a.jar'", "open a new session"),
    ],
)
def test_what_spark_has_no_counterpart_for_is_refused_with_a_way_out(sql: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        parse(sql)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("STOP JOB ab", "expected a job id in quotes"),
        ("STOP JOB 'a' WITH DRAIN", "expected SAVEPOINT or DROP"),
        ("STOP JOB 'a' WITH DROP WITH SAVEPOINT", "expected"),
        ("STOP JOB 'a' WITH SAVEPOINT DRAIN", "expected"),
        ("CREATE CATALOG c", "expected WITH"),
        ("EXPLAIN", "expected a statement to explain"),
        ("EXPLAIN ESTIMATED_COST, WHAT SELECT 1", "expected ESTIMATED_COST"),
        ("ADD JAR", "expected the path of a jar"),
        ("ALTER CATALOG c", r"expected SET \(…\), RESET \(…\) or COMMENT 'text'"),
        ("ALTER CATALOG c SET ()", "SET names at least one option"),
        ("ALTER CATALOG c RESET ()", "expected an option key in quotes"),
        ("DROP CATALOG a b", "expected the end of the statement"),
    ],
)
def test_a_wrong_word_is_told_with_its_place(sql: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError, match=message):
        parse(sql)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (Pattern(text="a%"), "abc", True),
        (Pattern(text="a*"), "abc", True),
        (Pattern(text="a_c"), "abc", True),
        (Pattern(text="a.c"), "abc", False),
        (Pattern(text="A%"), "abc", False),
        (Pattern(text="A%", any_case=True), "abc", True),
        (Pattern(text="a%", negated=True), "abc", False),
    ],
)
def test_a_pattern_is_that_of_sql_and_of_spark(pattern: Pattern, name: str, matches: bool) -> None:
    assert pattern.matches(name) is matches


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SHOW JOBS", True),
        ("/* c */ describe job 'a'", True),
        ("DESC JOB 'a'", True),
        ("STOP JOB 'a'", True),
        ("SHOW JARS", False),
        ("SELECT 'STOP JOB", False),
    ],
)
def test_statements_about_jobs_are_told_by_their_first_words(sql: str, expected: bool) -> None:
    assert (Trait.OUT_OF_TURN in ReadStatement(sql).traits) is expected


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE CATALOG c WITH ('type' = 'jdbc', 'password' = 'hunter2')",
        "ALTER CATALOG c SET ('password' = 'hunter2')",
    ],
)
def test_the_repr_of_a_statement_about_a_catalog_shows_no_option(statement: str) -> None:
    assert "hunter2" not in repr(parse(statement))
