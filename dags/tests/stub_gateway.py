"""A gateway for tests: the calls that Airflow makes, over real HTTP, with runs that end
when the test says so.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

TOKEN = "token-of-the-stub"
SHARDS = 32
ENDED = ("FINISHED", "CANCELED", "ERROR")


@dataclass(frozen=True)
class Call:
    """A request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


@dataclass
class StubRun:
    """A run: it ends after so many looks at its status (None: when it is told to)."""

    handle: str
    table: str
    key: str
    attempt: int
    body: Mapping[str, Any]
    looks: int | None
    status: str = "RUNNING"
    problem: str = ""
    looked: int = 0


@dataclass(frozen=True)
class Answer:
    """What goes back."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(status: int, code: str, text: str) -> Answer:
    cause = f"Caused by: Error: {text}\n\tat x(y.py:1)"
    block = (
        f"<Exception on server side:\nSqlGatewayException: no\n{cause}\n\nEnd of exception on server side>"
    )
    return Answer(status, {"errors": ["Internal server error.", block]}, {"Freshtable-Error": code})


def refusal_with_facts(status: int, code: str, text: str) -> Answer:
    """As gateways answer that send the error itself beside Flink's `errors`."""
    error = {"code": code, "message": text, "facts": {}}
    return Answer(
        status,
        {"errors": ["Internal server error.", "see error"], "error": error},
        {"Freshtable-Error": code},
    )


def definition(
    identifier: str,
    *,
    every: tuple[int, str] = (1, "DAY"),
    cron: str = "0 0 * * *",
    zone: str = "Europe/Berlin",
    **changes: Any,
) -> dict[str, Any]:
    """Return a workflow definition as the gateway serves it;
    *cron* "" is an interval that cron cannot say.
    """
    amount, unit = every
    workflow_id = str(uuid.uuid5(uuid.NAMESPACE_DNS, identifier))
    return {
        "name": f"mt__{identifier}",
        "workflow_id": workflow_id,
        "identifier": identifier,
        "description": f"Refreshes {identifier}.",
        "schedule": {
            "version": 2,
            "amount": amount,
            "unit": unit,
            "anchor": "1970-01-05",
            "zone": zone,
            **({"cron": cron} if cron else {}),
        },
        "freshness": {"amount": amount, "unit": unit},
        "zone": zone,
        "since": "2026-11-01T12:00:00+00:00",
        "paused": False,
        "init_config": {"table.local-time-zone": "Europe/Berlin"},
        "execution_config": {"spark.sql.shuffle.partitions": "2"},
        "dynamic_options": {"write.format.default": "parquet"},
        "definition": f"CREATE MATERIALIZED TABLE {identifier} FRESHNESS = INTERVAL '1' DAY AS SELECT 1",
        "details_url": f"http://gateway/ui/tables/{workflow_id}",
        **changes,
    }


def shard_of(body: Mapping[str, Any]) -> int:
    return sha256(str(body["workflow_id"]).encode()).digest()[0] % SHARDS


