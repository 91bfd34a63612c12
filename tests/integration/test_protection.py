from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mt_core.errors import (
    DefinitionInvalid,
    MtError,
    QueryFailed,
    SqlSyntaxError,
    TableBusy,
    TableProtected,
    Unsupported,
)
from mt_core.model.job import JobStatus
from mt_core.model.table import TableIdentifier
from mt_core.sessions.ports import SessionContext
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.tables.upkeep.registered import RegisteredTables
from mt_core.testing.fake_clock import FakeClock
from tests.depth import rounds
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import a_job, a_stream, a_table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_numbers = itertools.count()
TABLE = "lake.guarded.mt"
NAMES = (TableIdentifier("lake", ("guarded",), "mt"), TableIdentifier("lake", ("guarded", "deep"), "er"))


class Guarded:
    """A session of a gateway whose registry has `mt` in the namespace `guarded` of `lake`;
    `plain` is an ordinary table.
    """

    def __init__(self, driver: SparkDriver) -> None:
        self.registry = registry = MemoryRegistry(FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))
        with registry.transaction() as transaction:
            for name in NAMES:
                transaction.tables.insert(a_table(identifier=name))
        self.engine = SparkStatements(SparkContexts(driver), tables=RegisteredTables(registry))
        self.context = SessionContext(session_id=f"guarded-{next(_numbers)}", properties={})

    def run(self, sql: str) -> Sequence[Sequence[Any]]:
        rows = self.engine.execute(self.context, sql, job_id=f"guarded-job-{next(_numbers)}").rows
        return rows.page(0, 1000) if rows is not None else ()

    def refusal(self, sql: str) -> str:
        """Return the message with which the statement is refused, or what happened instead."""
        try:
            self.run(sql)
        except TableProtected as refused:
            return f"{refused.table}: {refused}"
        except MtError as other:
            return f"{sql}: {other!r}"
        return f"{sql}: it ran"

    def state(self) -> object:
        """Return all that a refused statement must leave as it was."""
        show = (
            "SHOW TABLES IN lake.guarded",
            "SHOW VIEWS IN lake.guarded",
            "SHOW TBLPROPERTIES lake.guarded.mt",
        )
        columns = (
            "DESCRIBE lake.guarded.mt",
            "SELECT name, snapshot_id FROM lake.guarded.mt.refs ORDER BY name",
        )
        return [self.run(text) for text in (*show, *columns)]


@pytest.fixture(scope="module")
def guarded(module_driver: SparkDriver) -> Iterator[Guarded]:
    session = module_driver.new_session()
    for text in (
        "CREATE NAMESPACE IF NOT EXISTS lake.guarded",
        "CREATE NAMESPACE IF NOT EXISTS lake.guarded.deep",
        f"CREATE TABLE {TABLE} (a INT, b STRING)",
        f"INSERT INTO {TABLE} VALUES (1, 'x')",
        f"ALTER TABLE {TABLE} CREATE BRANCH work",
        "CREATE TABLE lake.guarded.plain (a INT, b STRING)",
    ):
        session.sql(text)
    yield Guarded(module_driver)
    for name in (TABLE, "lake.guarded.plain"):
        session.sql(f"DROP TABLE IF EXISTS {name}")


DROP = "use DROP MATERIALIZED TABLE lake.guarded.mt"
ROWS = "ALTER MATERIALIZED TABLE lake.guarded.mt AS query changes the query"
COLUMNS = "use ALTER MATERIALIZED TABLE lake.guarded.mt AS query"
OPTIONS = "use CREATE OR ALTER MATERIALIZED TABLE lake.guarded.mt"
BRANCH = "its branches belong to refreshes"
CALL = "ALTER MATERIALIZED TABLE lake.guarded.mt REFRESH"


