"""Invalid requests get the documented answer, and do not affect other sessions."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import pytest

from mt_core.gateway.http.bodies import MAX_BODY_BYTES
from tests.support.gateway.statements import Gateway, root_cause

PREFIXES = ["/v1", "/v2", "/v3", "/v4", ""]
NO_ONE = "00000000-0000-0000-0000-000000000000"
SHARDS = "/v3/workflows/airflow/shards"


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[]",
        "null",
        "3",
        '"x"',
        '{"statement": 7}',
        "",
        "{}",
        '{"statement": null}',
        '{"sql": "SELECT 1"}',
        '{"executionTimeout": "soon"}',
        '{"executionConfig": []}',
        "\xff",
    ],
)
def test_a_body_that_cannot_be_read_is_a_bad_request(gateway: Gateway, prefix: str, body: str) -> None:
    session = gateway.open().removeprefix("/v3")

    answer = gateway.http.post(f"{prefix}{session}/statements", content=body.encode("latin-1"))

    assert (answer.status_code, answer.headers["freshtable-error"]) == (400, "REQUEST_INVALID")
    assert list(answer.json()) == ["errors"]
    assert len(answer.json()["errors"]) == 1
    assert gateway.sessions.get(session.rpartition("/")[2]).operations == []


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("token", ["x", "1.5", "-", "9" * 5000])
def test_a_token_that_is_no_number_is_a_bad_request(gateway: Gateway, prefix: str, token: str) -> None:
    operation = gateway.begin(gateway.open(), "SELECT 1").removeprefix("/v3")

    answer = gateway.http.get(f"{prefix}{operation}/result/{token}")

    assert (answer.status_code, answer.headers["freshtable-error"]) == (400, "REQUEST_INVALID")


@pytest.mark.parametrize(
    "path",
    [f"{{session}}/operations/{NO_ONE}/result", f"{{session}}/jobs/{NO_ONE.replace('-', '')}/result", SHARDS],
)
@pytest.mark.parametrize("number", ["x", "+1", "01", "-0", "1_0", "%D9%A1", "%201", "9" * 19])
def test_a_number_of_a_path_has_one_spelling_and_any_other_is_refused_in_the_same_words(
    gateway: Gateway, path: str, number: str
) -> None:
    session = gateway.open().replace("/v3", "/v1")

    answer = gateway.http.get(f"{path.format(session=session)}/{number}")

    assert (answer.status_code, answer.headers["freshtable-error"]) == (400, "REQUEST_INVALID")
    what = "number" if path is SHARDS else "token"
    assert (
        f'Cannot resolve path parameter ({what}) from value "{unquote(number)}".'
        in answer.json()["errors"][0]
    )


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("method", "call"), [("GET", "status"), ("GET", "result/0"), ("POST", "cancel"), ("DELETE", "close")]
)
def test_an_operation_handle_that_is_no_uuid_is_a_bad_request(
    gateway: Gateway, prefix: str, method: str, call: str
) -> None:
    session = gateway.open().removeprefix("/v3")

    answer = gateway.http.request(method, f"{prefix}{session}/operations/abc/{call}")

    assert (answer.status_code, answer.headers["freshtable-error"]) == (400, "REQUEST_INVALID")
    assert 'Cannot resolve path parameter (operation_handle) from value "abc".' in answer.json()["errors"][0]


@pytest.mark.parametrize("token", [-1, 2, 3, 10**17])
def test_a_token_out_of_turn_is_an_error_naming_those_expected(gateway: Gateway, token: int) -> None:
    operation = gateway.begin(gateway.open(), "SELECT 1")
    gateway.result(operation)

    answer = gateway.http.get(f"{operation}/result/{token}")

    assert (answer.status_code, root_cause(answer)) == (
        500,
        f"RequestInvalid: Expecting token to be 1 or 0, but found {token}.",
    )


def test_a_body_that_is_too_long_is_refused_and_the_next_request_answered(gateway: Gateway) -> None:
    session = gateway.open()
    chunk = b" " * 2**20

    sized = gateway.http.post(f"{session}/statements", content=b"x" * (MAX_BODY_BYTES + 1))
    chunked = gateway.http.post(f"{session}/statements", content=(chunk for _ in range(101)))
    after = gateway.run(session, "SELECT 1")

    assert [answer.status_code for answer in (sized, chunked, after)] == [400, 400, 200]
    assert f"longer than {MAX_BODY_BYTES} bytes" in root_cause(sized)


def test_a_client_that_vanishes_or_sends_slowly_is_not_noticed_by_others(gateway: Gateway) -> None:
    session, hold = gateway.open(), gateway.engine.hold("SELECT 1")
    operation = gateway.begin(session, "SELECT 1")
    hold.wait_entered()
    address = (gateway.http.base_url.host, gateway.http.base_url.port)
    vanished, slow = socket.create_connection(address), socket.create_connection(address)
    vanished.sendall(f"GET {operation}/result/0 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    vanished.close()
    slow.sendall(b'POST /v3/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"sess')

    info = gateway.http.get("/v3/info")
    hold.release()

    assert (info.status_code, gateway.result(operation).status_code, len(gateway.sessions)) == (200, 200, 1)
    slow.close()


def test_many_clients_that_wait_leave_room_for_those_who_do_not(gateway: Gateway) -> None:
    session, hold = gateway.open(), gateway.engine.hold("SELECT 1")
    operation = gateway.begin(session, "SELECT 1")
    hold.wait_entered()
    waiting = threading.Barrier(61)

    def poll() -> dict[str, Any]:
        waiting.wait()
        body: dict[str, Any] = gateway.http.get(f"{operation}/result/0", timeout=30).json()
        return body

    with ThreadPoolExecutor(60) as pool:
        polls = [pool.submit(poll) for _ in range(60)]
        waiting.wait()
        status = gateway.status(operation)

    hold.release()
    assert status == "RUNNING"
    assert {found.result()["resultType"] for found in polls} == {"NOT_READY"}


@pytest.mark.parametrize(
    "path", ["/v1/statements", "/v4{session}/statements", "/v2{session}/configure-session"]
)
def test_a_statement_that_is_missing_is_named(gateway: Gateway, path: str) -> None:
    session = gateway.open().removeprefix("/v3")

    answer = gateway.http.post(path.format(session=session), json={})

    assert (answer.status_code, root_cause(answer)) == (
        400,
        "RequestInvalid: statement is missing; it must be the text to run.",
    )
    assert len(gateway.sessions) == 1
