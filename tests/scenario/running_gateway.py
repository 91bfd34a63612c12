from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from mt_core.gateway.services import GatewayServices
from mt_core.sessions.sessions import SessionManager
from mt_core.testing.fake_clock import FakeClock
from mt_core.testing.fake_commands import FakeRuns, FakeTableCommands
from mt_core.testing.fake_statements import FakeStatementEngine

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLUSTER = {"execution.target": "local[*]"}
VARIABLE = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<32 hex>"),
    (re.compile(r"\\tat [^\\\"]*"), r"\\tat <origin>"),
]


@dataclass(frozen=True)
class Gateway:
    """A gateway on a real port, with fakes instead of Spark and of materialized tables."""

    http: httpx.Client
    engine: FakeStatementEngine
    commands: FakeTableCommands
    runs: FakeRuns
    clock: FakeClock
    sessions: SessionManager
    services: GatewayServices

    def open(self, **properties: str) -> str:
        handle: str = self.http.post("/v3/sessions", json={"properties": properties}).json()["sessionHandle"]
        return f"/v3/sessions/{handle}"

    def begin(self, session: str, statement: str) -> str:
        answer = self.http.post(f"{session}/statements", json={"statement": statement})
        return f"{session}/operations/{answer.json()['operationHandle']}"

    def run(self, session: str, statement: str) -> httpx.Response:
        """Execute a statement and return the first page of its result."""
        return self.result(self.begin(session, statement))

    def result(self, operation: str) -> httpx.Response:
        answer = self.http.get(f"{operation}/result/0")
        while answer.json().get("resultType") == "NOT_READY":
            answer = self.http.get(f"{operation}/result/0")
        return answer

    def rows(self, session: str, statement: str) -> list[Any]:
        return [row["fields"] for row in self.run(session, statement).json()["results"]["data"]]

    def status(self, operation: str) -> str:
        status: str = self.http.get(f"{operation}/status").json()["status"]
        return status


def root_cause(answer: httpx.Response) -> str:
    """Return what a Flink client shows: the text after the last `Caused by:`."""
    text: str = answer.json()["errors"][-1]
    return text.rpartition("Caused by: ")[2].partition("\n\tat ")[0]


def normalised(answer: httpx.Response) -> str:
    """Return the text of a body with handles and origins replaced."""
    text = answer.text
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return text
