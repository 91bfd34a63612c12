"""A gateway with given parts, built, started and stopped as the application does it, with its lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from starlette.types import ASGIApp

from mt_core.app.endpoint_wiring import wire_endpoints
from mt_core.app.lease import RegistryLease, lease_of
from mt_core.app.metrics_wiring import MeasuredParts, wire_metrics
from mt_core.app.statement_wiring import StatementPorts, wire_statements
from mt_core.app.stream_wiring import StreamPorts, wire_streams
from mt_core.app.table_wiring import TablePorts, wire_table_work
from mt_core.base.access import parse_tokens
from mt_core.clock import Clock
from mt_core.errors import MtError
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen
from mt_core.gateway.services import GatewayServices
from mt_core.jobs.store import JobStore
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.ports import PlanFiles, StatementEngine
from mt_core.sessions.properties.stream_properties import StreamDefaults
from mt_core.sessions.sessions import SessionManager
from mt_core.streaming.owner import MOST_RUNNING
from mt_core.tables.refresh.workers import Watch
from mt_core.tables.registry import Registry
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.tables.workflows.handover import take_over_tables
from mt_core.testing.fake_clock import FakeClock
from mt_core.workflow.scheduler import SchedulerContext, WorkflowScheduler
from tests.support.fake_engine import FakeEngine
from tests.support.fake_plans import FakePlans
from tests.support.fake_statements import FakeStatementEngine
from tests.support.fake_streams import FakeStreams
from tests.support.registry_steps import begin_process

STOP_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeParts:
    """The parts of a gateway with a fake Spark.

    `statements` answers statements that are not about materialized tables.
    """

    registry: Registry
    engine: FakeEngine
    scheduler: WorkflowScheduler
    settings: ManagerSettings
    clock: Clock
    statements: FakeStatementEngine = field(default_factory=FakeStatementEngine)
    streams: FakeStreams = field(default_factory=FakeStreams)
    plans: PlanFiles = field(default_factory=FakePlans)
    refresh_threads: int = 2
    statement_threads: int = 64


def stream_ports(
    streams: FakeStreams, statements: StatementEngine, jobs: JobStore, clock: Clock
) -> StreamPorts:
    """Return stream ports with state in memory."""
    return StreamPorts(
        engine=streams,
        statements=statements,
        jobs=jobs,
        clock=clock,
        defaults=StreamDefaults(checkpoints="memory:/c", savepoints="memory:/s"),
        most_running=MOST_RUNNING,
    )


class WiredGateway:
    """Everything except the registry's file, the storage and the time.

    *tokens* are written as in a configuration, and the last one is the scheduler's. *app* builds the
    application from the services. Up to *most_series* tables have metrics of their own.
    """

    def __init__(
        self,
        parts: FakeParts,
        *,
        port: int = 0,
        tokens: str = "",
        app: Callable[[GatewayServices], ASGIApp] = build_app,
        watch: Watch | None = None,
        most_series: int = 1000,
    ) -> None:
        self._clock, self._tokens = parts.clock, parse_tokens(tokens)
        self.registry, self.scheduler = parts.registry, parts.scheduler
        self.catalogs = CreatedCatalogs(parts.registry, reserved=("lake", "spark_catalog"))
        parts.statements.shared_catalogs = self.catalogs.settings
        self.sessions = SessionManager(engine=parts.statements, clock=parts.clock)
        self.jobs = JobStore(parts.registry, owner=parts.settings.owner, clock=parts.clock)
        self.streams = wire_streams(stream_ports(parts.streams, parts.statements, self.jobs, parts.clock))
        self.work = wire_table_work(
            TablePorts(
                registry=parts.registry,
                engine=parts.engine.roles,
                scheduler=parts.scheduler,
                streams=self.streams.keeper,
                settings=parts.settings,
                clock=parts.clock,
                refresh_threads=parts.refresh_threads,
                continuous_threads=2,
            ),
            watch=watch,
        )
        self.tables, self.signal = self.work.services, self.work.services.signal
        self.statements = wire_statements(
            StatementPorts(
                engine=parts.statements,
                commands=self.work.manager,
                runs=self.work.manager.requests,
                clock=parts.clock,
                cluster_info=parts.engine.roles.state.cluster_info,
                catalogs=self.catalogs,
                jobs=self.jobs,
                connector_tables=ConnectorTables(parts.registry),
                functions=CreatedFunctions(parts.registry),
                streams=self.streams.streams,
                plans=parts.plans,
                threads=parts.statement_threads,
            )
        )
        endpoints = wire_endpoints(self.work, self.statements, self.sessions, parts.plans)
        metrics = wire_metrics(
            MeasuredParts(
                tables=self.work,
                sessions=self.sessions,
                executor=self.statements.executor,
                engine=parts.statements,
                scheduler=parts.scheduler.identifier,
            ),
            most=most_series,
        )
        assert metrics is not None
        self.metrics = metrics
        endpoints = replace(
            endpoints, tokens=self._tokens, metrics=metrics.answer, on_request=metrics.work.request
        )
        self.server = GatewayServer(app(endpoints), listen("127.0.0.1", port))
        lease = lease_of(parts.settings.owner, self.server.url)
        self._lease = RegistryLease(parts.registry, lease, clock=parts.clock, on_lost=_fail)
        metrics.work.read_lease(lambda: self._lease.expires_at)

    @property
    def url(self) -> str:
        return self.server.url

    def start(self, options: Mapping[str, str] | None = None) -> None:
        """Start in the application's order. *options* are the scheduler's options."""
        self._take_registry()
        self.metrics.start()
        self.tables.events.start()
        take_over_tables(self.tables)
        self.server.start()
        token = self._tokens[-1].secret.reveal() if self._tokens else ""
        self.scheduler.open(self._context(options or {}, token))
        self.work.scheduler_watch.poll()
        self.tables.ledger.recover()
        self.jobs.settle()
        self.catalogs.load()
        reconcile(self.tables)
        self.work.workers.start()

    def stop(self) -> None:
        """Stop in the application's order."""
        self.scheduler.close()
        self.sessions.close_all()
        self.statements.executor.close()
        self.server.stop()
        self.work.workers.stop(STOP_S)
        assert self.tables.events.stop(STOP_S)
        self._lease.release()
        self.registry.close()

    def kill(self) -> None:
        """Cut off all access to the registry immediately.

        A working thread continues without it, as a zombie.
        """
        self.registry.close()
        # The server's last answers take a moment, for which no test has to wait.
        threading.Thread(target=self.server.stop, daemon=True).start()
        self.scheduler.close()
        self.statements.executor.close()
        self.work.workers.stop(0.0)
        self.tables.events.stop(0.0)

    def _context(self, options: Mapping[str, str], token: str) -> SchedulerContext:
        """Return the scheduler's context. *options* override its default options."""
        defaults = {option.key: option.default or "" for option in self.scheduler.options}
        return SchedulerContext(
            options={**defaults, **options},
            definitions=self.registry.definitions,
            clock=self._clock,
            gateway_url=self.url,
            token=token,
        )

    def _take_registry(self) -> None:
        if isinstance(self._clock, FakeClock):
            # A lease of a clock that jumps would expire at each jump, so this lease lasts for the whole test.
            begin_process(self.registry, self.tables.settings.owner)
            return
        assert self._lease.take(threading.Event())
        self._lease.start()


def _fail(error: MtError) -> None:
    raise error
