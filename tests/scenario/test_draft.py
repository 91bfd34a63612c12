"""/v1 also serves clients of the FLIP-91 draft: immediate results, jobs by id, the appendix's names."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mt_core import __version__
from mt_core.base.rowset import BOOLEAN, Column, LogicalType, RowKind, RowSet
from mt_core.gateway.draft import endpoints
from mt_core.model.run import RunStatus
from mt_core.sessions.ports import StatementResult
from tests.support.fake_rows import FakeRows
from tests.support.gateway.statements import Gateway, root_cause
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

DRAFT = {"session_name": "d", "planner": "Blink", "execution_type": "batch"}
DECIMAL = LogicalType(root="DECIMAL", nullable=False, extras={"precision": 10, "scale": 2})


@pytest.fixture
def session(gateway: Gateway) -> str:
    return f"/v1/sessions/{gateway.http.post('/v1/sessions', json=DRAFT).json()['session_id']}"


def send(gateway: Gateway, session: str, statement: str) -> dict[str, Any]:
    body: dict[str, Any] = gateway.http.post(f"{session}/statements", json={"statement": statement}).json()
    return body


def answers(gateway: Gateway, sql: str, *columns: Column, rows: list[list[Any]]) -> None:
    gateway.engine.answers[sql] = StatementResult(is_query=False, rows=RowSet(columns=columns, rows=rows))


def job_of(gateway: Gateway, session: str, statement: str) -> str:
    return f"{session}/jobs/{send(gateway, session, statement)['results'][0]['data'][0][0]}"


def page_of(gateway: Gateway, path: str) -> dict[str, Any]:
    body: dict[str, Any] = gateway.http.get(path).json()
    while body.get("next_result_uri") == path:
        body = gateway.http.get(path).json()
    return body


def test_a_session_is_opened_by_the_fields_of_either_and_answers_those_of_both(gateway: Gateway) -> None:
    drafted = gateway.http.post(
        "/v1/sessions", json={**DRAFT, "execution_type": "BATCH", "properties": {"a": "1"}}
    )
    released = gateway.http.post("/v1/sessions", json={"sessionName": "d"})

    bodies = [drafted.json(), released.json()]

    assert [list(body) for body in bodies] == [["sessionHandle", "session_id"]] * 2
    assert [body["sessionHandle"] == body["session_id"] for body in bodies] == [True, True]
    assert gateway.http.get(f"/v1/sessions/{bodies[0]['session_id']}").json() == {
        "properties": {"a": "1", "execution.runtime-mode": "batch"}
    }


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"planner": "red"}, 'planner must be old or blink, not "red".'),
        ({"execution_type": "stream"}, 'execution_type must be batch or streaming, not "stream".'),
        ({"session_name": 1}, "session_name must be a string, not 1."),
    ],
)
def test_a_planner_or_execution_type_that_is_none_is_a_bad_request(
    gateway: Gateway, field: dict[str, Any], message: str
) -> None:
    answer = gateway.http.post("/v1/sessions", json=DRAFT | field)

    assert (answer.status_code, root_cause(answer), len(gateway.sessions)) == (
        400,
        f"RequestInvalid: {message}",
        0,
    )


def test_a_session_of_execution_type_streaming_is_in_streaming_mode(gateway: Gateway) -> None:
    handle = gateway.http.post("/v1/sessions", json=DRAFT | {"execution_type": "Streaming"}).json()[
        "session_id"
    ]

    answer = gateway.http.get(f"/v1/sessions/{handle}")

    assert answer.json()["properties"]["execution.runtime-mode"] == "streaming"


def test_the_product_is_named_in_both_ways(gateway: Gateway) -> None:
    assert gateway.http.get("/v1/info").json() == {
        "productName": "Freshtable",
        "version": __version__,
        "product_name": "Freshtable",
    }


@pytest.mark.parametrize(
    ("statement", "type_", "name", "values"),
    [
        ("SHOW CATALOGS", "SHOW_CATALOGS", "catalogs", ["lake", "spark_catalog"]),
        ("SHOW DATABASES", "SHOW_DATABASE", "databases", ["a"]),
        ("SHOW FUNCTIONS", "SHOW_FUNCTIONS", "functions", ["f"]),
        ("SHOW MODULES", "SHOW_MODULES", "modules", ["core"]),
        ("EXPLAIN SELECT 1", "EXPLAIN", "explanation", None),
        ("SHOW JARS", "SHOW_JARS", "jars", []),
    ],
)
def test_a_statement_that_needs_no_job_answers_its_result_with_the_names_of_the_appendix(
    gateway: Gateway, session: str, statement: str, type_: str, name: str, values: list[str] | None
) -> None:
    answers(gateway, "SHOW NAMESPACES IN `lake`", Column(name="namespace"), rows=[["a"]])
    answers(gateway, "SHOW NAMESPACES IN lake", Column(name="namespace"), rows=[["a"]])
    answers(gateway, "SHOW FUNCTIONS", Column(name="function"), rows=[["f"]])

    body = send(gateway, session, statement)

    assert list(body) == ["operationHandle", "statement_types", "results"]
    assert body["statement_types"] == [type_]
    (result,) = body["results"]
    assert result["columns"] == [{"name": name, "type": "VARCHAR"}]
    if values is not None:
        assert result["data"] == [[value] for value in values]


@pytest.mark.parametrize(
    ("statement", "type_"), [("SET a = 1", "SET"), ("RESET", "RESET"), ("USE lake", "USE")]
)
def test_a_statement_with_nothing_to_show_answers_no_affected_rows(
    gateway: Gateway, session: str, statement: str, type_: str
) -> None:
    body = send(gateway, session, statement)

    assert (body["statement_types"], body["results"]) == (
        [type_],
        [{"columns": [{"name": "affected_row_count", "type": "BIGINT"}], "data": [[0]]}],
    )


def test_tables_are_shown_with_their_types(gateway: Gateway, session: str) -> None:
    gateway.engine.relations_of = {(): ["t", "v"]}
    answers(gateway, "SHOW VIEWS", Column(name="view name"), rows=[["v"]])

    results = send(gateway, session, "SHOW TABLES")["results"]

    assert [column["name"] for column in results[0]["columns"]] == ["tables", "type"]
    assert results[0]["data"] == [["t", "TABLE"], ["v", "VIEW"]]


def test_a_description_is_one_json_text(gateway: Gateway, session: str) -> None:
    columns = (Column(name="name"), Column(name="type"), Column(name="null", type=BOOLEAN))
    answers(gateway, "DESCRIBE FUNCTION f", *columns, rows=[["a", "INT", True]])

    results = send(gateway, session, "DESCRIBE FUNCTION f")["results"]

    assert results[0]["columns"] == [{"name": "table_schema", "type": "VARCHAR"}]
    assert json.loads(results[0]["data"][0][0]) == {"columns": [{"name": "a", "type": "INT", "null": True}]}


def test_a_query_answers_its_job_whose_pages_are_fetched_until_the_uri_is_empty(
    gateway: Gateway, session: str
) -> None:
    rows = [[n, None] for n in range(5001)]
    columns = (Column(name="n", type=DECIMAL), Column(name="s"))
    gateway.engine.answers["SELECT 2"] = StatementResult(
        is_query=True, rows=RowSet(columns=columns, rows=rows)
    )
    begun = send(gateway, session, "SELECT 2")
    job = f"{session}/jobs/{begun['results'][0]['data'][0][0]}"

    pages = [page_of(gateway, f"{job}/result/{token}") for token in (0, 0, 1, 2)]

    assert begun["statement_types"] == ["SELECT"]
    assert begun["results"][0]["columns"] == [{"name": "job_id", "type": "VARCHAR"}]
    assert pages[0] == pages[1]
    assert [len(page["results"][0]["data"]) for page in pages] == [5000, 5000, 1, 0]
    assert pages[2] == {
        "results": [
            {
                "columns": [
                    {"name": "n", "type": "DECIMAL(10, 2) NOT NULL"},
                    {"name": "s", "type": "VARCHAR"},
                ],
                "data": [[5000, None]],
                "change_flags": [True],
            }
        ],
        "next_result_uri": f"{job}/result/2",
    }
    assert pages[3]["next_result_uri"] == ""


def test_change_flags_say_which_rows_are_added_and_which_taken_away(gateway: Gateway, session: str) -> None:
    rows = FakeRows([1], [1], [2], [2], kinds=list(RowKind))
    gateway.engine.answers["SELECT 3"] = StatementResult(is_query=True, rows=rows)
    job = job_of(gateway, session, "SELECT 3")

    page = page_of(gateway, f"{job}/result/0")["results"][0]

    assert page == {
        "columns": [{"name": "a", "type": "INT"}],
        "data": [[1], [1], [2], [2]],
        "change_flags": [True, False, True, False],
    }


def test_a_job_that_still_runs_answers_nothing_and_the_same_uri(gateway: Gateway, session: str) -> None:
    hold = gateway.engine.hold("SELECT 1")
    job = job_of(gateway, session, "SELECT 1")
    hold.wait_entered()

    answer = gateway.http.get(f"{job}/result/0").json()
    status = gateway.http.get(f"{job}/status").json()
    hold.release()

    assert answer == {
        "results": [{"columns": [], "data": [], "change_flags": []}],
        "next_result_uri": f"{job}/result/0",
    }
    assert status == {"status": "RUNNING"}


def test_a_change_answers_its_job_and_that_the_number_of_rows_is_not_known(
    gateway: Gateway, session: str
) -> None:
    gateway.engine.answers["INSERT INTO t SELECT 1"] = StatementResult(is_query=False, rows=None)
    job = job_of(gateway, session, "INSERT INTO t SELECT 1")

    first, last = page_of(gateway, f"{job}/result/0"), page_of(gateway, f"{job}/result/1")

    assert first["results"][0] == {
        "columns": [{"name": "affected_row_count", "type": "BIGINT"}],
        "data": [[-2]],
        "change_flags": [True],
    }
    assert (last["results"][0]["data"], last["next_result_uri"]) == ([], "")
    assert gateway.http.get(f"{job}/status").json() == {"status": "FINISHED"}


def test_a_change_answers_how_many_rows_it_wrote(gateway: Gateway, session: str) -> None:
    insert = "INSERT INTO t SELECT 1"
    gateway.engine.answers[insert] = StatementResult(is_query=False, rows=None, affected_rows=7)
    job = job_of(gateway, session, insert)

    assert page_of(gateway, f"{job}/result/0")["results"][0]["data"] == [[7]]


def test_a_job_whose_operation_was_closed_is_found_by_its_id(gateway: Gateway, session: str) -> None:
    insert = "INSERT INTO t SELECT 1"
    gateway.engine.answers[insert] = StatementResult(is_query=False, rows=None, affected_rows=7)
    begun = send(gateway, session, insert)
    job = f"{session}/jobs/{begun['results'][0]['data'][0][0]}"
    page_of(gateway, f"{job}/result/0")
    gateway.http.delete(f"{session}/operations/{begun['operationHandle']}/close")

    first, last = page_of(gateway, f"{job}/result/0"), page_of(gateway, f"{job}/result/1")

    assert gateway.http.get(f"{job}/status").json() == {"status": "FINISHED"}
    assert (first["results"][0]["data"], first["next_result_uri"]) == ([[7]], f"{job}/result/1")
    assert (last["results"][0]["data"], last["next_result_uri"]) == ([], "")
    assert gateway.http.delete(job).headers["freshtable-error"] == "ILLEGAL_STATUS"


def test_the_rows_of_a_query_are_gone_with_its_operation_but_its_status_is_not(
    gateway: Gateway, session: str
) -> None:
    begun = send(gateway, session, "SELECT 1")
    job = f"{session}/jobs/{begun['results'][0]['data'][0][0]}"
    page_of(gateway, f"{job}/result/0")
    gateway.http.delete(f"{session}/operations/{begun['operationHandle']}/close")

    answer = gateway.http.get(f"{job}/result/0")

    assert gateway.http.get(f"{job}/status").json() == {"status": "FINISHED"}
    assert "was closed, and its rows went with it; run it again" in root_cause(answer)


def test_the_job_that_a_refresh_answers_is_found_by_its_id(gateway: Gateway, session: str) -> None:
    run, job_id = gateway.runs.queue(), "a" * 32
    gateway.runs.move(run.run_id, RunStatus.RUNNING, job_id=job_id)
    job = f"{session}/jobs/{job_id}"

    status, page = (gateway.http.get(f"{job}/{end}").json() for end in ("status", "result/0"))
    gateway.runs.move(run.run_id, RunStatus.SUCCEEDED, rows=3)
    done = page_of(gateway, f"{job}/result/0")

    assert (status, page["next_result_uri"]) == ({"status": "RUNNING"}, f"{job}/result/0")
    assert done["results"][0]["data"] == [[3]]
    assert gateway.http.get(f"{job}/status").json() == {"status": "FINISHED"}


def test_the_job_of_a_refresh_is_cancelled_by_its_id(gateway: Gateway, session: str) -> None:
    run, job_id = gateway.runs.queue(), "a" * 32
    gateway.runs.move(run.run_id, RunStatus.RUNNING, job_id=job_id)

    cancelled = gateway.http.delete(f"{session}/jobs/{job_id}")

    assert (cancelled.json(), gateway.runs.canceled) == ({"status": "CANCELED"}, [run.run_id])
    answer = gateway.http.get(f"{session}/jobs/{job_id}/result/0")
    assert f"Job {job_id} is CANCELED: it has no result" in root_cause(answer)


def test_a_job_is_cancelled_by_its_id(gateway: Gateway, session: str) -> None:
    hold = gateway.engine.hold("SELECT 1")
    job = job_of(gateway, session, "SELECT 1")
    hold.wait_entered()

    cancelled, again = gateway.http.delete(job), gateway.http.delete(job)

    assert (cancelled.status_code, cancelled.json()) == (200, {"status": "CANCELED"})
    assert again.status_code == 500
    assert gateway.http.get(f"{job}/status").json() == {"status": "CANCELED"}
    assert gateway.engine.canceled == [job.rpartition("/")[2]]


@pytest.mark.parametrize(("method", "end"), [("GET", "/status"), ("GET", "/result/0"), ("DELETE", "")])
def test_a_job_nobody_knows_is_an_error(gateway: Gateway, session: str, method: str, end: str) -> None:
    answer = gateway.http.request(method, f"{session}/jobs/{'0' * 32}{end}")

    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "OPERATION_NOT_FOUND")


def test_a_drafted_session_hears_errors_at_once_and_a_released_one_where_it_fetches(
    gateway: Gateway, session: str
) -> None:
    released = f"/v1/sessions/{gateway.http.post('/v1/sessions').json()['sessionHandle']}"
    body = {"statement": "SHOW wrong"}

    at_once = gateway.http.post(f"{session}/statements", json=body)
    later = gateway.http.post(f"{released}/statements", json=body)

    assert (at_once.status_code, at_once.headers["freshtable-error"]) == (500, "QUERY_FAILED")
    assert (later.status_code, list(later.json())) == (200, ["operationHandle", "statement_types"])
    fetched = gateway.result(f"{released}/operations/{later.json()['operationHandle']}")
    assert (fetched.status_code, fetched.headers["freshtable-error"]) == (500, "QUERY_FAILED")


def test_the_result_answered_at_once_can_still_be_fetched(gateway: Gateway, session: str) -> None:
    operation = f"{session}/operations/{send(gateway, session, 'SET a = 1')['operationHandle']}"

    first, end = gateway.result(operation).json(), gateway.http.get(f"{operation}/result/1").json()

    assert first["results"]["data"] == [{"kind": "INSERT", "fields": ["OK"]}]
    assert (end["resultType"], end["nextResultUri"]) == ("EOS", None)


def test_the_drafts_time_limit_may_be_a_text(gateway: Gateway, session: str) -> None:
    bodies = [
        {"statement": "USE lake", "execution_timeout": limit} for limit in ("1000", 1000, "", None, "soon")
    ]

    statuses = [gateway.http.post(f"{session}/statements", json=body).status_code for body in bodies]

    assert statuses == [200, 200, 200, 200, 400]


def test_a_statement_without_a_session_answers_its_rows_and_leaves_no_session(gateway: Gateway) -> None:
    answer = gateway.http.post("/v1/statements", json={"statement": "SELECT 1"})

    assert answer.json() == {
        "statement_types": ["SELECT"],
        "results": [{"columns": [{"name": "a", "type": "INT"}], "data": [[1]]}],
    }
    assert (len(gateway.sessions), len(gateway.engine.closed_sessions)) == (0, 1)


def test_a_result_without_end_answers_the_rows_that_are_there_and_ends_with_its_request(
    gateway: Gateway,
) -> None:
    kinds = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]
    rows = FakeRows([1], [1], [2], kinds=kinds, endless=True)
    gateway.engine.answers["SELECT sums"] = StatementResult(is_query=True, rows=rows)

    answer = gateway.http.post("/v1/statements", json={"statement": "SELECT sums"})

    [result] = answer.json()["results"]
    assert (result["data"], result["change_flags"]) == ([[1], [1], [2]], [True, False, True])
    assert (rows.stopped, rows.closed, len(gateway.sessions)) == (True, True, 0)


def test_a_result_without_end_and_without_rows_is_answered_too(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "FIRST_ROWS_S", 0.1)
    rows = FakeRows(endless=True)
    gateway.engine.answers["SELECT nothing"] = StatementResult(is_query=True, rows=rows)

    answer = gateway.http.post("/v1/statements", json={"statement": "SELECT nothing"})

    [result] = answer.json()["results"]
    assert (result["data"], rows.stopped) == ([], True)


def test_changes_of_a_result_that_ends_are_flagged_without_a_session(gateway: Gateway) -> None:
    rows = FakeRows([1], [1], kinds=[RowKind.INSERT, RowKind.DELETE])
    rows.end()
    gateway.engine.answers["SELECT gone"] = StatementResult(is_query=True, rows=rows)

    answer = gateway.http.post("/v1/statements", json={"statement": "SELECT gone"})

    assert answer.json()["results"][0]["change_flags"] == [True, False]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SET a = 1", "Unsupported: SET cannot run without a session; open one with POST /v1/sessions."),
        ("", "Unsupported: No statement cannot run without a session; open one with POST /v1/sessions."),
        ("SELECT wrong", "QueryFailed: [PARSE_SYNTAX_ERROR]"),
        (
            "SELECT many",
            "Unsupported: The result has more than 5000 rows; open a session with POST /v1/sessions and",
        ),
    ],
)
def test_what_needs_a_session_is_refused_without_one(gateway: Gateway, statement: str, message: str) -> None:
    rows = RowSet(columns=(Column(name="n"),), rows=[["x"]] * 5001)
    gateway.engine.answers["SELECT many"] = StatementResult(is_query=True, rows=rows)

    answer = gateway.http.post("/v1/statements", json={"statement": statement})

    assert (answer.status_code, root_cause(answer)[: len(message)], len(gateway.sessions)) == (
        500,
        message,
        0,
    )


@pytest.mark.parametrize(
    ("sql", "rows"),
    [("INSERT INTO t SELECT 1", 7), ("DELETE FROM t WHERE a = 1", 0), ("CREATE TABLE u AS SELECT 1", None)],
)
def test_a_change_without_a_session_answers_how_many_rows_it_wrote(
    gateway: Gateway, sql: str, rows: int | None
) -> None:
    gateway.engine.answers[sql] = StatementResult(is_query=False, rows=None, affected_rows=rows)

    answer = gateway.http.post("/v1/statements", json={"statement": sql})

    [result] = answer.json()["results"]
    assert result == {
        "columns": [{"name": "affected_row_count", "type": "BIGINT"}],
        "data": [[-2 if rows is None else rows]],
    }


@pytest.mark.parametrize("path", ["/v1/statements/", "/v1/statements"])
def test_a_statement_without_a_session_may_be_sent_to_the_drafts_own_path(
    gateway: Gateway, path: str
) -> None:
    answer = gateway.http.post(path, json={"statement": "SELECT 1"})

    assert (answer.status_code, answer.json()["results"][0]["data"]) == (200, [[1]])


def test_the_next_page_of_a_path_with_a_slash_has_none(gateway: Gateway, session: str) -> None:
    job = job_of(gateway, session, "SELECT 1")
    page_of(gateway, f"{job}/result/0")

    assert gateway.http.get(f"{job}/result/0/").json()["next_result_uri"] == f"{job}/result/1"


@pytest.mark.parametrize(
    "sql", ["SELECT 1; SELECT 2", "INSERT INTO t SELECT 1; INSERT INTO t SELECT 2;", "SHOW JARS; SHOW JARS"]
)
def test_several_statements_are_refused_at_once(gateway: Gateway, session: str, sql: str) -> None:
    answers = [
        gateway.http.post(path, json={"statement": sql})
        for path in (f"{session}/statements", "/v1/statements")
    ]

    for answer in answers:
        assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "SQL_SYNTAX")
        assert "Only a single statement can be submitted at a time, but there are 2." in root_cause(answer)
    assert (gateway.engine.executed, gateway.rows(session.replace("v1", "v3"), "SHOW JOBS")) == ([], [])


# ------------------------------------------------------------------------------ the job of a streaming INSERT


ARRIVALS = "INSERT INTO lake.default.arrivals SELECT * FROM lake.default.flights"


@pytest.fixture
def stream(whole: WholeGateway) -> str:
    """The path of a streaming INSERT's job, in the session that started it."""
    whole.statements.streams[ARRIVALS] = FakeRows()
    session = whole.http.post("/v1/sessions", json=DRAFT | {"execution_type": "streaming"}).json()[
        "session_id"
    ]
    begun = whole.http.post(f"/v1/sessions/{session}/statements", json={"statement": ARRIVALS}).json()
    job = f"/v1/sessions/{session}/jobs/{begun['results'][0]['data'][0][0]}"
    while whole.http.get(f"{job}/result/0").json()["next_result_uri"].endswith("/0"):
        pass
    return job


