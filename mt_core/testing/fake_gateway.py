"""A real HTTP server that records a scheduler's ticks and answers them as configured.

A scheduler reaches its gateway only over HTTP, possibly from another process, so its tests need a server and
not a mock. The server implements the two endpoints of a tick, which open a session and request a refresh. For
an external scheduler it also implements the shards, and the status of a refresh, which is always finished.
Each tick receives the next answer that the test has queued, or else the default. A tick is recorded when it
is answered. A test that has seen a tick therefore knows that the scheduler can proceed. A held tick is
recorded after its release. Tests wait on one condition and never poll.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from mt_core.workflow.definitions import DefinitionStore
from mt_core.workflow.publishing import published_shard, workflow_json

SESSIONS = "/v3/sessions"
SESSION_UNKNOWN = "SESSION_NOT_FOUND"
_NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAnswer:
    """The gateway's response to one tick."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        return (
            {"operationHandle": str(uuid4()), "partitions": None}
            if self.status < 400
            else {"errors": [f"answered {self.status}"]}
        )


ACCEPTED = GatewayAnswer()
DONE: Mapping[str, Any] = {
    "resultType": "EOS",
    "isQueryResult": False,
    "resultKind": "SUCCESS_WITH_CONTENT",
    "results": {"columns": [], "rowFormat": "JSON", "data": []},
    "run": {
        "decision": "refresh",
        "reason": "asked for",
        "rows": 1,
        "partitions": [],
        "attempt": 1,
        "snapshot": "1",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedTick:
    """One refresh request, with the properties of its session and the status of the response."""

    identifier: str
    session: str
    properties: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    status: int

    @property
    def table_id(self) -> str:
        return self.headers["freshtable-table"]

    @property
    def schedule_time(self) -> str:
        return str(self.body["scheduleTime"])


class FakeGateway:
    """Serves `POST /v3/sessions` and the refresh endpoint on a loopback port (0 for any free port).

    For external schedulers it also serves the shards of *definitions* and reports each refresh as finished.
    Thread-safe.
    """

    def __init__(self, port: int = 0, definitions: DefinitionStore | None = None) -> None:
        self.definitions = definitions
        self._changed = threading.Condition()
        self._ticks: list[ReceivedTick] = []
        self._answers: deque[GatewayAnswer] = deque()
        self._default = ACCEPTED
        self._sessions: dict[str, Mapping[str, str]] = {}
        self._opened_sessions = 0
        self._held: set[str] = set()
        self._entered = 0
        self._port = port
        self._server: _Server | None = None

    # --------------------------------------------------------------------------------------------------- life

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen. After a stop, listen on the same port again; sessions do not survive a stop."""
        self._server = _Server(self, self._port)
        self._port = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, args=(0.01,), name="fake-gateway", daemon=True
        ).start()

    def stop(self) -> None:
        """Answer held ticks, close all connections and stop listening. Idempotent."""
        self.release()
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.close_connections()
        self.forget_sessions()

    # ---------------------------------------------------------------------------------------- what it answers

    def answer(self, *answers: GatewayAnswer) -> None:
        """Answer each of the next ticks with one of *answers*, and later ticks with the default."""
        with self._changed:
            self._answers.extend(answers)

    def answer_all(self, answer: GatewayAnswer) -> None:
        """Set the default answer."""
        with self._changed:
            self._default = answer

    def forget_sessions(self) -> None:
        """Close all sessions, as a restart of the gateway does."""
        with self._changed:
            self._sessions.clear()

    def hold(self, table_id: str) -> None:
        """Delay the answers to ticks of *table_id* until `release`."""
        with self._changed:
            self._held.add(table_id)

    def release(self) -> None:
        """Answer the held ticks and stop holding ticks."""
        with self._changed:
            self._held.clear()
            self._changed.notify_all()

    # --------------------------------------------------------------------------------------- what it received

    @property
    def ticks(self) -> list[ReceivedTick]:
        """The answered ticks, in the order of their answers."""
        with self._changed:
            return list(self._ticks)

    @property
    def accepted(self) -> list[ReceivedTick]:
        return [tick for tick in self.ticks if tick.status < 400]

    @property
    def opened_sessions(self) -> int:
        """The number of sessions opened so far."""
        with self._changed:
            return self._opened_sessions

    def wait_for_ticks(self, count: int, timeout_s: float = 10.0) -> list[ReceivedTick]:
        """Wait until *count* ticks were answered and return all ticks.

        Raises AssertionError after *timeout_s* seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._ticks) >= count, timeout_s):
                raise AssertionError(
                    f"{len(self._ticks)} of {count} ticks arrived within {timeout_s} s: {self._ticks}"
                )
            return list(self._ticks)

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until *count* ticks have arrived, answered or held.

        Raises AssertionError after *timeout_s* seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._entered >= count, timeout_s):
                raise AssertionError(f"{self._entered} of {count} ticks arrived within {timeout_s} s.")

    # ----------------------------------------------------------------------------------------------- requests

    def receive_session(self, body: Mapping[str, Any]) -> tuple[GatewayAnswer, dict[str, Any]]:
        handle = str(uuid4())
        with self._changed:
            self._sessions[handle] = dict(body.get("properties") or {})
            self._opened_sessions += 1
        return ACCEPTED, {"sessionHandle": handle}

    def receive_tick(
        self, session: str, identifier: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> tuple[GatewayAnswer, dict[str, Any]]:
        with self._changed:
            properties = self._sessions.get(session)
            if properties is None:
                lost = GatewayAnswer(status=404, headers={"Freshtable-Error": SESSION_UNKNOWN})
                return lost, lost.body()
            self._entered += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: headers.get("freshtable-table") not in self._held)
            answer = self._answers.popleft() if self._answers else self._default
            tick = ReceivedTick(
                identifier=identifier,
                session=session,
                properties=properties,
                headers=headers,
                body=body,
                status=answer.status,
            )
            self._ticks.append(tick)
            self._changed.notify_all()
            return answer, answer.body()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, gateway: FakeGateway, port: int) -> None:
        self.gateway = gateway
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Requests)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in list(self._connections):
            self.shutdown_request(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the errors of clients that disconnect."""


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Output is buffered, so that headers and body are sent in one packet.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].removeprefix("/v3/").split("/")
        if parts[:3] == ["workflows", "airflow", "shards"] and self.server.gateway.definitions is not None:
            state, definitions = self.server.gateway.definitions.shard(int(parts[3]))
            shard = published_shard(
                "airflow", int(parts[3]), [workflow_json(each) for each in definitions], state=state
            )
            same = self.headers.get("If-None-Match", "").strip('"') == shard.etag
            answer = GatewayAnswer(status=304 if same else 200, headers={"ETag": f'"{shard.etag}"'})
            self._send(answer, {} if same else shard.body)
        elif parts[0] == "sessions" and parts[-1] == "status":
            self._send(ACCEPTED, {"status": "FINISHED"})
        elif parts[0] == "sessions" and parts[-2] == "result":
            self._send(ACCEPTED, DONE)
        else:
            self._send(GatewayAnswer(status=404), {"errors": ["Not found"]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        gateway = self.server.gateway
        parts = self.path.removeprefix(SESSIONS).split("/")
        if parts == [""]:
            self._send(*gateway.receive_session(body))
        elif len(parts) == 5 and (parts[2], parts[4]) == ("materialized-tables", "refresh"):
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(*gateway.receive_tick(parts[1], unquote(parts[3]), headers, body))
        else:
            self._send(GatewayAnswer(status=404), {"errors": ["Not found"]})

    def _send(self, answer: GatewayAnswer, body: Mapping[str, Any]) -> None:
        content = b"" if answer.status == _NOT_MODIFIED else json.dumps(body).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the request log."""
