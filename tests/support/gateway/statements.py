"""A gateway with prepared answers for Spark and for materialized tables.

It runs in this process or in a separate one. As a module, `python -m tests.support.gateway.statements`, it
serves until standard input ends, and writes its URL when started.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import httpx

from mt_core import __version__
from mt_core.app.statement_wiring import StatementPorts, StatementServices, wire_statements
from mt_core.app.stream_wiring import wire_streams
from mt_core.clock import Clock, SystemClock
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen
from mt_core.gateway.services import FactServices, GatewayServices, ProductInfo
from mt_core.jobs.store import JobStore
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.refreshes import OperationFinder
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.overview.overview import Overview
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_commands import FakeRuns, FakeTableCommands
from tests.support.fake_plans import FakePlans
from tests.support.fake_statements import FakeStatementEngine
from tests.support.fake_streams import FakeStreams
from tests.support.gateway.wired import stream_ports
from tests.support.memory_registry import MemoryRegistry

ALL_THREADS = 64
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLUSTER = {"execution.target": "local[*]"}
VARIABLE = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<32 hex>"),
    (re.compile(r"\\tat [^\\\"]*"), r"\\tat <origin>"),
    (re.compile(r'(?<="version":")[0-9.]+'), "<release>"),
]


@dataclass(frozen=True)
class Gateway:
    """A gateway on a real port, with fakes for Spark and materialized tables."""

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

    def begin_as(self, session: str, statement: str, headers: Mapping[str, str]) -> str:
        """Begin a statement with the token in *headers*, and return its operation handle."""
        answer = self.http.post(f"{session}/statements", json={"statement": statement}, headers=headers)
        handle: str = answer.json()["operationHandle"]
        return handle

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


@contextmanager
def statement_gateway(http: httpx.Client, *, max_sessions: int) -> Iterator[Gateway]:
    """Yield a gateway in this process, reached by *http*. Its sessions and statements end with the block."""
    clock, engine, commands = FakeClock(NOW), FakeStatementEngine(), FakeTableCommands()
    runs, sessions = FakeRuns(clock), SessionManager(engine=engine, clock=clock, max_sessions=max_sessions)
    statements = wire_statements(replace(statement_ports(engine, commands, runs, clock), threads=4))
    services = _services(sessions, statements, runs, clock)
    try:
        yield Gateway(http, engine, commands, runs, clock, sessions, services)
    finally:
        sessions.close_all()
        statements.executor.close()


def statement_ports(
    engine: FakeStatementEngine, commands: FakeTableCommands, runs: FakeRuns, clock: Clock
) -> StatementPorts:
    registry = MemoryRegistry(clock)
    jobs = JobStore(registry, owner="gateway", clock=clock)
    catalogs = CreatedCatalogs(registry, reserved=("lake", "spark_catalog"))
    engine.shared_catalogs = catalogs.settings
    return StatementPorts(
        engine=engine,
        commands=commands,
        runs=runs,
        clock=clock,
        cluster_info=lambda: CLUSTER,
        catalogs=catalogs,
        jobs=jobs,
        connector_tables=ConnectorTables(registry),
        functions=CreatedFunctions(registry),
        streams=wire_streams(stream_ports(FakeStreams(), engine, jobs, clock)).streams,
        plans=FakePlans(),
        threads=ALL_THREADS,
    )


def _services(
    sessions: SessionManager, statements: StatementServices, runs: FakeRuns, clock: Clock
) -> GatewayServices:
    registry = MemoryRegistry(clock)
    return GatewayServices(
        sessions=sessions,
        executor=statements.executor,
        jobs=statements.jobs,
        hooks=statements.hooks,
        names=statements.names,
        operations=OperationFinder(sessions, runs, lambda: CLUSTER),
        runs=runs,
        facts=FactServices(
            overview=Overview(registry, clock, {}),
            reading=registry.reading,
            workers=ALL_THREADS,
            started_at=clock.now(),
        ),
        info=ProductInfo(version=__version__),
    )


def root_cause(answer: httpx.Response) -> str:
    """Return what a Flink client shows, which is the text after the last `Caused by:`."""
    text: str = answer.json()["errors"][-1]
    return text.rpartition("Caused by: ")[2].partition("\n\tat ")[0]


def normalised(answer: httpx.Response) -> str:
    """Return the text of a body, with handles and origins replaced."""
    text = answer.text
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return text


def lasting_services() -> GatewayServices:
    """Return services that use the real clock and live as long as their process."""
    clock, engine = SystemClock(), FakeStatementEngine()
    runs, sessions = FakeRuns(clock), SessionManager(engine=engine, clock=clock)
    ports = statement_ports(engine, FakeTableCommands(), runs, clock)
    return _services(sessions, wire_statements(ports), runs, clock)


def main() -> None:
    """Serve with the real clock until standard input ends. Write the URL when started."""
    server = GatewayServer(build_app(lasting_services()), listen("127.0.0.1", 0))
    server.start()
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
