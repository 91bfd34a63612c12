"""One process of a gateway, wired as the application wires it, with fakes for Spark and the time: what a kill takes away."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from uuid import uuid4

from mt_core.gateway.application import build_app
from mt_core.gateway.server import GatewayServer, listen
from mt_core.gateway.services import GatewayServices, ProductInfo
from mt_core.model.table import TableIdentifier
from mt_core.registry.store import SqlRegistry
from mt_core.rowset import Column, RowSet
from mt_core.sessions.executor import StatementExecutor, StatementPorts
from mt_core.sessions.ports import SessionContext, StatementResult
from mt_core.sessions.refreshes import OperationFinder
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.intents import Intents
from mt_core.tables.ledger import Claimed, Ledger
from mt_core.tables.manager import TableManager
from mt_core.tables.reconcile import reconcile
from mt_core.tables.services import TableServices
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.shared_catalogs import SharedCatalogs
from mt_core.tables.signal import Signal
from mt_core.tables.workers import Workers
from mt_core.testing.fake_clock import FakeClock
from mt_core.testing.fake_engine import FakeEngine
from mt_core.testing.fake_statements import FakeStatementEngine
from mt_core.workflow.operations import ModifyRefreshWorkflow
from mt_core.workflow.scheduler import SchedulerContext
from scheduler_plugins.memory.scheduler import MemoryScheduler

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
        self.clock, self.engine = clock, engine
        self.registry = SqlRegistry.open(registry_url, clock)
        self.scheduler, self.signal = scheduler, Signal()
        self.tables = TableServices(
            registry=self.registry,
            engine=engine,
            scheduler=scheduler,
            settings=settings,
            clock=clock,
            ledger=Ledger(self.registry, settings, _new_id),
            intents=Intents(self.registry, settings, self.signal),
            new_id=_new_id,
            signal=self.signal,
        )
        self.workers = Workers(
            ledger=self.tables.ledger,
            engine=engine,
            signal=self.signal,
            count=WORKERS,
            renew_every=settings.lease / 3,
            watch=watch,
        )
        self._wire_gateway()

    def _wire_gateway(self) -> None:
        manager, statements = TableManager(self.tables), TableStatements(self.engine)
        runs, cluster_info = manager.requests, self.engine.cluster_info
        self.sessions = SessionManager(engine=statements, clock=self.clock)
        catalogs = SharedCatalogs(self.registry, reserved=("lake", "spark_catalog"))
        statements.shared_catalogs = catalogs.settings
        ports = StatementPorts(
            engine=statements,
            commands=manager,
            runs=runs,
            clock=self.clock,
            cluster_info=cluster_info,
            catalogs=catalogs,
        )
        self.executor = StatementExecutor(ports, max_workers=4)
        services = GatewayServices(
            sessions=self.sessions,
            executor=self.executor,
            operations=OperationFinder(self.sessions, runs, cluster_info),
            runs=runs,
            info=ProductInfo(version="0.1.0"),
        )
        self.server = GatewayServer(build_app(services), listen("127.0.0.1", 0))

    def start(self) -> None:
        """Begin in the order of the application."""
        self.server.start()
        self.tables.ledger.recover()
        options = {option.key: option.default or "" for option in self.scheduler.options}
        self.scheduler.open(
            SchedulerContext(
                options=options,
                definitions=self.registry.definitions,
                clock=self.clock,
                gateway_url=self.server.url,
            )
        )
        reconcile(self.tables)
        self.workers.start()

    def stop(self) -> None:
        """End in the order of the application."""
        self.scheduler.close()
        self.server.stop()
        self.sessions.close_all()
        self.executor.close()
        self.workers.stop(STOP_S)
        self.registry.close()

    def kill(self) -> None:
        """Cut everything off from the registry at once; a thread at work goes on as a zombie and finds nobody."""
        self.registry.close()
        # The server's last answers take a moment that nobody has to wait for.
        threading.Thread(target=self.server.stop, daemon=True).start()
        self.scheduler.close()
        self.executor.close()
        self.workers.stop(0.0)


def identifier_of(name: str) -> TableIdentifier:
    """Return the full name of a table in the namespace of every session."""
    return TableIdentifier("lake", "default", name)


def _new_id() -> str:
    return str(uuid4())
