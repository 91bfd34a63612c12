"""Results that are read while their queries run, and results as Arrow."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pyarrow as pa
import pytest

from mt_core.base.rowset import INT, Column, PageForm, RowKind
from mt_core.client.http import GatewayClient
from mt_core.errors import EngineUnavailable, QueryFailed
from mt_core.sessions.ports import StatementResult
from tests.support.fake_rows import FakeRows
from tests.support.gateway.statements import Gateway, root_cause

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
QUERY = "SELECT slow"


class ArrowRows(FakeRows):
    """Rows that are also available as Arrow."""

    def encoded(self, start: int, size: int, form: PageForm) -> memoryview | None:
        if form is not PageForm.ARROW:
            return None
        table = pa.table({"a": pa.array([row[0] for row in self.page(start, size)], pa.int32())})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return memoryview(sink.getvalue())


def begin(gateway: Gateway, rows: FakeRows, session: str | None = None) -> str:
    gateway.engine.answers[QUERY] = StatementResult(is_query=True, rows=rows)
    operation = gateway.begin(session or gateway.open(), QUERY)
    gateway.result(operation)
    return operation


def shown(answer: httpx.Response) -> tuple[str, list[Any]]:
    body = answer.json()
    return body["resultType"], [row["fields"][0] for row in body["results"]["data"]]


def numbers(answer: httpx.Response) -> tuple[str, list[int], str | None]:
    table = pa.ipc.open_stream(answer.content).read_all()
    headers = answer.headers
    found: list[int] = table.column(0).to_pylist()
    return headers["freshtable-result-type"], found, headers.get("freshtable-next-result-uri")


def test_rows_are_read_while_the_query_goes_on(gateway: Gateway) -> None:
    rows = FakeRows([1], [2])
    operation = begin(gateway, rows)

    first = shown(gateway.http.get(f"{operation}/result/0"))
    status, empty = gateway.status(operation), gateway.http.get(f"{operation}/result/1")
    rows.add([3])
    rows.end()
    others = [shown(gateway.http.get(f"{operation}/result/{token}")) for token in (1, 2, 3, 4)]

    assert (first, status, shown(empty)) == (("PAYLOAD", [1, 2]), "FINISHED", ("PAYLOAD", []))
    assert empty.json()["nextResultUri"] == f"{operation}/result/2?rowFormat=JSON"
    assert others == [("PAYLOAD", []), ("PAYLOAD", [3]), ("EOS", []), ("EOS", [])]


def test_a_request_for_a_page_that_is_not_there_is_held_until_it_is(gateway: Gateway) -> None:
    rows = FakeRows([1])
    operation = begin(gateway, rows)
    answers: list[tuple[str, list[Any]]] = []

    def poll() -> None:
        token = 1
        while not answers or answers[-1][1] == []:
            answers.append(shown(gateway.http.get(f"{operation}/result/{token}")))
            token += 1

    reader = threading.Thread(target=poll)
    reader.start()
    rows.add([2])
    reader.join(60)

    assert answers[-1] == ("PAYLOAD", [2])


@pytest.mark.parametrize(
    "failure", [QueryFailed("[DIVIDE_BY_ZERO] Division by zero."), EngineUnavailable("Spark went away.")]
)
@pytest.mark.parametrize("headers", [{}, ARROW])
def test_an_error_after_the_first_rows_is_told_behind_them(
    gateway: Gateway, failure: Exception, headers: dict[str, str]
) -> None:
    rows = ArrowRows([1])
    operation = begin(gateway, rows)
    rows.end(failure)  # type: ignore[arg-type]

    answers = [gateway.http.get(f"{operation}/result/{token}", headers=headers) for token in (0, 1, 1)]

    assert [answer.status_code for answer in answers] == [200, 500, 500]
    assert root_cause(answers[2]).endswith(str(failure))
    assert answers[2].headers["content-type"].startswith("application/json")
    assert gateway.status(operation) == "FINISHED"


@pytest.mark.parametrize(
    ("method", "end", "status"), [("POST", "cancel", "CANCELED"), ("DELETE", "close", "CLOSED")]
)
def test_cancel_and_close_stop_a_query_whose_rows_are_read_already(
    gateway: Gateway, method: str, end: str, status: str
) -> None:
    rows = FakeRows([1])
    operation = begin(gateway, rows)

    answer = gateway.http.request(method, f"{operation}/{end}")

    assert (answer.json(), rows.stopped, rows.closed) == ({"status": status}, True, True)
    assert gateway.http.get(f"{operation}/result/1").status_code == 500


def test_a_query_whose_rows_are_read_already_can_be_late(gateway: Gateway) -> None:
    rows = FakeRows([1])
    operation = begin(gateway, rows, gateway.open(**{"execution.timeout": "1 min"}))
    stopped = threading.Event()
    rows.on_end(lambda error: stopped.set())

    gateway.clock.advance(timedelta(minutes=1))

    assert stopped.wait(60)
    answer = gateway.http.get(f"{operation}/result/1")
    assert (gateway.status(operation), answer.headers["freshtable-error"]) == (
        "TIMEOUT",
        "STATEMENT_TIMED_OUT",
    )


def test_closing_the_session_stops_its_query(gateway: Gateway) -> None:
    rows, session = FakeRows([1]), gateway.open()
    begin(gateway, rows, session)

    gateway.http.delete(session)

    assert (rows.stopped, rows.closed) == (True, True)


def test_a_query_ends_with_a_session_that_nobody_uses_and_not_while_somebody_does(gateway: Gateway) -> None:
    left, beating, reading = gateway.open(), gateway.open(), gateway.open()
    rows = [FakeRows([1]) for _ in range(3)]
    operations = [
        begin(gateway, each, session) for each, session in zip(rows, (left, beating, reading), strict=True)
    ]

    for _ in range(3):
        gateway.clock.advance(timedelta(minutes=9))
        gateway.http.post(f"{beating}/heartbeat")
        gateway.http.get(f"{operations[2]}/status")
        gateway.sessions.expire_idle()

    assert [gateway.http.get(each).status_code for each in (left, beating, reading)] == [500, 200, 200]
    assert [each.closed for each in rows] == [True, False, False]


def test_a_request_that_waits_for_its_statement_is_use_of_its_session(gateway: Gateway) -> None:
    hold = gateway.engine.hold("SELECT 1")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(gateway.http.post, "/v1/statements", json={"statement": "SELECT 1"}, timeout=60)
        hold.wait_entered()
        session = gateway.sessions.get(gateway.engine.executed[0][0].session_id)
        gateway.clock.advance(timedelta(hours=1))
        while session.last_access < gateway.clock.now():
            gateway.http.get("/v3/info")
        expired = gateway.sessions.expire_idle()
        hold.release()

    assert (expired, answer.result().json()["results"][0]["data"]) == ([], [[1]])


def test_the_job_of_a_query_goes_on_until_its_rows_have_come_and_can_be_stopped(gateway: Gateway) -> None:
    rows, session = FakeRows([1]), gateway.open()
    operation = begin(gateway, rows, session)
    before = [row[:3] for row in gateway.rows(session, "SHOW JOBS")]
    job_id = before[0][0]

    gateway.run(session, f"STOP JOB '{job_id}'")

    assert before == [[job_id, "collect", "RUNNING"]]
    assert [row[2] for row in gateway.rows(session, "SHOW JOBS")] == ["CANCELED"]
    assert (rows.stopped, gateway.status(operation)) == (True, "CANCELED")


def test_the_next_statement_of_a_session_need_not_wait_for_the_rows_of_the_last(gateway: Gateway) -> None:
    rows, session = FakeRows([1]), gateway.open()
    begin(gateway, rows, session)

    assert gateway.rows(session, "SELECT 1") == [[1]]
    assert rows.running


def test_the_draft_fetches_rows_while_the_job_goes_on(gateway: Gateway) -> None:
    rows = FakeRows([1])
    gateway.engine.answers[QUERY] = StatementResult(is_query=True, rows=rows)
    session = f"/v1/sessions/{gateway.open().rpartition('/')[2]}"
    begun = gateway.http.post(f"{session}/statements", json={"statement": QUERY}).json()
    job = f"{session}/jobs/{begun['results'][0]['data'][0][0]}"
    first = gateway.http.get(f"{job}/result/0").json()
    while first["results"][0]["data"] == []:
        first = gateway.http.get(f"{job}/result/0").json()
    running = gateway.http.get(f"{job}/status").json()
    rows.add([2])
    rows.end()

    second = gateway.http.get(first["next_result_uri"]).json()

    end = gateway.http.get(second["next_result_uri"]).json()
    assert [page["results"][0]["data"] for page in (first, second, end)] == [[[1]], [[2]], []]
    assert (running, end["next_result_uri"]) == ({"status": "RUNNING"}, "")
    assert gateway.http.get(f"{job}/status").json() == {"status": "FINISHED"}


# ------------------------------------------------------------------------------------------------------ Arrow


def test_pages_come_as_arrow_with_the_same_tokens(gateway: Gateway) -> None:
    rows = ArrowRows(*([n] for n in range(3)))
    rows.end()
    gateway.engine.answers[QUERY] = StatementResult(is_query=True, rows=rows)
    operation = gateway.begin(gateway.open(), QUERY)
    url = f"{operation}/result/{{}}?pageSize=2"
    while gateway.http.get(url.format(0), headers=ARROW).headers["freshtable-result-type"] == "NOT_READY":
        pass

    answers = [gateway.http.get(url.format(token), headers=ARROW) for token in (0, 1, 1, 2, 2, 3)]

    first, second, end = (
        ("PAYLOAD", [0, 1], f"{operation}/result/1?rowFormat=JSON&pageSize=2"),
        ("PAYLOAD", [2], f"{operation}/result/2?rowFormat=JSON&pageSize=2"),
        ("EOS", [], None),
    )
    assert list(map(numbers, answers)) == [first, second, second, end, end, end]
    assert {answer.headers["content-type"] for answer in answers} == {ARROW["Accept"]}


def test_a_result_that_is_not_ready_is_an_arrow_answer_without_a_body(gateway: Gateway) -> None:
    hold = gateway.engine.hold("SELECT 1")
    operation = gateway.begin(gateway.open(), "SELECT 1")
    hold.wait_entered()

    answer = gateway.http.get(f"{operation}/result/0", headers=ARROW)
    hold.release()

    assert (answer.headers["freshtable-result-type"], answer.content) == ("NOT_READY", b"")
    assert answer.headers["freshtable-next-result-uri"] == f"{operation}/result/0?rowFormat=JSON"


def test_what_is_no_query_is_arrow_too(gateway: Gateway) -> None:
    answer = gateway.http.get(f"{gateway.begin(gateway.open(a='1'), 'SET')}/result/0", headers=ARROW)

    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.to_pylist() == [
        {"key": "a", "value": "1"},
        {"key": "execution.runtime-mode", "value": "batch"},
    ]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_old_versions_answer_json_whatever_is_accepted(gateway: Gateway, version: str) -> None:
    operation = begin(gateway, ArrowRows([1]))

    answer = gateway.http.get(operation.replace("/v3/", f"/{version}/") + "/result/0", headers=ARROW)

    assert shown(answer) == ("PAYLOAD", [1])


@pytest.mark.parametrize("size", ["0", "-1", "1000001", "many"])
def test_a_page_size_out_of_bounds_is_refused(gateway: Gateway, size: str) -> None:
    answer = gateway.http.get(f"{begin(gateway, FakeRows([1]))}/result/0?pageSize={size}")

    assert (answer.status_code, "pageSize" in answer.text) == (400, True)


def test_a_page_size_holds_for_the_pages_that_follow(gateway: Gateway) -> None:
    rows = FakeRows(*([n] for n in range(5)))
    rows.end()
    gateway.engine.answers[QUERY] = StatementResult(is_query=True, rows=rows)
    uri: str | None = f"{gateway.begin(gateway.open(), QUERY)}/result/0?pageSize=2"
    pages = []

    while uri is not None:
        body = gateway.http.get(uri).json()
        uri = body.get("nextResultUri")
        if body["resultType"] != "NOT_READY":
            pages.append([row["fields"][0] for row in body["results"]["data"]])

    assert pages == [[0, 1], [2, 3], [4], []]


def test_a_client_reads_arrow_and_rows_that_have_none_as_well(gateway: Gateway) -> None:
    arrow, plain = ArrowRows([1], [2]), FakeRows([3], columns=(Column(name="a", type=INT),))
    arrow.end()
    plain.end()
    gateway.engine.answers |= {
        "SELECT arrow": StatementResult(is_query=True, rows=arrow),
        "SELECT plain": StatementResult(is_query=True, rows=plain),
    }

    with GatewayClient(str(gateway.http.base_url)) as client:
        tables = [client.fetch_arrow(client.execute(f"SELECT {kind}")) for kind in ("arrow", "plain")]
        batches = list(client.fetch_arrow_batches(client.execute("SELECT arrow")))

    assert [table.to_pylist() for table in tables] == [[{"a": 1}, {"a": 2}], [{"a": 3}]]
    assert [str(table.schema.field("a").type) for table in tables] == ["int32", "int32"]
    assert [batch.num_rows for batch in batches] == [2]


KINDS = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
NAMES = ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"]


@pytest.mark.parametrize(("row_format", "one"), [("JSON", 1), ("PLAIN_TEXT", "1")])
def test_rows_of_a_changelog_have_their_kinds(gateway: Gateway, row_format: str, one: object) -> None:
    rows = FakeRows([1], [1], [2], [2], kinds=KINDS)
    operation = begin(gateway, rows)

    pages = [
        gateway.http.get(f"{operation}/result/{token}?rowFormat={row_format}&pageSize=3").json()
        for token in (0, 1)
    ]

    data = [row for page in pages for row in page["results"]["data"]]
    assert [row["kind"] for row in data] == NAMES
    assert data[0]["fields"] == [one]
    assert [
        (page["changelog"], [column["name"] for column in page["results"]["columns"]]) for page in pages
    ] == [
        (True, ["a"]),
        (True, ["a"]),
    ]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_an_old_version_has_the_kinds_of_rows_and_no_member_that_its_clients_refuse(
    gateway: Gateway, version: str
) -> None:
    operation = begin(gateway, FakeRows([1], [1], [2], [2], kinds=KINDS)).replace("/v3/", f"/{version}/")

    page = gateway.http.get(f"{operation}/result/0").json()

    assert [row["kind"] for row in page["results"]["data"]] == NAMES
    assert "changelog" not in page


def test_a_result_whose_rows_are_only_added_is_not_called_a_changelog(gateway: Gateway) -> None:
    operation = begin(gateway, FakeRows([1]))

    page = gateway.http.get(f"{operation}/result/0").json()

    assert page["results"]["data"] == [{"kind": "INSERT", "fields": [1]}]
    assert "changelog" not in page


def test_the_first_page_of_a_changelog_may_have_no_rows_and_says_that_it_is_one(gateway: Gateway) -> None:
    rows = FakeRows(kinds=KINDS)
    operation = begin(gateway, rows)

    first = gateway.http.get(f"{operation}/result/0").json()
    rows.add([1])
    second = gateway.http.get(f"{operation}/result/1").json()

    assert [
        (page["changelog"], [row["kind"] for row in page["results"]["data"]]) for page in (first, second)
    ] == [
        (True, []),
        (True, ["INSERT"]),
    ]