CHANGES = (
    ("DROP TABLE lake.guarded.mt", DROP),
    ("drop table if exists `lake`.`guarded`.`mt` purge", DROP),
    ("DROP VIEW lake.guarded.mt", DROP),
    ("/* a comment */ DROP -- another\n TABLE lake.guarded.mt", DROP),
    ("ALTER TABLE lake.guarded.mt RENAME TO guarded.other", "then DROP MATERIALIZED TABLE lake.guarded.mt"),
    ("ALTER TABLE lake.guarded.plain RENAME TO guarded.mt", "choose another name"),
    ("ALTER TABLE lake.guarded.plain RENAME TO mt", "choose another name"),
    ("ALTER TABLE lake.guarded.mt ADD COLUMN c INT", COLUMNS),
    ("ALTER TABLE lake.guarded.mt DROP COLUMN b", COLUMNS),
    ("ALTER TABLE lake.guarded.mt RENAME COLUMN b TO c", COLUMNS),
    ("ALTER TABLE lake.guarded.mt ALTER COLUMN a TYPE BIGINT", COLUMNS),
    ("ALTER TABLE lake.guarded.mt SET TBLPROPERTIES ('freshtable.epoch' = '7')", OPTIONS),
    ("ALTER TABLE lake.guarded.mt UNSET TBLPROPERTIES ('freshtable.epoch')", OPTIONS),
    ("ALTER TABLE lake.guarded.mt SET LOCATION '/tmp'", OPTIONS),
    ("ALTER TABLE lake.guarded.mt WRITE ORDERED BY a", OPTIONS),
    ("ALTER TABLE lake.guarded.mt WRITE DISTRIBUTED BY PARTITION", OPTIONS),
    ("ALTER TABLE lake.guarded.mt SET IDENTIFIER FIELDS a", OPTIONS),
    ("ALTER TABLE lake.guarded.mt ADD PARTITION FIELD a", OPTIONS),
    ("ALTER TABLE lake.guarded.mt ADD CONSTRAINT c CHECK (a > 0)", OPTIONS),
    ("ALTER TABLE lake.guarded.mt CREATE BRANCH x", BRANCH),
    ("ALTER TABLE lake.guarded.mt CREATE OR REPLACE BRANCH work", BRANCH),
    ("ALTER TABLE lake.guarded.mt REPLACE BRANCH work", BRANCH),
    ("ALTER TABLE lake.guarded.mt DROP BRANCH work", BRANCH),
    ("TRUNCATE TABLE lake.guarded.mt", ROWS),
    ("INSERT INTO lake.guarded.mt VALUES (2, 'y')", ROWS),
    ("INSERT INTO lake.guarded.mt.branch_work VALUES (2, 'y')", ROWS),
    ("INSERT INTO lake.guarded.mt BY NAME SELECT 1 AS a", ROWS),
    ("INSERT INTO lake.guarded.mt REPLACE WHERE a = 1 SELECT 2, 'y'", ROWS),
    ("INSERT OVERWRITE lake.guarded.mt SELECT 1, 'y'", ROWS),
    ("WITH c AS (SELECT 1, 'y') INSERT INTO lake.guarded.mt SELECT * FROM c", ROWS),
    ("FROM lake.guarded.plain INSERT INTO lake.guarded.mt SELECT a, b", ROWS),
    (
        (
            "FROM lake.guarded.plain INSERT INTO lake.guarded.plain SELECT a, b "
            "INSERT INTO lake.guarded.mt SELECT a, b"
        ),
        ROWS,
    ),
    ("UPDATE lake.guarded.mt SET a = 2", ROWS),
    ("UPDATE lake.guarded.mt AS t SET t.a = 2", ROWS),
    ("DELETE FROM lake.guarded.mt", ROWS),
    ("DELETE FROM lake.guarded.mt.branch_work WHERE a = 1", ROWS),
    ("MERGE INTO lake.guarded.mt t USING lake.guarded.plain s ON t.a = s.a WHEN MATCHED THEN DELETE", ROWS),
    ("CREATE TABLE lake.guarded.mt (a INT)", OPTIONS),
    ("CREATE TABLE IF NOT EXISTS lake.guarded.mt AS SELECT 1 AS a", OPTIONS),
    ("CREATE OR REPLACE TABLE lake.guarded.mt AS SELECT 1 AS a", OPTIONS),
    ("REPLACE TABLE lake.guarded.mt AS SELECT 1 AS a", OPTIONS),
    ("REPLACE TABLE lake.guarded.mt (a INT)", OPTIONS),
    ("CREATE OR REPLACE VIEW lake.guarded.mt AS SELECT 1 AS a", OPTIONS),
    ("LOAD DATA INPATH '/tmp/x' INTO TABLE lake.guarded.mt", ROWS),
    (
        "CREATE TEMPORARY VIEW v USING iceberg OPTIONS (path 'lake.guarded.mt')",
        "AS SELECT * FROM lake.guarded.mt",
    ),
    ("DROP TABLE IDENTIFIER('lake.guarded.' || 'mt')", DROP),
    ("INSERT INTO IDENTIFIER('lake.guarded.' || 'mt') VALUES (2, 'y')", ROWS),
    ("CREATE OR REPLACE TABLE IDENTIFIER('lake.guarded.mt') AS SELECT 1 AS a", OPTIONS),
    ("EXECUTE IMMEDIATE 'DROP TABLE lake.guarded.mt'", DROP),
    ("EXECUTE IMMEDIATE 'DROP TABLE lake.' || 'guarded.mt'", DROP),
    ("CALL lake.system.rollback_to_snapshot('guarded.mt', 1)", CALL),
    ("CALL lake.system.rollback_to_snapshot(table => 'lake.guarded.mt', snapshot_id => 1)", CALL),
    ("CALL lake.system.expire_snapshots(retain_last => 1, table => 'guarded.' || 'mt')", CALL),
    ("CALL lake.SYSTEM.Set_Current_Snapshot(table => '`guarded`.`mt`', snapshot_id => 1)", CALL),
    ("CALL lake.system.fast_forward('guarded.mt', 'main', 'work')", CALL),
    ("CALL lake.system.remove_orphan_files(table => 'guarded.mt')", CALL),
    ("CALL lake.system.ancestors_of('guarded.mt')", CALL),
    ("DROP DATABASE lake.guarded CASCADE", "DROP MATERIALIZED TABLE them first"),
    ("DROP NAMESPACE IF EXISTS lake.guarded.deep CASCADE", "lake.guarded.deep.er"),
    ("DROP SCHEMA IDENTIFIER('lake.' || 'guarded') CASCADE", "DROP MATERIALIZED TABLE them first"),
)


