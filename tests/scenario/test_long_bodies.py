"""Long and slow request bodies: refused early, limited in total, and dropped after a timeout."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from mt_core.gateway.application import build_app
from mt_core.gateway.http.bodies import MAX_BODY_BYTES, SHORT_BYTES, BodyLimits
from mt_core.gateway.http.connections import Connection
from mt_core.gateway.http.requests import MAX_STATEMENT_LENGTH, MAX_TEXTS_LENGTH
from mt_core.gateway.http.server import GatewayServer, listen
from tests.scenario.conftest import Switch
from tests.support.gateway.statements import Gateway, root_cause

MIB = 2**20
TOGETHER = 4


class Hasty(Connection):
    """A connection with a short timeout."""

    HEAD_S = 1.0
    HEAD_BYTES = 4096


@pytest.fixture
def limits(gateway: Gateway, switch: Switch) -> BodyLimits:
    """The limits of the gateway, which buffers four bodies of one mebibyte at a time."""
    limits = BodyLimits(one=MIB + SHORT_BYTES, together=TOGETHER * MIB)
    switch.app = build_app(gateway.services, limits)
    return limits


@pytest.fixture
def hasty_address(gateway: Gateway, switch: Switch) -> Iterator[tuple[str, int]]:
    """The address of a gateway with short timeouts for heads and bodies."""
    app = build_app(gateway.services, BodyLimits(pause_s=0.2))
    server = GatewayServer(app, listen("127.0.0.1", 0), Hasty)
    server.start()
    url = httpx.URL(server.url)
    assert url.port is not None
    yield url.host, url.port
    server.stop()


def test_a_body_that_is_told_to_be_too_long_is_refused_before_it_is_sent(gateway: Gateway) -> None:
    client = _begun(gateway, length=MAX_BODY_BYTES + 1, sent=b"")

    status, body = _answer(client)

    assert status == 400
    assert f"longer than {MAX_BODY_BYTES} bytes; send the work in smaller parts" in body
    assert len(gateway.sessions) == 0


def test_50_clients_with_long_bodies_cannot_make_the_gateway_keep_more_than_its_limit(
    gateway: Gateway, limits: BodyLimits
) -> None:
    session, part = gateway.open(), b" " * (MIB + SHORT_BYTES - 1)
    with ExitStack() as stack:
        clients = [stack.enter_context(_begun(gateway, len(part) + 1, part)) for _ in range(TOGETHER)]
        _ask_until_kept(gateway, limits, TOGETHER * (MIB - 1))

        refused = [_answer(_begun(gateway, len(part) + 1, part)) for _ in range(50 - TOGETHER)]
        ordinary = gateway.rows(session, "SELECT 1")
        most = limits.buffered
        for client in clients:
            client.sendall(b" ")
        served = [_answer(client)[0] for client in clients]

    again = gateway.http.post("/v3/sessions", content=part)
    assert {status for status, _ in refused} == {503}
    assert all(
        "longer than 4194304 bytes at present; send this one again in a while" in body for _, body in refused
    )
    assert ordinary == [[1]]
    assert most <= limits.together
    # Three sessions are the limit of this gateway, whatever the length of the bodies.
    assert sorted(served) == [200, 200, 500, 500]
    assert (again.status_code, again.headers["freshtable-error"], limits.buffered) == (
        500,
        "SESSION_LIMIT",
        0,
    )


def test_a_refusal_for_want_of_room_says_when_to_try_again(gateway: Gateway, limits: BodyLimits) -> None:
    limits.buffered = limits.together

    answer = gateway.http.post("/v3/sessions", content=b" " * MIB)
    limits.buffered = 0

    assert (answer.status_code, answer.headers["freshtable-error"], answer.headers["retry-after"]) == (
        503,
        "GATEWAY_BUSY",
        "1",
    )
    assert root_cause(answer).startswith("GatewayBusy: The requests of all clients together are longer than")
    assert gateway.http.post("/v3/sessions", content=b" " * MIB).status_code == 200


def test_a_client_that_vanishes_in_mid_body_gives_its_room_back(gateway: Gateway, limits: BodyLimits) -> None:
    vanished = _begun(gateway, MIB, b" " * (MIB // 2))
    _ask_until_kept(gateway, limits, MIB // 2 - SHORT_BYTES)

    vanished.close()
    _ask_until_kept(gateway, limits, 0)

    assert len(gateway.sessions) == 0


def test_a_body_that_stops_arriving_is_not_waited_for(
    gateway: Gateway, hasty_address: tuple[str, int]
) -> None:
    client = socket.create_connection(hasty_address)
    client.sendall(b'POST /v3/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"sess')

    status, body = _answer(client, to_the_end=True)

    assert (status, len(gateway.sessions)) == (408, 0)
    text = "The body stopped arriving after 6 bytes; send it without pauses of 0.2 s."
    assert json.loads(body) == {"errors": [text]}


@pytest.mark.parametrize("head", [b"", b"GET /v3/info HTTP/1.1\r\nHo"])
def test_a_request_that_stops_before_its_body_is_not_waited_for(
    hasty_address: tuple[str, int], head: bytes
) -> None:
    with socket.create_connection(hasty_address) as client:
        client.sendall(head)

        assert client.recv(100) == b""


def test_a_head_without_an_end_is_refused(hasty_address: tuple[str, int]) -> None:
    with socket.create_connection(hasty_address) as client:
        client.sendall(b"GET /v3/info HTTP/1.1\r\nX: " + b"x" * 5000)

        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_connection_lives_on_between_requests(gateway: Gateway) -> None:
    with httpx.Client(base_url=gateway.http.base_url) as client:
        ends = []
        for body in (b"", b"x" * 100_000, b""):
            with client.stream("POST", "/v3/sessions", content=body) as answer:
                ends.append(answer.extensions["network_stream"].get_extra_info("client_addr"))
                answer.read()

    assert len(set(ends)) == 1


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/statements", {"statement": "x" * (MAX_STATEMENT_LENGTH + 1)}, "statement has 4194305 characters"),
        (
            "/statements",
            {"statement": "SET", "executionConfig": {"a": "x" * MAX_TEXTS_LENGTH}},
            "executionConfig has 1048577 characters",
        ),
        ("", {"properties": {"a": "x" * MAX_TEXTS_LENGTH}}, "properties has 1048577 characters"),
    ],
)
def test_texts_that_would_cost_many_times_their_length_are_refused(
    gateway: Gateway, path: str, body: dict[str, object], named: str
) -> None:
    session = gateway.open()

    answer = gateway.http.post(f"{session if path else '/v3/sessions'}{path}", json=body)

    assert (answer.status_code, len(gateway.sessions)) == (400, 1)
    assert named in root_cause(answer)


def _begun(gateway: Gateway, length: int, sent: bytes) -> socket.socket:
    """Begin to open a session with a body of *length*, but send only *sent* of it."""
    client = socket.create_connection((gateway.http.base_url.host, gateway.http.base_url.port or 80))
    client.sendall(
        f"POST /v3/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode() + sent
    )
    return client


def _answer(client: socket.socket, *, to_the_end: bool = False) -> tuple[int, str]:
    """Return status and body of an answer, and close the connection; *to_the_end* waits until the server
    does.
    """
    with client, client.makefile("rb") as file:
        status = int(file.readline().split()[1])
        length = 0
        while line := file.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        body = file.read(length).decode()
        assert not to_the_end or file.read() == b""
        return status, body


def _ask_until_kept(gateway: Gateway, limits: BodyLimits, kept: int) -> None:
    """Send small requests until the gateway buffers that many bytes, within the test's time limit."""
    while limits.buffered != kept:
        gateway.http.get("/v3/info")
