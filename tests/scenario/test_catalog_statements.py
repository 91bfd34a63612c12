"""A user looks at catalogs, tables and jobs, and stops one."""

from __future__ import annotations

from mt_core.rowset import INT, Column
from mt_core.sessions.ports import StatementResult
from mt_core.sql.statements import DescribeTable
from mt_core.tables.commands import CommandOutcome
from tests.scenario.running_gateway import Gateway, root_cause

NO_ROWS = StatementResult(is_query=False, rows=None)


def test_catalogs_are_shown_in_flinks_shape_and_without_a_job(gateway: Gateway) -> None:
    body = gateway.run(gateway.open(), "SHOW CATALOGS;").json()

    assert (body["isQueryResult"], body["resultKind"], "jobID" in body) == (False, "SUCCESS_WITH_CONTENT", False)
    assert [column["name"] for column in body["results"]["columns"]] == ["catalog name"]
    assert [row["fields"] for row in body["results"]["data"]] == [["lake"], ["spark_catalog"]]
    assert gateway.engine.executed == []


def test_an_empty_list_has_ended_at_once(gateway: Gateway) -> None:
    body = gateway.run(gateway.open(), "SHOW JARS").json()

    assert (body["resultType"], body["results"]["data"], "nextResultUri" in body) == ("EOS", [], False)


def test_a_table_that_is_not_ours_is_described_in_flinks_columns(gateway: Gateway) -> None:
    gateway.commands.outcomes[DescribeTable] = CommandOutcome(passthrough=True)
    gateway.engine.tables["plain"] = (Column(name="a", type=INT),)

    rows = gateway.rows(gateway.open(), "DESCRIBE plain")

    assert rows == [["a", "INT", True, None, None, None]]


def test_a_catalog_belongs_to_the_session_that_created_it(gateway: Gateway) -> None:
    one, other = gateway.open(), gateway.open()

    created = gateway.rows(one, "CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop')")
    gateway.run(one, "SELECT 1")

    assert created == [["OK"]]
    assert ["c"] in gateway.rows(one, "SHOW CATALOGS")
    assert ["c"] not in gateway.rows(other, "SHOW CATALOGS")
    assert gateway.engine.executed[-1][0].properties["spark.sql.catalog.c.type"] == "hadoop"


def test_a_table_of_flinks_reaches_spark_in_its_own_words(gateway: Gateway) -> None:
    in_spark = "CREATE TEMPORARY VIEW `t` (`a` INT) USING csv OPTIONS ('path' = '/x')"
    gateway.engine.answers[in_spark] = NO_ROWS

    rows = gateway.rows(
        gateway.open(), "CREATE TEMPORARY TABLE t (a INTEGER) WITH ('connector' = 'csv', 'path' = '/x');"
    )

    assert (rows, gateway.engine.executed[0][1]) == ([["OK"]], in_spark)


def test_a_job_can_be_stopped_from_the_session_that_it_keeps_busy(gateway: Gateway) -> None:
    session, insert = gateway.open(), "INSERT INTO t SELECT * FROM u"
    hold = gateway.engine.hold(insert)
    gateway.engine.answers[insert] = NO_ROWS
    operation = gateway.begin(session, insert)
    hold.wait_entered()
    [[job_id, name, status, _]] = gateway.rows(session, "SHOW JOBS")

    stopped = gateway.rows(session, f"STOP JOB '{job_id}'")
    gateway.run(session, "SELECT 1")

    assert (name, status, stopped) == ("insert-t", "RUNNING", [["OK"]])
    assert (gateway.status(operation), job_id in gateway.engine.canceled) == ("CANCELED", True)
    assert gateway.rows(session, f"DESCRIBE JOB '{job_id}'")[0][2] == "CANCELED"
    assert "cannot be stopped any more" in root_cause(gateway.run(session, f"STOP JOB '{job_id}'"))


def test_an_insert_answers_its_job_id(gateway: Gateway) -> None:
    gateway.engine.answers["INSERT INTO t VALUES (1)"] = NO_ROWS
    session = gateway.open()

    body = gateway.run(session, "INSERT INTO t VALUES (1)").json()

    assert (body["isQueryResult"], body["resultKind"]) == (False, "SUCCESS_WITH_CONTENT")
    assert [column["name"] for column in body["results"]["columns"]] == ["job id"]
    assert body["results"]["data"] == [{"kind": "INSERT", "fields": [body["jobID"]]}]
    assert gateway.rows(session, "SHOW JOBS")[0][0] == body["jobID"]
