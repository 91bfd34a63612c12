from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from mt_core.access import parse_tokens
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import serve
from mt_core.gateway.services import GatewayServices, ProductInfo
from mt_core.sessions.refreshes import OperationFinder
from mt_core.sessions.sessions import SessionManager
from mt_core.sessions.statements.executor import StatementExecutor, StatementPorts
from mt_core.tables.created_catalogs import CreatedCatalogs
from mt_core.testing.fake_clock import FakeClock
from mt_core.testing.fake_commands import FakeRuns, FakeTableCommands
from mt_core.testing.fake_statements import FakeStatementEngine
from mt_core.testing.memory_registry import MemoryRegistry
from tests.scenario.running_gateway import CLUSTER, NOW, Gateway
from tests.scenario.shared_app import app_of


class Switch:
    """An application that is the one of the present test: starting a server for each test takes too long."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@pytest.fixture(scope="session")
def switch() -> Switch:
    return Switch()


@pytest.fixture(scope="session")
def http(switch: Switch) -> Iterator[httpx.Client]:
    server = serve(switch, "127.0.0.1", 0)
    with httpx.Client(base_url=server.url) as client:
        yield client
    server.stop()


@pytest.fixture
def gateway(switch: Switch, http: httpx.Client) -> Iterator[Gateway]:
    with _gateway(http, max_sessions=3) as made:
        switch.app = app_of(made.services)
        yield made


@pytest.fixture
def roomy_gateway(switch: Switch, http: httpx.Client) -> Iterator[Gateway]:
    """The same gateway with room for 1,000 sessions."""
    with _gateway(http, max_sessions=1000) as made:
        switch.app = app_of(made.services)
        yield made


@contextmanager
def _gateway(http: httpx.Client, *, max_sessions: int) -> Iterator[Gateway]:
    clock, engine, commands = FakeClock(NOW), FakeStatementEngine(), FakeTableCommands()
    runs, sessions = FakeRuns(clock), SessionManager(engine=engine, clock=clock, max_sessions=max_sessions)
    catalogs = CreatedCatalogs(MemoryRegistry(clock), reserved=("lake", "spark_catalog"))
    engine.shared_catalogs = catalogs.settings
    ports = StatementPorts(
        engine=engine, commands=commands, runs=runs, clock=clock, cluster_info=lambda: CLUSTER, catalogs=catalogs
    )
    executor = StatementExecutor(ports, max_workers=4)
    services = GatewayServices(
        sessions=sessions,
        executor=executor,
        operations=OperationFinder(sessions, runs, lambda: CLUSTER),
        runs=runs,
        info=ProductInfo(version="0.1.0"),
    )
    yield Gateway(http, engine, commands, runs, clock, sessions, services)
    sessions.close_all()
    executor.close()


@pytest.fixture
def guarded_gateway(gateway: Gateway, switch: Switch) -> Gateway:
    """The same gateway, asking for one of two tokens."""
    switch.app = build_app(replace(gateway.services, tokens=parse_tokens("first,second")))
    return gateway