def test_a_statement_that_changes_a_materialized_table_names_the_one_that_may(guarded: Guarded) -> None:
    before = guarded.state()

    answers = {statement: guarded.refusal(statement) for statement, _ in CHANGES}

    assert [answer for statement, way_out in CHANGES if way_out not in (answer := answers[statement])] == []
    assert guarded.state() == before


def test_a_statement_that_would_take_a_table_from_a_streaming_job_names_the_job(guarded: Guarded) -> None:
    guarded.run("CREATE TABLE lake.guarded.streamed (a INT) USING iceberg")
    definition = a_stream(reads=(("lake", "guarded", "streamed"),))
    with guarded.registry.transaction() as transaction:
        transaction.jobs.insert(a_job("s1", definition=definition))
    named = "lake.guarded.streamed is read by streaming job s1 (insert-t); STOP JOB 's1' first."

    dropping = ("DROP TABLE lake.guarded.streamed", "DROP TABLE IF EXISTS lake.guarded.streamed PURGE")
    for statement in (*dropping, "ALTER TABLE lake.guarded.streamed RENAME TO lake.guarded.other"):
        with pytest.raises(TableBusy, match=re.escape(named)):
            guarded.run(statement)

    with guarded.registry.transaction() as transaction:
        transaction.jobs.replace(a_job("s1", status=JobStatus.CANCELED, definition=definition))
    guarded.run("DROP TABLE lake.guarded.streamed")


