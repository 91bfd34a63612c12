"""A gateway with fakes in a process of its own, whose memory can be measured: `python -m tests.scenario.lone_gateway`."""

from __future__ import annotations

import sys

from mt_core.clock import SystemClock
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import serve
from mt_core.gateway.services import GatewayServices, ProductInfo
from mt_core.sessions.refreshes import OperationFinder
from mt_core.sessions.sessions import SessionManager
from mt_core.sessions.statements.executor import StatementExecutor, StatementPorts
from mt_core.tables.created_catalogs import CreatedCatalogs
from mt_core.testing.fake_commands import FakeRuns, FakeTableCommands
from mt_core.testing.fake_statements import FakeStatementEngine
from mt_core.testing.memory_registry import MemoryRegistry
from tests.scenario.running_gateway import CLUSTER


def main() -> None:
    """Serve until standard input ends; tell the URL when started."""
    clock, engine = SystemClock(), FakeStatementEngine()
    runs, sessions = FakeRuns(clock), SessionManager(engine=engine, clock=clock)
    ports = StatementPorts(
        engine=engine,
        commands=FakeTableCommands(),
        runs=runs,
        clock=clock,
        cluster_info=lambda: CLUSTER,
        catalogs=CreatedCatalogs(MemoryRegistry(clock)),
    )
    services = GatewayServices(
        sessions=sessions,
        executor=StatementExecutor(ports, max_workers=64),
        operations=OperationFinder(sessions, runs, lambda: CLUSTER),
        runs=runs,
        info=ProductInfo(version="0.1.0"),
    )
    server = serve(build_app(services), "127.0.0.1", 0)
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
