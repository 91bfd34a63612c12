"""A gateway over given parts: wired by the application's builder, started and stopped in its order, with its lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from starlette.types import ASGIApp

from mt_core.app.lease import RegistryLease, lease_of
from mt_core.app.wiring import Parts, Wiring
from mt_core.base.access import parse_tokens
from mt_core.clock import Clock
from mt_core.errors import MtError
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen
from mt_core.gateway.services import GatewayServices
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.refresh.workers import Watch
from mt_core.tables.registry import Registry
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.tables.workflows.handover import take_over_tables
from mt_core.testing.fake_clock import FakeClock
from mt_core.workflow.scheduler import WorkflowScheduler
from tests.support.fake_engine import FakeEngine
from tests.support.fake_statements import FakeStatementEngine
from tests.support.registry_steps import begin_process

STOP_S = 10.0


def fake_parts(
    registry: Registry,
    engine: FakeEngine,
    scheduler: WorkflowScheduler,
    settings: ManagerSettings,
    clock: Clock,
    statements: FakeStatementEngine | None = None,
) -> Parts:
    """Return the parts of a gateway whose Spark is a fake; *statements* answers what is not about materialized tables."""
    statements = statements or FakeStatementEngine()
    catalogs = CreatedCatalogs(registry, reserved=("lake", "spark_catalog"))
    statements.shared_catalogs = catalogs.settings
    return Parts(
        registry=registry,
        engine=engine.roles,
        statements=statements,
        scheduler=scheduler,
        catalogs=catalogs,
        sessions=SessionManager(engine=statements, clock=clock),
        settings=settings,
        clock=clock,
    )


class WiredGateway:
    """Everything but the registry's file, the storage and the time.

    *tokens* are written as in a configuration, and the last one is the scheduler's; *app* builds the application of the services.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        port: int = 0,
        tokens: str = "",
        app: Callable[[GatewayServices], ASGIApp] = build_app,
        watch: Watch | None = None,
    ) -> None:
        self._parts, self._tokens = parts, parse_tokens(tokens)
        self.registry, self.scheduler = parts.registry, parts.scheduler
        self.wiring = Wiring(parts, watch=watch)
        self.tables, self.signal, self.sessions = self.wiring.tables, self.wiring.signal, self.wiring.sessions
        endpoints = replace(self.wiring.endpoints, tokens=self._tokens)
        self.server = GatewayServer(app(endpoints), listen("127.0.0.1", port))
        lease = lease_of(parts.settings.owner, self.server.url)
        self._lease = RegistryLease(parts.registry, lease, clock=parts.clock, on_lost=_fail)

    @property
    def url(self) -> str:
        return self.server.url

    def start(self, options: Mapping[str, str] | None = None) -> None:
        """Begin in the order of the application; *options* are those of the scheduler."""
        self._take_registry()
        take_over_tables(self.tables)
        self.server.start()
        token = self._tokens[-1].secret.reveal() if self._tokens else ""
        self.scheduler.open(self.wiring.scheduler_context(self.url, options=options, token=token))
        self.wiring.scheduler_watch.look()
        self.tables.ledger.recover()
        self.wiring.jobs.settle()
        self._parts.catalogs.load()
        reconcile(self.tables)
        self.wiring.workers.start()

    def stop(self) -> None:
        """End in the order of the application."""
        self.scheduler.close()
        self.sessions.close_all()
        self.wiring.executor.close()
        self.server.stop()
        self.wiring.workers.stop(STOP_S)
        self._lease.release()
        self.registry.close()

    def kill(self) -> None:
        """Cut everything off from the registry at once; a thread at work goes on as a zombie and reaches no registry."""
        self.registry.close()
        # The server's last answers take a moment, which no test has to wait for.
        threading.Thread(target=self.server.stop, daemon=True).start()
        self.scheduler.close()
        self.wiring.executor.close()
        self.wiring.workers.stop(0.0)

    def _take_registry(self) -> None:
        if isinstance(self._parts.clock, FakeClock):
            # The lease of a clock that jumps would lapse at each jump: this one lasts for the whole test.
            begin_process(self.registry, self.tables.settings.owner)
            return
        assert self._lease.take(threading.Event())
        self._lease.start()


def _fail(error: MtError) -> None:
    raise error
