from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from mt_core.base.protocol import read_error, root_cause
from mt_core.base.rowset import INT, Column
from mt_core.client.http import GatewayClient, Progress, Refresh, ResultPage
from mt_core.errors import GatewayError

SESSION = "20ee2ba8-3037-491e-a2ee-180d05966542"
COLUMN = {"name": "a", "logicalType": {"type": "INTEGER", "nullable": True}, "comment": None}


class Server:
    """Answers from a list, and remembers what it was asked."""

    def __init__(self, *answers: dict[str, Any] | httpx.Response | Exception) -> None:
        self.answers = [{"sessionHandle": SESSION}, *answers]
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        # A client that no test closed may still beat when the list is at its end.
        answer = self.answers.pop(0) if self.answers else httpx.ConnectError("no answer is left")
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)


def client_of(server: Callable[[httpx.Request], httpx.Response], token: str | None = None) -> GatewayClient:
    return GatewayClient("http://gw:8083/", token, transport=httpx.MockTransport(server))


def payload(rows: list[list[int]], next_token: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "resultType": "PAYLOAD" if next_token is not None else "EOS",
        "isQueryResult": True,
        "jobID": "ab" * 16,
        "resultKind": "SUCCESS_WITH_CONTENT",
        "results": {
            "columns": [COLUMN],
            "rowFormat": "JSON",
            "data": [{"kind": "INSERT", "fields": row} for row in rows],
        },
    }
    if next_token is not None:
        body["nextResultUri"] = f"/v3/sessions/{SESSION}/operations/o/result/{next_token}?rowFormat=JSON"
    return body


def test_pages_are_fetched_until_the_end_of_the_stream_telling_progress() -> None:
    not_ready = {
        "resultType": "NOT_READY",
        "nextResultUri": f"/v3/sessions/{SESSION}/operations/o/result/0?rowFormat=JSON",
        "progress": {"tasksDone": 1, "tasksTotal": 4, "rowsRead": 900, "message": "running"},
    }
    server, seen = Server(not_ready, payload([[1], [2]], 1), payload([], None)), list[Progress]()

    pages = list(client_of(server).pages("o", seen.append))

    columns = (Column(name="a", type=INT),)
    assert pages == [
        ResultPage(columns=columns, rows=[[1], [2]], is_query=True, has_content=True, job_id="ab" * 16),
        ResultPage(columns=columns, rows=[], is_query=True, has_content=True, job_id="ab" * 16),
    ]
    assert seen == [Progress(done=1, total=4, rows_read=900, message="running")]
    assert [request.url.path.rpartition("/")[2] for request in server.requests] == ["sessions", "0", "0", "1"]


def test_a_refresh_carries_its_headers_and_its_name_in_the_path() -> None:
    server = Server({"operationHandle": "o"})
    refresh = Refresh(
        identifier="lake.`a/b`.t", is_periodic=True, request_key="k", table_id="u", attempt=2, force=True
    )

    handle = client_of(server, "secret").refresh(refresh)

    request = server.requests[1]
    assert handle == "o"
    assert (
        request.url.raw_path
        == f"/v3/sessions/{SESSION}/materialized-tables/lake.%60a%2Fb%60.t/refresh".encode()
    )
    assert {
        name: request.headers[name]
        for name in (
            "authorization",
            "idempotency-key",
            "freshtable-table",
            "freshtable-attempt",
            "freshtable-force",
        )
    } == {
        "authorization": "Bearer secret",
        "idempotency-key": "k",
        "freshtable-table": "u",
        "freshtable-attempt": "2",
        "freshtable-force": "true",
    }


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        (["Not found: /x"], "Not found: /x"),
        (["one", "two"], "one\ntwo"),
        (
            [
                "Internal server error.",
                "<Exception on server side:\nSqlGatewayException: a\n\tat x\nCaused by: B: b\n\tat y\n"
                "Caused by: QueryFailed: [X] first: line\nsecond line\n\tat z\n\n"
                "End of exception on server side>",
            ],
            "[X] first: line\nsecond line",
        ),
        (
            ["RestHandlerException: Bad request\nCaused by: RequestInvalid: token is x.\n\tat f"],
            "token is x.",
        ),
    ],
)
def test_an_error_body_is_told_by_its_last_cause(errors: list[str], text: str) -> None:
    assert root_cause({"errors": errors}) == text


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            httpx.ConnectError("refused"),
            r"no gateway at http://gw:8083 .*Is the gateway running\?.*freshtable gateway",
        ),
        (httpx.ReadTimeout("late"), "The gateway at http://gw:8083 did not answer: late"),
        (httpx.Response(502, text="<html>"), "answered 502 with something that is not JSON"),
        (httpx.Response(500, json={"errors": ["Not found: /x"]}), "^Not found: /x$"),
        (httpx.Response(500, json=["x"]), "an error that cannot be read"),
    ],
)
def test_every_failure_is_a_gateway_error(answer: httpx.Response | Exception, message: str) -> None:
    with pytest.raises(GatewayError, match=message):
        client_of(Server(answer)).execute("SELECT 1")


@pytest.mark.parametrize("url", ["localhost:8083", "gateway", "ftp://gateway"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with (
        GatewayClient(url) as client,
        pytest.raises(GatewayError, match=f"'{url}' is not the URL of a gateway"),
    ):
        client.open_session()


def test_closing_the_client_closes_its_session_and_does_not_mind_a_gateway_that_is_away() -> None:
    server = Server({"status": "CLOSED"})
    away = Server(httpx.ConnectError("refused"))

    with client_of(server) as client:
        client.open_session()
    with client_of(away) as client:
        client.open_session()

    assert [(request.method, request.url.path) for request in server.requests] == [
        ("POST", "/v3/sessions"),
        ("DELETE", f"/v3/sessions/{SESSION}"),
    ]


def test_an_error_has_the_code_and_the_facts_that_the_gateway_sends() -> None:
    error = {
        "code": "QUERY_FAILED",
        "message": "no column `b`",
        "facts": {"line": 1, "error_class": "UNRESOLVED_COLUMN"},
    }

    read = read_error({"errors": ["Internal server error.", "..."], "error": error}, {})

    assert (str(read), read.code) == ("no column `b`", "QUERY_FAILED")
    assert read.facts == {"line": 1, "error_class": "UNRESOLVED_COLUMN"}
