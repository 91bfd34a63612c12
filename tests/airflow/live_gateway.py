"""A gateway over HTTP with the real Airflow scheduler, a registry and an engine in memory, and real time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mt_core.access import parse_tokens
from mt_core.app.wiring import Parts, Wiring
from mt_core.clock import SystemClock
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.sessions.sessions import SessionManager
from mt_core.sql.parser import parse
from mt_core.tables.created_catalogs import CreatedCatalogs
from mt_core.tables.settings import InitialRefresh, ManagerSettings
from mt_core.tables.table_commands import CommandContext, CommandOutcome
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.testing.fake_engine import FakeEngine
from mt_core.testing.fake_statements import FakeStatementEngine
from mt_core.testing.memory_registry import MemoryRegistry
from scheduler_plugins.airflow.scheduler import AirflowScheduler

CONTEXT = CommandContext(catalog="lake", namespace=("shop",))


class LiveGateway:
    """Answers at once on *port*; workers refresh in the background. `close` ends everything."""

    def __init__(self, port: int, token: str, options: dict[str, str]) -> None:
        self.clock, self.engine = SystemClock(), FakeEngine()
        self.engine.create_source("lake.shop.orders", [{"ds": "2026-01-01", "amount": 1}])
        self.registry, self.scheduler = MemoryRegistry(self.clock), AirflowScheduler()
        settings = ManagerSettings(
            owner="live", warehouse="memory:/", scheduler_type="airflow", initial_refresh=InitialRefresh.NONE
        )
        statements = FakeStatementEngine()
        self._wiring = Wiring(
            Parts(
                registry=self.registry,
                engine=self.engine,
                statements=statements,
                scheduler=self.scheduler,
                catalogs=CreatedCatalogs(self.registry),
                sessions=SessionManager(engine=statements, clock=self.clock),
                settings=settings,
                clock=self.clock,
                statement_threads=2,
            )
        )
        self.services, self.manager = self._wiring.tables, self._wiring.manager
        endpoints = replace(self._wiring.endpoints, tokens=parse_tokens(f"airflow:refresh:{token}"))
        self._server = GatewayServer(build_app(endpoints), listen("127.0.0.1", port))
        self.context = self._wiring.scheduler_context(self._server.url, options=options, token=token)
        self._server.start()
        self._wiring.workers.start()
        self.scheduler.open(self.context)

    def close(self) -> None:
        self.scheduler.close()
        self._server.stop()
        self._wiring.workers.stop(5.0)
        self._wiring.executor.close()

    def sql(self, text: str) -> CommandOutcome:
        statement = parse(text)
        assert statement is not None
        return self.manager.execute(statement, CONTEXT)  # type: ignore[arg-type]

    def show(self, text: str) -> list[dict[str, Any]]:
        rows = self.sql(text).rows
        assert rows is not None
        names = [column.name for column in rows.columns]
        return [dict(zip(names, row, strict=True)) for row in rows.page(0, 10_000)]

    def facts(self, name: str) -> dict[str, str]:
        return {row["name"]: row["type"] for row in self.show(f"DESCRIBE EXTENDED {name}")}

    def table(self, name: str) -> MaterializedTable:
        return self.services.intents.current(TableIdentifier("lake", ("shop",), name))

    def reconcile(self) -> list[str]:
        return reconcile(self.services)

    def refreshes(self, name: str) -> list[dict[str, Any]]:
        return self.show(f"SHOW REFRESHES FOR {name}")
