"""A gateway over HTTP with the real Airflow scheduler, a registry and an engine in memory, and real time."""

from __future__ import annotations

import uuid
from typing import Any

from mt_core.clock import SystemClock
from mt_core.gateway.application import build_app
from mt_core.gateway.server import GatewayServer, listen
from mt_core.gateway.services import GatewayServices, ProductInfo
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.sessions.executor import StatementExecutor, StatementPorts
from mt_core.sessions.refreshes import OperationFinder
from mt_core.sessions.sessions import SessionManager
from mt_core.sql.parser import parse
from mt_core.tables.commands import CommandContext, CommandOutcome
from mt_core.tables.intents import Intents
from mt_core.tables.ledger import Ledger
from mt_core.tables.manager import TableManager
from mt_core.tables.published import PublishedWorkflows
from mt_core.tables.reconcile import reconcile
from mt_core.tables.services import TableServices
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.signal import Signal
from mt_core.tables.workers import Workers
from mt_core.testing.fake_engine import FakeEngine
from mt_core.testing.fake_statements import FakeStatementEngine
from mt_core.testing.memory_registry import MemoryRegistry
from mt_core.workflow.scheduler import SchedulerContext
from scheduler_plugins.airflow.scheduler import AirflowScheduler

CONTEXT = CommandContext(catalog="lake", namespace="shop")


class LiveGateway:
    """Answers at once on *port*; workers refresh in the background. `close` ends everything."""

    def __init__(self, port: int, token: str, options: dict[str, str]) -> None:
        self.clock, self.engine, self.signal = SystemClock(), FakeEngine(), Signal()
        self.engine.create_source("lake.shop.orders", [{"ds": "2026-01-01", "amount": 1}])
        self.registry, self.scheduler = MemoryRegistry(self.clock), AirflowScheduler()
        settings = ManagerSettings(owner="live", warehouse="memory:/", scheduler_type="airflow", initial_refresh=False)
        self.services = TableServices(
            registry=self.registry,
            engine=self.engine,
            scheduler=self.scheduler,
            settings=settings,
            clock=self.clock,
            ledger=Ledger(self.registry, settings, _new_id),
            intents=Intents(self.registry, settings, self.signal),
            new_id=_new_id,
            signal=self.signal,
        )
        self.manager = TableManager(self.services)
        self._workers = Workers(
            ledger=self.services.ledger, engine=self.engine, signal=self.signal, count=2, renew_every=settings.lease / 3
        )
        self._sessions = SessionManager(engine=FakeStatementEngine(), clock=self.clock)
        self._executor = StatementExecutor(
            StatementPorts(
                engine=FakeStatementEngine(),
                commands=self.manager,
                runs=self.manager.requests,
                clock=self.clock,
                cluster_info=self.engine.cluster_info,
            ),
            max_workers=2,
        )
        endpoints = GatewayServices(
            sessions=self._sessions,
            executor=self._executor,
            operations=OperationFinder(self._sessions, self.manager.requests, self.engine.cluster_info),
            runs=self.manager.requests,
            info=ProductInfo(version="0.1.0"),
            published=PublishedWorkflows(self.registry, "airflow"),
            tokens=(token,),
        )
        self._server = GatewayServer(build_app(endpoints), listen("127.0.0.1", port))
        defaults = {option.key: option.default for option in AirflowScheduler.options if option.default is not None}
        self.context = SchedulerContext(
            options=defaults | options,
            definitions=self.registry.definitions,
            clock=self.clock,
            gateway_url=self._server.url,
            token=token,
        )
        self._server.start()
        self._workers.start()
        self.scheduler.open(self.context)

    def close(self) -> None:
        self.scheduler.close()
        self._server.stop()
        self._workers.stop(5.0)
        self._executor.close()

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
        return self.services.intents.current(TableIdentifier("lake", "shop", name))

    def reconcile(self) -> list[str]:
        return reconcile(self.services)

    def refreshes(self, name: str) -> list[dict[str, Any]]:
        return self.show(f"SHOW REFRESHES FOR {name}")


def _new_id() -> str:
    return str(uuid.uuid4())