def told(whole: WholeGateway, job: str) -> str:
    status: str = whole.http.get(f"{job}/status").json()["status"]
    return status


def test_the_status_of_a_streaming_insert_is_that_of_its_job(whole: WholeGateway, stream: str) -> None:
    created = told(whole, stream)
    whole.watch_streams()
    running = told(whole, stream)
    whole.perform(f"STOP JOB '{stream.rpartition('/')[2]}'")

    assert (created, running, told(whole, stream)) == ("CREATED", "RUNNING", "CANCELED")


def test_a_streaming_insert_is_cancelled_in_the_session_that_began_it(
    whole: WholeGateway, stream: str
) -> None:
    whole.watch_streams()

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(whole.http.delete, stream)
        while not answer.done():
            whole.watch_streams()
    again = whole.http.delete(stream)

    assert (answer.result().status_code, answer.result().json()) == (200, {"status": "CANCELED"})
    assert (told(whole, stream), whole.streams.running()) == ("CANCELED", set())
    assert (again.status_code, again.headers["freshtable-error"]) == (500, "ILLEGAL_STATUS")


def test_a_streaming_insert_that_is_cancelled_while_it_is_prepared_leaves_no_job(whole: WholeGateway) -> None:
    whole.statements.streams[ARRIVALS] = FakeRows()
    session = whole.http.post("/v1/sessions", json=DRAFT | {"execution_type": "streaming"}).json()[
        "session_id"
    ]
    begun, done = threading.Event(), threading.Event()

    def prepare() -> None:
        begun.set()
        assert done.wait(60)

    whole.streams.before_prepare = prepare
    statement = whole.http.post(f"/v1/sessions/{session}/statements", json={"statement": ARRIVALS}).json()
    job = f"/v1/sessions/{session}/jobs/{statement['results'][0]['data'][0][0]}"
    assert begun.wait(60)

    cancelled = whole.http.delete(job).json()
    done.set()
    whole.perform("SHOW CATALOGS")

    assert (cancelled, told(whole, job)) == ({"status": "CANCELED"}, "CANCELED")
    assert whole.sql("SHOW JOBS") == []
