"""FakeAirflowServer: serves a FakeAirflow over real HTTP.

It has the paths, statuses and bodies of Airflow's REST API v2.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.fake_airflow import FakeAirflow, FakeDag

Body = Mapping[str, Any]
Reply = tuple[int, Body]
LOCATION = "Location"
"""The key of a redirect's body, which is sent as its header."""
LONGEST_PAGE = 100
ACTIVE = ("running", "queued")


def _missing(dag_id: str) -> Reply:
    return 404, {"detail": f"The Dag with ID: `{dag_id}` was not found"}


class Api:
    """Answers requests about *airflow*."""

    def __init__(self, airflow: FakeAirflow) -> None:
        self._airflow = airflow
        self._routes: list[tuple[str, re.Pattern[str], Callable[..., Reply]]] = [
            ("GET", re.compile("/version"), self._version),
            ("GET", re.compile("/monitor/health"), self._health),
            ("GET", re.compile("/providers"), self._providers),
            ("GET", re.compile("/eventLogs"), self._event_logs),
            ("GET", re.compile("/dags"), self._dags),
            ("GET", re.compile("/dags/([^/]+)(/details)?"), self._dag),
            ("PATCH", re.compile("/dags/([^/]+)"), self._patch),
            ("DELETE", re.compile("/dags/([^/]+)"), self._delete),
            ("PUT", re.compile(r"/parseDagFile/file-(\d+)"), self._parse),
            ("GET", re.compile("/dags/([^/]+)/dagRuns"), self._runs),
            ("PATCH", re.compile("/dags/([^/]+)/dagRuns/([^/]+)"), self._patch_run),
        ]

    def answer(self, method: str, target: str, token: str, body: Body) -> Reply:
        """Return the status and the body for a request."""
        parts = urlsplit(target)
        failure = self._airflow.planned(f"{method} {parts.path}")
        if failure is not None:
            return failure.status, {LOCATION: failure.location} if failure.location else failure.body
        if parts.path == "/auth/token":
            given = self._airflow.log_in(body.get("username", ""), body.get("password", ""))
            return (201, {"access_token": given}) if given else (401, {"detail": "Invalid credentials"})
        user, status, wrong = self._airflow.user_of(token)
        path = parts.path.removeprefix("/api/v2")
        if status != 200 and path != "/version":
            return status, {"detail": wrong}
        query = parse_qs(parts.query)
        with self._airflow.alone():
            for wanted, pattern, work in self._routes:
                found = pattern.fullmatch(path)
                if found and wanted == method:
                    groups = [unquote(group or "") for group in found.groups()]
                    return work(*groups, query=query, body=body, user=user)
        return 404, {"detail": "Not Found"}

    def _version(self, **_rest: Any) -> Reply:
        return 200, {"version": self._airflow.version, "git_version": None}

    def _health(self, **_rest: Any) -> Reply:
        beats = {name: beat.isoformat() for name, beat in self._airflow.heartbeats.items()}
        return 200, {
            name: {"status": status, f"latest_{name}_heartbeat": beats.get(name)}
            for name, status in self._airflow.health.items()
        }

    def _providers(self, **_rest: Any) -> Reply:
        names = self._airflow.packages
        return 200, {"providers": [{"package_name": name} for name in names], "total_entries": len(names)}

    def _event_logs(self, query: Mapping[str, list[str]], **_rest: Any) -> Reply:
        if not self._airflow.reads_event_log:
            return 403, {"detail": "Forbidden"}
        events = [
            event
            for event in reversed(self._airflow.events)
            if _one(query, "dag_id", event["dag_id"]) == event["dag_id"]
        ]
        return 200, {"event_logs": events[: int(_one(query, "limit", "50"))], "total_entries": len(events)}

    def _dags(self, query: Mapping[str, list[str]], **_rest: Any) -> Reply:
        prefix = _one(query, "dag_id_prefix_pattern", "")
        stale = _one(query, "exclude_stale", "true") == "false"
        paused = _one(query, "paused", "")
        found = [
            self._airflow.shown(dag)
            for name, dag in sorted(self._airflow.dags.items())
            if name.startswith(prefix)
            and (stale or not dag.is_stale)
            and paused in ("", str(dag.is_paused).lower())
        ]
        offset, limit = int(_one(query, "offset", "0")), min(int(_one(query, "limit", "50")), LONGEST_PAGE)
        return 200, {"dags": found[offset : offset + limit], "total_entries": len(found)}

    def _dag(self, dag_id: str, details: str, **_rest: Any) -> Reply:
        anchor = re.fullmatch(re.escape(self._airflow.prefix) + r"shard_(\d\d)", dag_id)
        found = self._airflow.anchor(int(anchor[1])) if anchor else self._shown(dag_id)
        if found is None:
            return _missing(dag_id)
        return (200, found) if self._airflow.plugin_loaded else (500, {"detail": "Internal Server Error"})

    def _shown(self, dag_id: str) -> dict[str, Any] | None:
        dag = self._airflow.dags.get(dag_id)
        return self._airflow.shown(dag) if dag is not None else None

    def _patch(self, dag_id: str, body: Body, user: str, **_rest: Any) -> Reply:
        if dag_id not in self._airflow.dags:
            return _missing(dag_id)
        self._airflow.patch(dag_id, body["is_paused"], user)
        return 200, self._airflow.shown(self._airflow.dags[dag_id])

    def _delete(self, dag_id: str, **_rest: Any) -> Reply:
        dag = self._airflow.dags.get(dag_id)
        if dag is None:
            return _missing(dag_id)
        if dag.busy > 0 or _active(dag):
            dag.busy -= 1
            return 409, {"detail": f"Task instances of dag with id: '{dag_id}' are still running"}
        del self._airflow.dags[dag_id]
        return 204, {}

    def _parse(self, shard: str, **_rest: Any) -> Reply:
        if self._airflow.request_parse(int(shard)):
            return 201, {}
        return 409, {"detail": "A parsing request for this Dag file already exists"}

    def _runs(self, dag_id: str, query: Mapping[str, list[str]], **_rest: Any) -> Reply:
        dag = self._airflow.dags.get(dag_id)
        if dag is None:
            return _missing(dag_id)
        states = query.get("state", [])
        runs = [{"dag_run_id": name, "state": state} for name, state in dag.runs.items() if state in states]
        return 200, {"dag_runs": runs, "total_entries": len(runs)}

    def _patch_run(self, dag_id: str, run_id: str, body: Body, **_rest: Any) -> Reply:
        dag = self._airflow.dags.get(dag_id)
        if dag is None or run_id not in dag.runs:
            return _missing(dag_id)
        dag.runs[run_id] = body["state"]
        return 200, {"dag_run_id": run_id, "state": body["state"]}


