"""Many clients, and clients that disappear: no client starves, no resource leaks, and the others are
unaffected.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import tracemalloc
import weakref
from collections import Counter
from datetime import timedelta
from typing import Any

import httpx
import pytest

from mt_core.base.rowset import Column, RowSet
from mt_core.gateway.http.blocking import MOST_HELD
from mt_core.sessions.ports import StatementResult
from tests.support.fake_rows import FakeRows
from tests.support.gateway.statements import Gateway, root_cause

pytestmark = pytest.mark.processes

LEFT = 1000
# Those whose memory is counted: to trace it makes every request several times slower.
TRACED = 200
CLIENTS, ROUNDS = 200, 6
SESSION_BYTES = 32_768
WIDE_ROWS, WIDE_TEXT = 5000, "x" * 1000


@pytest.fixture
def address(http: httpx.Client) -> tuple[str, int]:
    return http.base_url.host, http.base_url.port or 80


@pytest.mark.slow
def test_1000_sessions_opened_and_left_take_little_memory_and_are_gone_when_they_expire(
    roomy_gateway: Gateway,
) -> None:
    gateway = roomy_gateway
    used = gateway.open()
    gateway.run(used, "SELECT 1")

    left = [_left(gateway, busy=number % 10 == 0) for number in range(LEFT - 1 - TRACED)]
    gc.collect()
    tracemalloc.start()
    left += [_left(gateway, busy=number % 10 == 0) for number in range(TRACED)]
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    refused = gateway.http.post("/v3/sessions")
    meanwhile = gateway.rows(used, "SELECT 1")
    kept = [weakref.ref(gateway.sessions.get(handle)) for handle in left]
    gateway.clock.advance(timedelta(minutes=9))
    gateway.http.post(f"{used}/heartbeat")
    gateway.clock.advance(timedelta(minutes=1))
    expired = gateway.sessions.expire_idle()
    gc.collect()

    assert grown < TRACED * SESSION_BYTES
    assert (refused.status_code, refused.headers["freshtable-error"]) == (500, "SESSION_LIMIT")
    assert root_cause(refused).startswith(
        "SessionLimit: 1000 sessions are open, which is the limit; close one"
    )
    assert meanwhile == [[1]]
    assert sorted(expired) == sorted(left) == sorted(gateway.engine.closed_sessions)
    assert [each() for each in kept] == [None] * len(left)
    assert (gateway.rows(used, "SELECT 1"), len(gateway.sessions)) == ([[1]], 1)


def test_200_clients_at_once_are_all_served_and_none_is_left_behind(
    roomy_gateway: Gateway, address: tuple[str, int]
) -> None:
    done: list[int] = []

    asyncio.run(_burst(address, done))

    when_the_first_ended = Counter(done[: _first_end(done)])
    assert Counter(done) == dict.fromkeys(range(CLIENTS), ROUNDS)
    assert len(when_the_first_ended) == CLIENTS
    assert min(when_the_first_ended.values()) >= ROUNDS // 2
    assert len(roomy_gateway.sessions) == 0


def test_clients_that_vanish_while_they_wait_take_no_place_away(
    gateway: Gateway, address: tuple[str, int]
) -> None:
    session, hold = gateway.open(), gateway.engine.hold("SELECT 1")
    operation = gateway.begin(session, "SELECT 1")
    hold.wait_entered()

    for _ in range(MOST_HELD // 200 + 1):
        for vanished in [
            _sent(address, f"GET {operation}/result/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for _ in range(200)
        ]:
            vanished.close()
    waited = gateway.http.get(f"{operation}/result/0", timeout=60).json()["resultType"]
    status = gateway.status(operation)
    hold.release()

    assert (waited, status) == ("NOT_READY", "RUNNING")
    assert gateway.result(operation).json()["results"]["data"][0]["fields"] == [1]


def test_a_statement_without_a_session_ends_when_its_client_vanishes(
    gateway: Gateway, address: tuple[str, int]
) -> None:
    hold, body = gateway.engine.hold("SELECT 1"), '{"statement": "SELECT 1"}'
    vanished = _sent(
        address,
        f"POST /v1/statements HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}",
    )
    hold.wait_entered()

    vanished.close()
    _ask_until(gateway, lambda: len(gateway.sessions) == 0)

    assert len(gateway.engine.canceled) == len(gateway.engine.closed_sessions) == 1


def test_a_statement_without_a_session_ends_when_its_client_vanishes_while_its_rows_are_read(
    gateway: Gateway, address: tuple[str, int]
) -> None:
    rows, body = FakeRows([1]), '{"statement": "SELECT slow"}'
    gateway.engine.answers["SELECT slow"] = StatementResult(is_query=True, rows=rows)
    vanished = _sent(
        address,
        f"POST /v1/statements HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}",
    )
    _ask_until(gateway, lambda: gateway.engine.executed)

    vanished.close()
    _ask_until(gateway, lambda: len(gateway.sessions) == 0)

    assert (rows.stopped, rows.closed) == (True, True)


def test_a_statement_without_a_session_reads_no_more_rows_than_it_may_answer(gateway: Gateway) -> None:
    rows = FakeRows(*([n] for n in range(5001)))
    gateway.engine.answers["SELECT many"] = StatementResult(is_query=True, rows=rows)

    answer = gateway.http.post("/v1/statements", json={"statement": "SELECT many"})

    assert "The result has more than 5000 rows" in root_cause(answer)
    assert (rows.stopped, rows.closed, len(gateway.sessions)) == (True, True, 0)


def test_clients_that_do_not_read_their_answers_are_not_noticed(
    gateway: Gateway, address: tuple[str, int]
) -> None:
    wide = RowSet(columns=(Column(name="text"),), rows=[[WIDE_TEXT]] * WIDE_ROWS)
    gateway.engine.answers["SELECT wide"] = StatementResult(is_query=True, rows=wide)
    session = gateway.open()
    operation = gateway.begin(session, "SELECT wide")
    gateway.result(operation)

    unread = [
        _sent(address, f"GET {operation}/result/0 HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(50)
    ]
    others = [gateway.rows(session, "SELECT 1") for _ in range(50)]
    pages = gateway.http.get(f"{operation}/result/0").json()["results"]["data"]
    for client in unread:
        client.close()

    assert others == [[[1]]] * 50
    assert len(pages) == WIDE_ROWS


def _left(gateway: Gateway, *, busy: bool) -> str:
    """Open a session and abandon it, possibly with an unread result."""
    session = gateway.open()
    if busy:
        gateway.run(session, "SELECT 1")
    return session.rpartition("/")[2]


def _sent(address: tuple[str, int], request: str) -> socket.socket:
    client = socket.create_connection(address)
    client.sendall(request.encode())
    return client


def _ask_until(gateway: Gateway, holds: Any) -> None:
    """Send small requests until *holds* is true of the gateway, within the test's time limit."""
    while not holds():
        gateway.http.get("/v3/info")


