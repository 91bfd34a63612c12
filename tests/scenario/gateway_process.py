"""One process of a gateway, wired as the application wires it, with fakes for Spark and the time: what a kill takes away."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from uuid import uuid4

from mt_core.app.wiring import Parts, Wiring
from mt_core.gateway.http.server import GatewayServer, listen
from mt_core.model.table import TableIdentifier
from mt_core.registry.store import SqlRegistry
from mt_core.rowset import Column, RowSet
from mt_core.sessions.ports import SessionContext, StatementResult
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.created_catalogs import CreatedCatalogs
from mt_core.tables.runs.ledger import Claimed
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.testing.fake_clock import FakeClock
from mt_core.testing.fake_engine import FakeEngine
from mt_core.testing.fake_statements import FakeStatementEngine
from mt_core.testing.registry_steps import begin_process
from mt_core.workflow.operations import ModifyRefreshWorkflow
from scheduler_plugins.memory.scheduler import MemoryScheduler
from tests.scenario.shared_app import app_of

STOP_S = 10.0
INTENT_WAIT_S = 0.5
HASTE_S = 0.2
WORKERS = 3
_SELECT = re.compile(r"SELECT \* FROM (?P<name>\w+)")


class TableStatements(FakeStatementEngine):
    """Answers `SELECT * FROM name` with what a reader of the table sees; everything else has prepared answers."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__()
        self._refreshes = engine

    def execute(self, context: SessionContext, sql: str, *, job_id: str) -> StatementResult:
        found = _SELECT.fullmatch(sql)
        if found is None or identifier_of(found["name"]) not in self._refreshes.storages:
            return super().execute(context, sql, job_id=job_id)
        stored = self._refreshes.storages[identifier_of(found["name"])]
        names = [column.name for column in stored.columns]
        rows = [[row[name] for name in names] for row in self._refreshes.rows(stored.spec.identifier)]
        return StatementResult(is_query=True, rows=RowSet(columns=[Column(name=name) for name in names], rows=rows))


class HastyScheduler(MemoryScheduler):
    """Has the tick of a RESUME answered before RESUME itself goes on, if the gateway lets it."""

    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        super().modify_refresh_workflow(workflow)
        self.wait_idle(HASTE_S)


class Process:
    """Everything but the registry's file, the storage and the time."""

    def __init__(
        self,
        registry_url: str,
        clock: FakeClock,
        engine: FakeEngine,
        *,
        scheduler: MemoryScheduler,
        watch: Callable[[Claimed, str], None],
    ) -> None:
        settings = ManagerSettings(owner=str(uuid4()), warehouse="memory:/warehouse", intent_wait_s=INTENT_WAIT_S)
        self.registry, self.scheduler = SqlRegistry.open(registry_url, clock), scheduler
        statements = TableStatements(engine)
        catalogs = CreatedCatalogs(self.registry, reserved=("lake", "spark_catalog"))
        statements.shared_catalogs = catalogs.settings
        parts = Parts(
            registry=self.registry,
            engine=engine,
            statements=statements,
            scheduler=scheduler,
            catalogs=catalogs,
            sessions=SessionManager(engine=statements, clock=clock),
            settings=settings,
            clock=clock,
            refresh_threads=WORKERS,
            statement_threads=4,
        )
        self.wiring = Wiring(parts, watch=watch)
        self.tables, self.signal, self.sessions = self.wiring.tables, self.wiring.signal, self.wiring.sessions
        self.server = GatewayServer(app_of(self.wiring.endpoints), listen("127.0.0.1", 0))

    def start(self) -> None:
        """Begin in the order of the application."""
        self.server.start()
        begin_process(self.registry, self.tables.settings.owner)
        self.tables.ledger.recover()
        self.scheduler.open(self.wiring.scheduler_context(self.server.url))
        reconcile(self.tables)
        self.wiring.workers.start()

    def stop(self) -> None:
        """End in the order of the application."""
        self.scheduler.close()
        self.server.stop()
        self.sessions.close_all()
        self.wiring.executor.close()
        self.wiring.workers.stop(STOP_S)
        self.registry.close()

    def kill(self) -> None:
        """Cut everything off from the registry at once; a thread at work goes on as a zombie and finds nobody."""
        self.registry.close()
        # The server's last answers take a moment that nobody has to wait for.
        threading.Thread(target=self.server.stop, daemon=True).start()
        self.scheduler.close()
        self.wiring.executor.close()
        self.wiring.workers.stop(0.0)


def identifier_of(name: str) -> TableIdentifier:
    """Return the full name of a table in the namespace of every session."""
    return TableIdentifier("lake", ("default",), name)