HARMLESS = (
    "ALTER TABLE lake.guarded.mt CREATE OR REPLACE TAG kept",
    "ALTER TABLE lake.guarded.mt DROP TAG kept",
    "COMMENT ON TABLE lake.guarded.mt IS 'what it is'",
    "CALL lake.system.rewrite_data_files(table => 'guarded.mt', options => map('rewrite-all', 'true'))",
    "CALL lake.system.rewrite_manifests('guarded.mt')",
    "CALL lake.system.rewrite_position_delete_files('guarded.mt')",
    "CALL lake.system.expire_snapshots('guarded.plain')",
    "INSERT INTO lake.guarded.plain SELECT * FROM lake.guarded.mt",
    "WITH c AS (SELECT * FROM lake.guarded.mt) SELECT * FROM c UNION ALL SELECT * FROM c",
    "FROM lake.guarded.mt SELECT a",
    "UPDATE lake.guarded.plain SET a = (SELECT max(a) FROM lake.guarded.mt)",
    "MERGE INTO lake.guarded.plain t USING lake.guarded.mt s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *",
    "CREATE OR REPLACE TABLE lake.guarded.copy AS SELECT * FROM lake.guarded.mt",
    "CREATE OR REPLACE VIEW lake.guarded.reader AS SELECT * FROM lake.guarded.mt",
    "CREATE OR REPLACE TEMPORARY VIEW reader AS SELECT * FROM lake.guarded.mt",
    "INSERT OVERWRITE DIRECTORY '/tmp/freshtable-guarded' USING parquet TABLE lake.guarded.mt",
    "CREATE TEMPORARY FUNCTION mt() RETURNS INT RETURN 1",
    "DROP TABLE IF EXISTS lake.guarded.copy",
    "DROP VIEW IF EXISTS lake.guarded.reader",
    "DROP TABLE IF EXISTS lake.guarded.Mt",
    "DROP DATABASE IF EXISTS lake.guard CASCADE",
    "EXECUTE IMMEDIATE 'SELECT * FROM lake.guarded.mt'",
)


@pytest.mark.slow
def test_what_leaves_the_rows_of_a_materialized_table_as_they_are_runs(guarded: Guarded) -> None:
    for statement in HARMLESS:
        guarded.run(statement)

    assert guarded.run("SELECT * FROM lake.guarded.mt") == [[1, "x"]]


def test_a_name_means_what_it_means_in_the_session(guarded: Guarded, module_driver: SparkDriver) -> None:
    session = Guarded(module_driver)
    session.run("USE lake.guarded")

    for statement in (
        "DROP TABLE mt",
        "DELETE FROM guarded.mt",
        "INSERT INTO mt VALUES (1, 'z')",
        "ALTER TABLE mt DROP BRANCH work",
    ):
        with pytest.raises(TableProtected):
            session.run(statement)
    session.run("DECLARE VARIABLE t STRING DEFAULT 'mt'")
    with pytest.raises(TableProtected):
        session.run("EXECUTE IMMEDIATE 'DROP TABLE ' || t")
    with pytest.raises(TableProtected):
        session.run("DROP TABLE IDENTIFIER(t)")
    with pytest.raises(TableProtected):
        session.run("CALL lake.system.rollback_to_snapshot(table => t, snapshot_id => 1)")
    session.run("USE spark_catalog.default")
    with pytest.raises(QueryFailed):
        session.run("DROP TABLE mt")


def test_a_temporary_view_of_the_same_name_is_meant_as_spark_means_it(
    guarded: Guarded, module_driver: SparkDriver
) -> None:
    session = Guarded(module_driver)
    session.run("USE lake.guarded")
    session.run("CREATE TEMPORARY VIEW mt AS SELECT 1 AS a")

    with pytest.raises(QueryFailed, match="EXPECT_TABLE_NOT_VIEW"):
        session.run("INSERT INTO mt VALUES (1)")
    with pytest.raises(TableProtected):
        session.run("INSERT INTO guarded.mt VALUES (1)")
    session.run("DROP VIEW mt")
    with pytest.raises(TableProtected):
        session.run("DROP TABLE mt")


@pytest.mark.parametrize(
    "statement", ["SHOW CREATE TABLE lake.guarded.mt", "SHOW CREATE TABLE `lake`.`guarded`.`mt`"]
)
def test_show_create_table_points_at_show_create_materialized_table(guarded: Guarded, statement: str) -> None:
    with pytest.raises(Unsupported, match=r"use SHOW CREATE MATERIALIZED TABLE lake\.guarded\.mt"):
        guarded.run(statement)


