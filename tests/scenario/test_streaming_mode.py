"""Streaming mode: SELECT runs while its result is open, INSERT becomes a detached job, and all else runs as
batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mt_core.base.rowset import RowSet
from mt_core.errors import Unsupported
from mt_core.model.stream import StreamMember
from mt_core.sessions.ports import StatementResult
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import parse
from tests.support.fake_rows import FakeRows
from tests.support.gateway.statements import Gateway, root_cause
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

STREAMING = {"execution.runtime-mode": "streaming"}
SELECT, INSERT = "SELECT a FROM t", "INSERT INTO lake.default.arrivals SELECT * FROM lake.default.flights"
SET = "SET 'execution.runtime-mode' = 'Streaming'"
DONE = StatementResult(is_query=False, rows=None)


def read(member: StreamMember) -> tuple[str, list[tuple[str, Mapping[str, str]]]]:
    """Return what the engine received: the text, and the name and options of each hint."""
    return member.text.strip(), [(member.text[each.start : each.stop], each.options) for each in member.hints]


def fields(body: dict[str, Any]) -> list[Any]:
    return [row["fields"] for row in body["results"]["data"]]


@pytest.fixture
def rows(gateway: Gateway) -> FakeRows:
    """Return the rows of the SELECT."""
    rows = FakeRows([1], [2])
    gateway.engine.streams[SELECT] = rows
    return rows


def test_a_select_gives_pages_that_never_change_until_it_is_cancelled(
    gateway: Gateway, rows: FakeRows
) -> None:
    session = gateway.open()
    gateway.run(session, SET)
    operation = gateway.begin(session, SELECT)

    first = gateway.result(operation).json()
    rows.add([3])
    again = gateway.http.get(f"{operation}/result/0").json()
    second = gateway.http.get(f"{operation}/result/1").json()
    empty = gateway.http.get(f"{operation}/result/2").json()
    between = gateway.status(operation), gateway.rows(session, "SELECT 1")
    gateway.http.post(f"{operation}/cancel")

    assert (fields(first), fields(again), fields(second), fields(empty)) == (
        [[1], [2]],
        [[1], [2]],
        [[3]],
        [],
    )
    assert (first["isQueryResult"], first["resultKind"], "jobID" in first) == (
        True,
        "SUCCESS_WITH_CONTENT",
        True,
    )
    assert [page["resultType"] for page in (first, second, empty)] == ["PAYLOAD"] * 3
    assert between == ("FINISHED", [[1]])
    assert (gateway.status(operation), rows.stopped, rows.closed) == ("CANCELED", True, True)


def test_the_job_of_a_select_is_listed_and_can_be_stopped(gateway: Gateway, rows: FakeRows) -> None:
    session = gateway.open(**STREAMING)
    job = gateway.run(session, SELECT).json()["jobID"]

    listed = gateway.rows(session, "SHOW JOBS")
    stopped = gateway.rows(session, f"STOP JOB '{job}'")

    assert [(each[0], each[2]) for each in listed] == [(job, "RUNNING")]
    assert (stopped, rows.closed) == ([["OK"]], True)


def test_a_select_ends_with_its_session(gateway: Gateway, rows: FakeRows) -> None:
    session = gateway.open(**STREAMING)
    gateway.run(session, SELECT)

    gateway.http.delete(session)

    assert rows.closed


def test_a_select_that_would_update_rows_is_refused_with_the_way_out(gateway: Gateway) -> None:
    gateway.engine.streams[SELECT] = Unsupported("Keep the result as a materialized table.")

    refused = gateway.run(gateway.open(**STREAMING), SELECT)

    assert root_cause(refused) == "Unsupported: Keep the result as a materialized table."


def test_explain_shows_the_stream_that_a_statement_would_be(gateway: Gateway, rows: FakeRows) -> None:
    gateway.engine.streams = {" " * len("EXPLAIN ") + SELECT: rows}

    streaming = gateway.rows(gateway.open(**STREAMING), f"EXPLAIN {SELECT}")
    batch = gateway.rows(gateway.open(), f"EXPLAIN {SELECT}")

    assert streaming == [[f"simple stream of {' ' * len('EXPLAIN ')}{SELECT} with 0 temporary"]]
    assert batch == [[f"simple plan of {' ' * len('EXPLAIN ')}{SELECT}"]]


def test_explain_says_of_a_batch_that_it_only_adds_rows_if_that_is_asked_for(gateway: Gateway) -> None:
    [[plain]], [[as_json]] = (
        gateway.rows(gateway.open(), f"EXPLAIN {details} {SELECT}")
        for details in ("CHANGELOG_MODE, ESTIMATED_COST", "CHANGELOG_MODE, JSON_EXECUTION_PLAN")
    )

    assert plain.splitlines()[:3] == [
        "== Changelog Mode ==",
        "changelogMode=[I] of all operators: a batch only adds rows",
        "",
    ]
    assert plain.splitlines()[3].startswith("cost plan of")
    assert as_json.startswith("json plan of")


def test_the_engine_gets_the_hints_and_a_text_without_them(gateway: Gateway) -> None:
    gateway.run(gateway.open(**STREAMING), "SELECT a FROM t /*+ OPTIONS('streaming' = 'false') */ AS x")

    [query] = gateway.engine.analysed
    assert query.text.split() == ["SELECT", "a", "FROM", "t", "AS", "x"]
    assert [(query.text[each.start : each.stop], each.options) for each in query.hints] == [
        ("t", {"streaming": "false"})
    ]


@pytest.mark.parametrize(
    "begin",
    ["EXPLAIN ", "EXPLAIN PLAN FOR ", "EXPLAIN CHANGELOG_MODE, ESTIMATED_COST ", "\nEXPLAIN\nEXTENDED "],
)
@pytest.mark.parametrize("mode", [STREAMING, {}])
@pytest.mark.parametrize("statement", ["SELECT", "INSERT INTO s SELECT", "CREATE TABLE s AS SELECT"])
def test_explain_gives_the_engine_the_text_and_the_hints_that_would_run(
    gateway: Gateway, begin: str, mode: dict[str, str], statement: str
) -> None:
    sent = (
        f"{statement} /*+ STATE_TTL('a' = '1 d') */ k, sum(v) "
        "FROM a /*+ OPTIONS('streaming' = 'false') */ AS x GROUP BY k"
    )
    session = gateway.open(**mode)
    gateway.run(session, sent)
    run = [read(each) for each in gateway.engine.analysed]

    gateway.engine.analysed.clear()
    [[explained]] = gateway.rows(session, begin + sent)

    assert "/*+ STATE_TTL('a' , '1 d') */" in explained
    assert "OPTIONS" not in explained
    assert [read(each) for each in gateway.engine.analysed] == run
    assert [hints for _, hints in run] == ([[("a", {"streaming": "false"})]] if mode else [])


def test_explain_refuses_the_hints_that_its_statement_would(gateway: Gateway) -> None:
    session = gateway.open(**STREAMING)
    statement = "CREATE VIEW v AS SELECT a FROM t /*+ OPTIONS('streaming' = 'false') */"

    run, explained = (root_cause(gateway.run(session, each)) for each in (statement, f"EXPLAIN {statement}"))

    assert explained == run
    assert run.startswith("Unsupported: Table t: a view does not store OPTIONS;")


@pytest.mark.parametrize("begin", ["", "INSERT INTO a ", "CREATE TABLE a AS ", "EXPLAIN "])
def test_a_temporal_join_is_refused_before_spark_reads_it(whole: WholeGateway, begin: str) -> None:
    whole.sql(SET)

    refused = whole.refused(f"{begin}SELECT b.x FROM t JOIN b FOR SYSTEM_TIME AS OF t.p ON t.a = b.a")

    assert "b FOR SYSTEM_TIME AS OF t.p: Spark has no temporal join" in refused
    assert (whole.statements.analysed, whole.sql("SHOW JOBS")) == ([], [])


@pytest.mark.parametrize("sql", ["SELECT 1", "INSERT INTO a VALUES (1)", "CREATE TABLE a AS SELECT 1"])
def test_what_reads_no_stream_runs_as_batch(gateway: Gateway, sql: str) -> None:
    gateway.engine.answers |= {sql: DONE} if sql != "SELECT 1" else {}

    answer = gateway.run(gateway.open(**STREAMING), sql)

    assert answer.status_code == 200
    assert [text for _, text in gateway.engine.executed] == [sql]


def test_a_batch_session_asks_for_no_streams(gateway: Gateway, rows: FakeRows) -> None:
    gateway.engine.answers[SELECT] = StatementResult(
        is_query=True, rows=RowSet(columns=rows.columns, rows=[[7]])
    )

    answer = gateway.rows(gateway.open(), SELECT)

    assert (answer, gateway.engine.analysed) == ([[7]], [])


def test_one_statement_can_be_streaming_in_a_batch_session(gateway: Gateway, rows: FakeRows) -> None:
    session = gateway.open()
    body = {"statement": SELECT, "executionConfig": STREAMING}

    begun = gateway.http.post(f"{session}/statements", json=body).json()["operationHandle"]

    assert fields(gateway.result(f"{session}/operations/{begun}").json()) == [[1], [2]]


def test_an_insert_becomes_a_job_of_its_own(whole: WholeGateway) -> None:
    whole.statements.streams[INSERT] = FakeRows()
    whole.sql(SET)

    [answer] = whole.sql(INSERT)
    whole.streams.source += ["x", "y"]
    whole.watch_streams()
    whole.streams.run_batches()
    whole.watch_streams(6)

    [job] = whole.sql(f"DESCRIBE JOB '{answer['job id']}'")
    assert (job["kind"], job["status"], job["affected rows"], job["statement"]) == (
        "INSERT",
        "RUNNING",
        2,
        INSERT,
    )
    assert whole.streams.sink == ["x", "y"]


def test_a_statement_set_becomes_one_job(whole: WholeGateway) -> None:
    whole.statements.streams[INSERT] = FakeRows()
    whole.sql(SET)

    [answer] = whole.sql(f"EXECUTE STATEMENT SET BEGIN {INSERT}; {INSERT}; END")

    [job] = whole.sql(f"DESCRIBE JOB '{answer['job id']}'")
    assert (job["kind"], job["status"]) == ("STATEMENT SET", "CREATED")


def test_a_batch_insert_into_a_sink_of_streams_is_refused_with_the_way_out(gateway: Gateway) -> None:
    sink = parse("CREATE TEMPORARY TABLE p (n INT) WITH ('connector' = 'print')")
    assert isinstance(sink, CreateConnectorTable)
    gateway.engine.answers[sink.spark_sql] = DONE
    gateway.engine.temporary_relations = frozenset({"p"})
    session = gateway.open()
    gateway.run(session, "CREATE TEMPORARY TABLE p (n INT) WITH ('connector' = 'print')")

    refused = gateway.run(session, "INSERT INTO p SELECT 1")

    assert root_cause(refused).startswith(
        "Unsupported: Table p: connector 'print' can only be written by a stream"
    )
    assert [text for _, text in gateway.engine.executed] == [sink.spark_sql]