def _one(query: Mapping[str, list[str]], name: str, default: str) -> str:
    return query.get(name, [default])[0]


def _active(dag: FakeDag) -> bool:
    return any(state in ACTIVE for state in dag.runs.values())


class FakeAirflowServer:
    """Serves a FakeAirflow on a free loopback port. Counts its answers and records received cookies."""

    def __init__(self, airflow: FakeAirflow) -> None:
        self.airflow = airflow
        self.served = 0
        self.cookies: list[str] = []
        self._port = 0
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen. After a stop, listen on the previous port."""
        self._server = _Server(self, self._port)
        self._port = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, args=(0.01,), name="fake-airflow", daemon=True
        ).start()

    def stop(self) -> None:
        """Refuse connections. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: FakeAirflowServer, port: int) -> None:
        self.owner, self.api = owner, Api(owner.airflow)
        super().__init__(("127.0.0.1", port), _Requests)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that have disconnected."""


class _Requests(BaseHTTPRequestHandler):
    # One request per connection, so that a stopped server answers nothing more.
    wbufsize = -1
    server: _Server

    def _serve(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        status, answer = self.server.api.answer(self.command, self.path, token, body)
        content = b"" if status == 204 else json.dumps(answer).encode()
        self.server.owner.served += 1
        self.server.owner.cookies += self.headers.get_all("Cookie", [])
        self.send_response(status)
        # Airflow's api-server does the same: it keeps sessions of its UI in a cookie.
        self.send_header("Set-Cookie", "session=of-the-ui; Path=/; HttpOnly")
        if LOCATION in answer:
            self.send_header(LOCATION, str(answer[LOCATION]))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because tests check the received requests."""