SCRIPTS = (
    "BEGIN DROP TABLE lake.guarded.mt; END",
    "BEGIN SELECT 1; IF 1 = 1 THEN DELETE FROM lake.guarded.mt; END IF; END",
    "BEGIN IF 1 = 2 THEN SELECT 1; ELSE DELETE FROM lake.guarded.mt; END IF; END",
    "BEGIN WHILE 1 = 1 DO DELETE FROM lake.guarded.mt; END WHILE; END",
    "BEGIN REPEAT DELETE FROM lake.guarded.mt; UNTIL 1 = 1 END REPEAT; END",
    "BEGIN CASE 1 WHEN 1 THEN DELETE FROM lake.guarded.mt; ELSE SELECT 1; END CASE; END",
    "BEGIN CASE WHEN 1 = 1 THEN SELECT 1; ELSE DELETE FROM lake.guarded.mt; END CASE; END",
    "BEGIN FOR x AS SELECT 1 AS a DO DELETE FROM lake.guarded.mt; END FOR; END",
    "BEGIN l: LOOP DELETE FROM lake.guarded.mt; LEAVE l; END LOOP; END",
    "BEGIN BEGIN EXECUTE IMMEDIATE 'DROP TABLE lake.guarded.mt'; END; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DELETE FROM lake.guarded.mt; END; SELECT 1 / 0; END",
)


def test_a_script_that_changes_a_materialized_table_anywhere_does_not_begin(guarded: Guarded) -> None:
    before = guarded.state()

    answers = [guarded.refusal(script) for script in SCRIPTS]

    assert [answer for answer in answers if "materialized table" not in answer] == []
    assert guarded.state() == before
    assert guarded.run(
        "BEGIN DECLARE x INT = 1; INSERT INTO lake.guarded.plain VALUES (x, 'y'); SELECT x; END"
    ) == [[1]]


@pytest.mark.parametrize(
    "script",
    [
        "BEGIN DECLARE s STRING = 'DROP TABLE lake.guarded.mt'; EXECUTE IMMEDIATE s; END",
        "BEGIN DECLARE s STRING = 'mt'; DROP TABLE IDENTIFIER('lake.guarded.' || s); END",
        "BEGIN USE lake.guarded; DROP TABLE mt; END",
    ],
)
def test_a_script_that_hides_what_it_changes_is_refused(guarded: Guarded, script: str) -> None:
    with pytest.raises(Unsupported):
        guarded.run(script)


def test_a_text_that_a_statement_computes_does_not_nest_too_deeply_either(guarded: Guarded) -> None:
    with pytest.raises(SqlSyntaxError, match="nests 20000 levels"):
        guarded.run("EXECUTE IMMEDIATE 'SELECT ' || repeat('(', 20000) || '1' || repeat(')', 20000)")


@pytest.mark.slow
def test_long_statements_that_do_not_nest_run(guarded: Guarded) -> None:
    chain, ors = (
        " + ".join(["1"] * 500),
        " OR ".join(f"id = {number}" for number in range(rounds(2_000, 500))),
    )
    unions = " UNION ALL ".join(["SELECT 1"] * (selects := rounds(200, 50)))
    rows = ", ".join(f"({number}, 'x')" for number in range(10_000))
    brackets = "SELECT " + "(" * 100 + "1" + ")" * 100

    assert guarded.run(f"SELECT {chain}, count(*) FROM range(9) WHERE {ors}") == [[500, 9]]
    assert guarded.run(
        f"SELECT count(*) FROM range(20000) WHERE id IN ({', '.join(map(str, range(10_000)))})"
    ) == [[10_000]]
    assert guarded.run(f"SELECT count(*) FROM ({unions})") == [[selects]]
    assert guarded.run(f"SELECT count(*) FROM VALUES {rows}") == [[10_000]]
    assert guarded.run(brackets) == [[1]]


@pytest.mark.parametrize("statement", ["EXECUTE IMMEDIATE 'CREATE TABLE lake.guarded.explained (a INT)'"])
def test_explain_carries_nothing_out(guarded: Guarded, statement: str) -> None:
    with pytest.raises(Unsupported, match="EXPLAIN the statement itself"):
        guarded.engine.explain(guarded.context, statement, "simple")

    assert ["guarded", "explained", False] not in guarded.run("SHOW TABLES IN lake.guarded")


