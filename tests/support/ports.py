"""How a process's ports respond to a client that knows the protocols of py4j and Spark, but no secret."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

import psutil

ANSWER_S = 60.0
TOKEN, SASL, HANGS_UP = "asks for the token of py4j or PySpark", "asks for the secret of Spark", "hangs up"
# py4j: call a method of the first object that the other side has shared.
_CALL = b"c\np0\ncall\nro1\nle\ne\n"
# Message types of Spark's transport, and of the messages to a block manager that it carries.
_RPC_REQUEST = 3
_OPEN_BLOCKS, _UPLOAD_BLOCK = 0, 1
_EMPTY = struct.pack(">i", 0)
# PySpark's accumulators: no updates, which a server acknowledges.
_UPDATES = struct.pack(">i", 0)
_NOT_THE_SECRET = struct.pack(">i", 3) + b"err"


def refusals(pid: int, *, known: frozenset[int] = frozenset()) -> list[str]:
    """Return how each listening port, except the *known* ones, responds.

    A response is TOKEN, SASL, HANGS_UP, or another text.
    """
    return sorted(refusal(port) for port in listening_ports(pid) - known)


def listening_ports(pid: int) -> frozenset[int]:
    """Return the TCP ports on which a process listens."""
    connections = psutil.Process(pid).net_connections("tcp")
    return frozenset(each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN)


def refusal(port: int) -> str:
    """Return how the server at *port* refuses a py4j call and Spark's requests to read and write a block."""
    called = _ask(port, _CALL)
    # PySpark's worker accepts any bytes as a secret, and first sends its process id.
    if b"Authentication error" in called or called[4:] == _NOT_THE_SECRET:
        return TOKEN
    if called:
        return f"{port} answers a call: {called!r}"
    asked = [_ask(port, message) for message in (_open_block(), _upload_block())]
    if not any(asked):
        # py4j's server in Python closes the connection on a call, and answers only a wrong token.
        answers = _ask(port, b"A\nwrong\ne\n"), _ask(port, _UPDATES)
        return {(b"!xn\n", b""): TOKEN, (b"", b""): HANGS_UP}.get(answers, f"{port} answers {answers!r}")
    unasked = [answer for answer in asked if b"Expected SaslMessage" not in answer]
    return f"{port} answers a request for blocks: {unasked!r}" if unasked else SASL


def _open_block() -> bytes:
    body = struct.pack(">b", _OPEN_BLOCKS) + _text("app") + _text("driver")
    return _request(body + struct.pack(">i", 1) + _text("broadcast_0_piece0"))


def _upload_block() -> bytes:
    body = struct.pack(">b", _UPLOAD_BLOCK) + _text("app") + _text("driver")
    return _request(body + _text("broadcast_1000000") + _EMPTY + _EMPTY)


def _text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def _request(body: bytes) -> bytes:
    """Return a Spark transport request from a client without the secret."""
    message = struct.pack(">bqi", _RPC_REQUEST, 1, len(body)) + body
    return struct.pack(">q", len(message) + 8) + message


def _ask(port: int, message: bytes) -> bytes:
    """Return the response of the server at *port*: a line or a Spark transport message.

    The response is empty if the server closes the connection.
    """
    answer = b""
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
        connection.sendall(message)
        # A server that waits for more bytes receives the end of the stream instead. A server that has already
        # closed the connection may have answered before.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        try:
            while not (
                answer.endswith(b"\n") or (len(answer) >= 8 and int.from_bytes(answer[:8]) <= len(answer))
            ):
                received = connection.recv(65536)
                if not received:
                    break
                answer += received
        except ConnectionError:
            pass
    return answer