def _first_end(done: list[int]) -> int:
    """Return the total work done when the first client finished."""
    counts: Counter[int] = Counter()
    for number, client in enumerate(done, 1):
        counts[client] += 1
        if counts[client] == ROUNDS:
            return number
    raise AssertionError("no client came to its end")


async def _burst(address: tuple[str, int], done: list[int]) -> None:
    opened = asyncio.Barrier(CLIENTS)
    await asyncio.gather(*(_client(address, number, opened, done) for number in range(CLIENTS)))


async def _client(address: tuple[str, int], number: int, opened: asyncio.Barrier, done: list[int]) -> None:
    reader, writer = await asyncio.open_connection(*address)

    async def ask(method: str, path: str, body: Any = None) -> dict[str, Any]:
        sent = b"" if body is None else json.dumps(body).encode()
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(sent)}\r\n\r\n".encode()
            + sent
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        found: dict[str, Any] = json.loads(await reader.readexactly(length))
        assert " 200 " in head.partition("\r\n")[0], found
        return found

    session = f"/v3/sessions/{(await ask('POST', '/v3/sessions'))['sessionHandle']}"
    await opened.wait()
    for turn in range(ROUNDS):
        statement = ("SELECT 1", "SHOW CATALOGS")[turn % 2]
        begun = await ask("POST", f"{session}/statements", {"statement": statement})
        operation = f"{session}/operations/{begun['operationHandle']}"
        page = await ask("GET", f"{operation}/result/0")
        while page["resultType"] == "NOT_READY":
            page = await ask("GET", f"{operation}/result/0")
        assert page["results"]["data"]
        await ask("DELETE", f"{operation}/close")
        done.append(number)
    await ask("DELETE", session)
    writer.close()
    await writer.wait_closed()