NEW_NAMES = (
    "CREATE TABLE lake.guarded.`../../x` (a INT) USING iceberg",
    "CREATE TABLE IF NOT EXISTS lake.`..`.x (a INT)",
    "CREATE TABLE lake.guarded.`a\x00b` (a INT)",
    "CREATE TABLE IDENTIFIER('lake.guarded.`a\\u0000b`') (a INT)",
    "CREATE TABLE lake.guarded.`a/b` AS SELECT 1 AS a",
    "CREATE OR REPLACE TABLE lake.guarded.`../x` AS SELECT 1 AS a",
    "CREATE TABLE IDENTIFIER('lake.guarded.`../x`') (a INT)",
    "EXECUTE IMMEDIATE 'CREATE TABLE lake.guarded.`../x` (a INT)'",
    "BEGIN CREATE TABLE lake.guarded.`../x` (a INT); END",
    "CREATE VIEW lake.guarded.`../x` AS SELECT 1 AS a",
    "CREATE NAMESPACE lake.`../x`",
    "CREATE DATABASE IF NOT EXISTS lake.guarded.`a\\b`",
    "CREATE SCHEMA IDENTIFIER('lake.`../x`')",
    "ALTER TABLE lake.guarded.plain RENAME TO lake.guarded.`../x`",
    "ALTER TABLE lake.guarded.plain RENAME TO `x\ny`",
    "CALL lake.system.snapshot('spark_catalog.default.t', 'guarded.`../x`')",
    "CALL lake.system.register_table(table => 'guarded.`../x`', metadata_file => '/tmp/x.metadata.json')",
)


def test_a_new_name_that_leaves_its_folder_is_refused_wherever_it_is_given(guarded: Guarded) -> None:
    before = guarded.state(), guarded.run("SHOW NAMESPACES IN lake")

    answers = {statement: guarded.refusal(statement) for statement in NEW_NAMES}
    with pytest.raises(DefinitionInvalid, match="choose another name"):
        guarded.engine.reserve(
            guarded.context, "CREATE TABLE lake.guarded.`../x` AS SELECT 1 AS a", job_id="j"
        )

    assert [each for each in answers.values() if "a new name must not contain" not in each] == []
    assert (guarded.state(), guarded.run("SHOW NAMESPACES IN lake")) == before


def test_a_database_is_dropped_with_what_it_holds(guarded: Guarded, module_driver: SparkDriver) -> None:
    for text in (
        "CREATE DATABASE lake.full",
        "CREATE DATABASE lake.full.deep",
        "CREATE TABLE lake.full.t (a INT) USING iceberg",
        "CREATE TABLE lake.full.deep.`odd name` (a INT) USING iceberg",
        "CREATE VIEW lake.full.v AS SELECT * FROM lake.full.t",
    ):
        guarded.run(text)

    refused = guarded.refusal("DROP DATABASE lake.full")
    with guarded.registry.transaction() as transaction:
        transaction.jobs.insert(
            a_job("s2", definition=a_stream(reads=(("lake", "full", "deep", "odd name"),)))
        )
    busy = guarded.refusal("DROP DATABASE lake.full CASCADE")
    kept = guarded.run("SHOW TABLES IN lake.full"), guarded.run("SHOW TABLES IN lake.full.deep")
    with guarded.registry.transaction() as transaction:
        transaction.jobs.replace(a_job("s2", status=JobStatus.CANCELED))
    session = Guarded(module_driver)
    session.run("USE lake")
    session.run("DROP DATABASE IF EXISTS full CASCADE")

    assert "not empty" in refused
    assert "STOP JOB 's2' first" in busy
    assert kept == ([["full", "t", False]], [["full.deep", "odd name", False]])
    assert ["full"] not in guarded.run("SHOW NAMESPACES IN lake")
    guarded.run("DROP DATABASE IF EXISTS lake.full CASCADE")
    with pytest.raises(QueryFailed, match="SCHEMA_NOT_FOUND"):
        guarded.run("DROP DATABASE lake.full CASCADE")


