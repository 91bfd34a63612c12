"""A user lists catalogs, tables and jobs, and stops a job."""

from __future__ import annotations

from mt_core.base.rowset import INT, Column
from mt_core.model.run import RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.sessions.ports import StatementResult
from mt_core.sql.statements import DescribeTable
from mt_core.tables.table_commands import CommandOutcome
from mt_core.tables.views.continuous_job import ContinuousJob
from tests.support.gateway.statements import NOW, Gateway, root_cause

NO_ROWS = StatementResult(is_query=False, rows=None)


def test_catalogs_are_shown_in_flinks_shape_and_without_a_job(gateway: Gateway) -> None:
    body = gateway.run(gateway.open(), "SHOW CATALOGS;").json()

    assert (body["isQueryResult"], body["resultKind"], "jobID" in body) == (
        False,
        "SUCCESS_WITH_CONTENT",
        False,
    )
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


def test_a_created_catalog_is_seen_by_sessions_opened_before_and_after(gateway: Gateway) -> None:
    earlier, creator = gateway.open(), gateway.open()

    created = gateway.rows(creator, "CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop')")

    assert created == [["OK"]]
    assert [["c"] in gateway.rows(each, "SHOW CATALOGS") for each in (earlier, creator, gateway.open())] == [
        True
    ] * 3
    assert "spark.sql.catalog.c" not in gateway.http.get(creator).text


def test_a_secret_of_a_catalog_is_nowhere_shown(gateway: Gateway) -> None:
    session, options = gateway.open(), "'type' = 'iceberg', 'catalog-type' = 'rest', 'token' = 'hidden-1'"
    gateway.run(session, f"CREATE CATALOG c WITH ({options})")
    gateway.engine.broken_catalogs.add("d")

    answers = [
        gateway.run(session, sql).text
        for sql in (
            "SHOW CREATE CATALOG c",
            "DESCRIBE CATALOG EXTENDED c",
            "SET",
            f"CREATE CATALOG c WITH ({options})",
            f"CREATE CATALOG d WITH ({options})",
        )
    ]

    assert "hidden-1" not in "".join([*answers, gateway.http.get(session).text])
    assert "cannot be opened" in answers[-1]


def test_a_running_refresh_is_listed_described_and_stopped_as_a_job(gateway: Gateway) -> None:
    run = gateway.runs.queue()
    gateway.runs.move(run.run_id, RunStatus.RUNNING, job_id="f" * 32, started_at=NOW)
    session = gateway.open(**{"table.local-time-zone": "UTC"})
    row = ["f" * 32, "refresh-lake.default.table", "RUNNING", "2026-01-02T03:04:05.000Z", "REFRESH", None]

    listed, described = (
        gateway.rows(session, "SHOW JOBS"),
        gateway.rows(session, f"DESCRIBE JOB '{'f' * 32}'"),
    )
    stopped = gateway.rows(session, f"STOP JOB '{'f' * 32}'")

    assert (listed, described, stopped) == (
        [row],
        [[*row, None, None, "lake.default.table", None, None, None, 0, *[None] * 6]],
        [["OK"]],
    )
    assert gateway.runs.canceled == [run.run_id]
    assert gateway.rows(session, "SHOW JOBS") == []
    assert gateway.rows(session, f"DESCRIBE JOB '{'f' * 32}'")[0][2] == "CANCELED"
    assert "is CANCELED and cannot be stopped any more" in root_cause(
        gateway.run(session, f"STOP JOB '{'f' * 32}'")
    )


def test_the_job_of_a_continuous_refresh_is_stopped_with_its_snapshot_as_the_savepoint(
    gateway: Gateway,
) -> None:
    table = TableIdentifier("lake", ("default",), "live")
    gateway.runs.continuous.append(ContinuousJob(job_id="c" * 32, table=table, started_at=NOW))
    session = gateway.open()

    dropped = root_cause(gateway.run(session, f"STOP JOB '{'c' * 32}' WITH DROP"))
    saved = gateway.rows(session, f"STOP JOB '{'c' * 32}' WITH SAVEPOINT")

    assert "is not a streaming job, and stopping it leaves no table" in dropped
    assert (saved, gateway.runs.continuous) == ([["1"]], [])


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
    [[job_id, name, status, *_]] = gateway.rows(session, "SHOW JOBS")

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
