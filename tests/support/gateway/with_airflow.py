"""A gateway over HTTP with the real Airflow scheduler, an in-memory registry and engine, and real time."""

from __future__ import annotations

from typing import Any

from mt_core.clock import SystemClock
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.sql.parser import parse
from mt_core.tables.settings import InitialRefresh, ManagerSettings
from mt_core.tables.table_commands import CommandContext, CommandOutcome
from mt_core.tables.upkeep.reconcile import reconcile
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from tests.support.fake_engine import FakeEngine
from tests.support.gateway.wired import FakeParts, WiredGateway
from tests.support.memory_registry import MemoryRegistry

ANSWER_S = 90.0
CONTEXT = CommandContext(catalog="lake", namespace=("shop",))


class LiveGateway(WiredGateway):
    """Responds immediately on *port*. Workers refresh in the background until `close`."""

    def __init__(self, port: int, token: str, options: dict[str, str]) -> None:
        clock, engine = SystemClock(), FakeEngine()
        engine.create_source("lake.shop.orders", [{"ds": "2026-01-01", "amount": 1}])
        # Tests check what Airflow says, however long a busy machine takes to say it.
        settings = ManagerSettings(
            owner="live",
            scheduler_type="airflow",
            initial_refresh=InitialRefresh.NONE,
            observe_wait_s=ANSWER_S,
        )
        parts = FakeParts(
            registry=MemoryRegistry(clock),
            engine=engine,
            scheduler=AirflowScheduler(),
            settings=settings,
            clock=clock,
            statement_threads=2,
        )
        super().__init__(parts, port=port, tokens=f"airflow:refresh:{token}")
        self.start(options)

    def close(self) -> None:
        self.stop()

    def sql(self, text: str) -> CommandOutcome:
        statement = parse(text)
        assert statement is not None
        return self.work.manager.execute(statement, CONTEXT)  # type: ignore[arg-type]

    def show(self, text: str) -> list[dict[str, Any]]:
        rows = self.sql(text).rows
        assert rows is not None
        names = [column.name for column in rows.columns]
        return [dict(zip(names, row, strict=True)) for row in rows.page(0, 10_000)]

    def facts(self, name: str) -> dict[str, str]:
        return {row["name"]: row["type"] for row in self.show(f"DESCRIBE EXTENDED {name}")}

    def table(self, name: str) -> MaterializedTable:
        return self.tables.intents.current(TableIdentifier("lake", ("shop",), name))

    def reconcile(self) -> list[str]:
        return reconcile(self.tables)

    def refreshes(self, name: str) -> list[dict[str, Any]]:
        return self.show(f"SHOW REFRESHES FOR {name} EXTENDED")