def test_the_query_of_a_view_is_altered(guarded: Guarded, module_driver: SparkDriver) -> None:
    guarded.run("CREATE VIEW lake.guarded.w COMMENT 'kept' TBLPROPERTIES ('also' = 'kept') AS SELECT 1 AS a")
    session = Guarded(module_driver)
    session.run("USE lake.guarded")

    session.run("/* the new one */ ALTER VIEW w AS SELECT 2 AS b, 'x' AS c -- to the end")
    shown = guarded.run("SELECT b, c FROM lake.guarded.w")
    properties = dict(guarded.run("SHOW TBLPROPERTIES lake.guarded.w"))
    guarded.run("ALTER VIEW IDENTIFIER('lake.guarded.' || 'w') AS WITH c AS (SELECT 3 AS d) SELECT * FROM c")

    assert (shown, properties["also"]) == ([[2, "x"]], "kept")
    assert ["Comment", "kept", ""] in guarded.run("DESCRIBE EXTENDED lake.guarded.w")
    assert guarded.run("SELECT * FROM lake.guarded.w") == [[3]]
    for statement, problem in (
        ("ALTER VIEW lake.guarded.none AS SELECT 1", "ALTER VIEW lake.guarded.none: there is no such view"),
        ("ALTER VIEW lake.guarded.plain AS SELECT 1", "ALTER VIEW lake.guarded.plain: there is no such view"),
        ("ALTER VIEW lake.guarded.mt AS SELECT 1", "materialized table"),
        ("ALTER VIEW lake.guarded.w AS SELECT nothing", "UNRESOLVED_COLUMN"),
    ):
        assert problem in guarded.refusal(statement)
    assert guarded.run("SELECT * FROM lake.guarded.w") == [[3]]
    guarded.run("DROP VIEW lake.guarded.w")
    session.run("CREATE TEMPORARY VIEW w AS SELECT 1 AS a")
    session.run("ALTER VIEW w AS SELECT 4 AS a")
    assert session.run("SELECT * FROM w") == [[4]]


def test_a_level_with_dots_is_the_same_namespace_to_the_catalog(guarded: Guarded) -> None:
    with pytest.raises(TableProtected, match=r"DROP MATERIALIZED TABLE lake\.guarded\.deep\.er"):
        guarded.run("DROP TABLE lake.`guarded.deep`.er")


def test_what_materialized_tables_read_is_dropped_or_changed_with_a_warning_that_names_them(
    guarded: Guarded,
) -> None:
    def warnings(sql: str) -> tuple[str, ...]:
        return guarded.engine.execute(guarded.context, sql, job_id=f"guarded-job-{next(_numbers)}").warnings

    reader = a_table("reader")
    definition = replace(reader.definition, sources=("lake.guarded.source", "lake.guarded.looks"))
    with guarded.registry.transaction() as transaction:
        transaction.tables.insert(replace(reader, definition=definition))
    guarded.run("CREATE TABLE lake.guarded.source (a INT, b INT) USING iceberg")
    guarded.run("CREATE VIEW lake.guarded.looks AS SELECT 1 AS a")
    guarded.run("CREATE TABLE lake.guarded.unread (a INT) USING iceberg")

    column = warnings("ALTER TABLE lake.guarded.source DROP COLUMN b")

    way_out = "until it exists again, or until ALTER MATERIALIZED TABLE … AS changes their query."
    assert column == (
        f"lake.guarded.source is read by {reader.identifier}; "
        f"refreshes that read a removed column fail {way_out}",
    )
    assert warnings("ALTER TABLE lake.guarded.source ADD COLUMN c INT") == ()
    assert warnings("DROP TABLE lake.guarded.unread") == ()
    assert warnings("DROP VIEW lake.guarded.looks") == (
        f"lake.guarded.looks is read by {reader.identifier}; refreshes of them fail {way_out}",
    )
    assert warnings("DROP TABLE lake.guarded.source") == (
        f"lake.guarded.source is read by {reader.identifier}; refreshes of them fail {way_out}",
    )
