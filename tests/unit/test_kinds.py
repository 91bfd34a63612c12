from __future__ import annotations

import pytest

from mt_core.sql.kinds import KINDS, Trait, traits_of
from mt_core.sql.parser import ReadStatement


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT 1", "SELECT"),
        ("/* c */ select 1;", "SELECT"),
        ("(SELECT 1) UNION SELECT 2", "SELECT"),
        ("VALUES (1)", "SELECT"),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "SELECT"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "INSERT"),
        ("WITH a (b) AS (SELECT ')'), c AS (SELECT 1) DELETE FROM t WHERE x IN (SELECT b FROM a)", "DELETE"),
        ("WITH a AS (SELECT 1) UPDATE t SET x = 1", "UPDATE"),
        ("WITH a AS (SELECT 1) MERGE INTO t USING a ON true WHEN MATCHED THEN DELETE", "MERGE"),
        ("WITH a AS (SELECT 1) FROM a INSERT INTO t SELECT *", "INSERT"),
        ("WITH update AS (SELECT 1) SELECT insert FROM update", "SELECT"),
        ("WITH a AS (SELECT 1) (SELECT * FROM a)", "SELECT"),
        ("SELECT insert FROM t", "SELECT"),
        ("FROM s INSERT INTO t SELECT *", "INSERT"),
        ("FROM s SELECT insert", "SELECT"),
        ("; /* c */ SHOW JOBS", "SHOW_JOBS"),
        ("DESCRIBE JOB 'a'", "DESCRIBE_JOB"),
        ("DESC CATALOG c", "DESCRIBE_CATALOG"),
        ("DESCRIBE job", "DESCRIBE"),
        ("INSERT OVERWRITE t SELECT 1", "INSERT"),
        ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELETE", "MERGE"),
        ("CREATE TABLE t (a INT GENERATED ALWAYS AS (b))", "CREATE_TABLE"),
        ("CREATE TABLE IF NOT EXISTS t USING parquet AS SELECT 1", "CREATE_TABLE_AS"),
        ("CREATE OR REPLACE TABLE t AS SELECT 1", "REPLACE_TABLE_AS"),
        ("REPLACE TABLE t AS SELECT 1", "REPLACE_TABLE_AS"),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", "CREATE_VIEW"),
        ("CREATE OR ALTER MATERIALIZED TABLE t AS SELECT 1", "CREATE_MATERIALIZED_TABLE"),
        ("ALTER MATERIALIZED TABLE t SUSPEND", "ALTER_MATERIALIZED_TABLE"),
        ("CREATE NAMESPACE n", "CREATE_DATABASE"),
        ("DROP VIEW IF EXISTS v", "DROP_VIEW"),
        ("SHOW DATABASES", "SHOW_DATABASE"),
        ("SHOW CURRENT CATALOG", "SHOW_CURRENT_CATALOG"),
        ("SHOW CREATE TABLE t", "SHOW_CREATE_TABLE"),
        ("SHOW CREATE MATERIALIZED TABLE t", "SHOW_CREATE_MATERIALIZED_TABLE"),
        ("SHOW FULL MODULES", "SHOW_MODULES"),
        ("DESC t", "DESCRIBE"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
        ("USE d", "USE"),
        ("USE CATALOG c", "USE_CATALOG"),
        ("USE MODULES core", "USE_MODULES"),
        ("ADD JAR '/x.jar'", "ADD_JAR"),
        ("BEGIN STATEMENT SET", "BEGIN_STATEMENT"),
        ("END", "STATEMENT_SET"),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END", "STATEMENT_SET"),
        ("COMPILE PLAN 'p' FOR INSERT INTO t SELECT 1", "COMPILE_PLAN"),
        ("COMPILE PLAN 'p' FOR STATEMENT SET BEGIN INSERT INTO t SELECT 1; END", "COMPILE_PLAN"),
        ("EXECUTE PLAN 'p'", "EXECUTE_PLAN"),
        ("COMPILE AND EXECUTE PLAN 'p' FOR INSERT INTO t SELECT 1", "COMPILE_AND_EXECUTE_PLAN"),
        ("EXPLAIN PLAN 'p'", "EXPLAIN"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE"),
        ("SET a = 1", "SET"),
        ("", ""),
        ("-- nothing", ""),
        ("SELECT 'open", "SELECT"),
    ],
)
def test_the_type_of_a_statement_is_told_by_its_words(text: str, kind: str) -> None:
    assert ReadStatement(text).type == kind


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("SET a = 1", True),
        ("USE CATALOG c", True),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", True),
        ("ALTER TABLE t RENAME TO u", True),
        ("DROP MATERIALIZED TABLE t", True),
        ("CREATE TEMPORARY SYSTEM FUNCTION f AS 'x'", True),
        ("CREATE TABLE t AS SELECT 1", False),
        ("SELECT 1", False),
        ("SHOW TABLES", False),
        ("EXECUTE STATEMENT SET BEGIN END", False),
        ("COMPILE PLAN 'p' FOR INSERT INTO t SELECT 1", False),
        ("EXECUTE PLAN 'p'", False),
    ],
)
def test_what_sets_a_session_up_runs_no_job_and_shows_nothing(text: str, allowed: bool) -> None:
    assert (Trait.CONFIGURES in ReadStatement(text).traits) is allowed


def test_what_a_reader_begins_with_names_a_type_of_its_row() -> None:
    strangers = [
        (kind.type, words)
        for kind in KINDS
        for words in kind.readers
        if kind.type
        not in {
            ReadStatement(f"{words} {rest} x").type for rest in ("", "TABLE", "MATERIALIZED TABLE", "TABLES")
        }
    ]

    assert strangers == []


def test_rows_of_one_type_have_the_same_traits() -> None:
    assert [kind.type for kind in KINDS if kind.traits != traits_of(kind.type)] == []


@pytest.mark.parametrize(
    "verb",
    [
        "INSERT INTO t SELECT 1",
        "DELETE FROM t WHERE a = 1",
        "UPDATE t SET a = 1",
        "CREATE TABLE t AS SELECT 1",
    ],
)
def test_what_changes_data_runs_a_job_and_needs_no_session(verb: str) -> None:
    assert ReadStatement(verb).traits == {Trait.CHANGE, Trait.JOB, Trait.ALONE}