class StubGateway:
    """Serves on a free port of loopback within `with`; everything may be changed from the test's
    thread meanwhile.
    """

    def __init__(self, *, looks: int | None = 1, host: str = "127.0.0.1", port: int = 0) -> None:
        self.looks = looks
        self.version = 1
        self.down = False
        self.scheduler = "airflow"
        self.definitions: list[dict[str, Any]] = []
        self.sessions: set[str] = set()
        self.runs: list[StubRun] = []
        self.calls: list[Call] = []
        self.refusals: list[Answer] = []
        self.changed = threading.Condition()
        self.decision, self.partitions = "refresh", [{"ds": "2026-11-19"}]
        self.failure = "REFRESH_FAILED"
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                stub.serve(self)

            def do_POST(self) -> None:
                stub.serve(self)

            def do_DELETE(self) -> None:
                stub.serve(self)

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> StubGateway:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    # ----------------------------------------------------------------------------------------- what tests ask

    def asked(self, method: str, ending: str) -> list[Call]:
        with self.changed:
            return [call for call in self.calls if call.method == method and call.path.endswith(ending)]

    def wait_for(self, true: Callable[[], Any], timeout_s: float) -> Any:
        """Return what *true* gives as soon as that is true after a call; raises TimeoutError."""
        with self.changed:
            if not self.changed.wait_for(true, timeout_s):
                raise TimeoutError(
                    f"not within {timeout_s} s; last calls: {[(c.method, c.path) for c in self.calls[-5:]]}"
                )
            return true()

    def end(self, run: StubRun, status: str = "FINISHED", problem: str = "") -> None:
        with self.changed:
            run.status, run.problem = status, problem
            self.changed.notify_all()

    # ------------------------------------------------------------------------------------------------ answers

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        size = int(handler.headers.get("Content-Length") or 0)
        body = json.loads(handler.rfile.read(size) or b"{}") if size else {}
        with self.changed:
            call = Call(handler.command, handler.path, dict(handler.headers), body)
            self.calls.append(call)
            answer = self._answer(call)
            self.changed.notify_all()
        text = b"" if answer.body is None else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        for name, value in {
            **answer.headers,
            "Content-Type": "application/json",
            "Content-Length": str(len(text)),
        }.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(text)

    def _answer(self, call: Call) -> Answer:
        if self.down:
            return refusal(503, "ENGINE_UNAVAILABLE", "The gateway is starting.")
        if call.headers.get("Authorization", call.headers.get("authorization")) != f"Bearer {TOKEN}":
            return Answer(
                401,
                {"errors": ["Unauthorized: this gateway asks for a token."]},
                {"Freshtable-Error": "UNAUTHORIZED"},
            )
        parts = call.path.strip("/").split("/")
        if parts[:4] == ["v3", "workflows", "airflow", "shards"]:
            if self.scheduler != "airflow":
                return refusal(404, "SCHEDULER_NOT_USED", f"its workflow-scheduler.type is {self.scheduler}.")
            return self._shard(int(parts[4]), call)
        if parts == ["v3", "sessions"]:
            handle = str(uuid.uuid4())
            self.sessions.add(handle)
            return Answer(200, {"sessionHandle": handle})
        return self._in_session(parts[2], parts[3:], call)

    def _shard(self, number: int, call: Call) -> Answer:
        found = [each for each in self.definitions if shard_of(each) == number]
        body = {
            "version": self.version,
            "scheduler": "airflow",
            "shard": number,
            "shards": SHARDS,
            "workflows": found,
        }
        etag = f'"{sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]}"'
        given = call.headers.get("If-None-Match", call.headers.get("if-none-match"))
        return Answer(304, None, {"ETag": etag}) if given == etag else Answer(200, body, {"ETag": etag})

    def _in_session(self, session: str, rest: list[str], call: Call) -> Answer:
        if session not in self.sessions:
            return refusal(
                404 if rest[-1:] == ["refresh"] else 500,
                "SESSION_NOT_FOUND",
                f"Session {session} is not open.",
            )
        if not rest:
            self.sessions.discard(session)
            return Answer(200, {"status": "CLOSED"})
        if rest[0] == "materialized-tables":
            return self._refresh(unquote(rest[1]), call)
        run = next((run for run in self.runs if run.handle == rest[1]), None)
        if run is None:
            return refusal(500, "OPERATION_NOT_FOUND", f"There is no operation {rest[1]}.")
        return self._operation(run, rest[2], call)

    def _refresh(self, table: str, call: Call) -> Answer:
        if self.refusals:
            return self.refusals.pop(0)
        headers = {name.lower(): value for name, value in call.headers.items()}
        key, attempt = headers["idempotency-key"], int(headers["freshtable-attempt"])
        same = [run for run in self.runs if run.key == key and run.status in ("RUNNING", "FINISHED")]
        if same:
            same[-1].attempt = max(attempt, same[-1].attempt)
            return Answer(200, {"operationHandle": same[-1].handle, "partitions": self.partitions})
        self.runs.append(StubRun(str(uuid.uuid4()), table, key, attempt, call.body, self.looks))
        return Answer(200, {"operationHandle": self.runs[-1].handle, "partitions": self.partitions})

    def _operation(self, run: StubRun, what: str, call: Call) -> Answer:
        if what == "cancel":
            return self._cancel(run, call)
        if what == "result":
            return self._result(run)
        run.looked += 1
        if run.looks is not None and run.looked > run.looks and run.status == "RUNNING":
            run.status = "FINISHED"
        if run.status in ENDED:
            return Answer(200, {"status": run.status})
        progress = {"tasksDone": run.looked, "tasksTotal": 200, "message": "stage 1 of 2"}
        return Answer(200, {"status": run.status, "progress": progress})

    def _cancel(self, run: StubRun, call: Call) -> Answer:
        headers = {name.lower(): value for name, value in call.headers.items()}
        if run.status in ENDED:
            return refusal(
                500, "ILLEGAL_STATUS", f"Operation {run.handle} is {run.status} and cannot become CANCELED."
            )
        if int(headers.get("freshtable-attempt", run.attempt)) >= run.attempt:
            run.status = "CANCELED"
        return Answer(200, {"status": run.status})

    def _result(self, run: StubRun) -> Answer:
        if run.status != "FINISHED":
            return refusal(500, self.failure, run.problem or f"Operation {run.handle} is {run.status}.")
        told = {
            "reason": "lake.sales.orders changed",
            "rows": 42,
            "snapshot": "7171",
            "partitions": self.partitions,
        }
        return Answer(200, {"resultType": "PAYLOAD", "run": {"decision": self.decision, **told}})
