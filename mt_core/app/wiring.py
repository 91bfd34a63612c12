"""The wiring: from registry, engines, scheduler and clock to the services that answer requests; it starts nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mt_core import __version__
from mt_core.app.statement_wiring import StatementPorts, wire_statements
from mt_core.clock import Clock
from mt_core.errors import EngineUnavailable
from mt_core.gateway.services import GatewayServices, ProductInfo
from mt_core.jobs.installed import InstalledHooks
from mt_core.jobs.store import HISTORY, JobStore
from mt_core.keepers.change import ChangeKeeper
from mt_core.keepers.kinds import KeeperKind, Keepers
from mt_core.keepers.scheduler_watch import SchedulerWatch
from mt_core.keepers.workflow import WorkflowKeeper
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.ports import PlanFiles, StatementEngine
from mt_core.sessions.properties.stream_properties import StreamDefaults
from mt_core.sessions.refreshes import OperationFinder
from mt_core.sessions.sessions import SessionManager
from mt_core.sessions.streaming.streaming_statements import Streams
from mt_core.streaming.engine import StreamEngine
from mt_core.streaming.keeper import StreamKeeper
from mt_core.streaming.owner import MOST_RUNNING, StreamOwner
from mt_core.tables.changes import Signal
from mt_core.tables.continuous.workers import ContinuousWorkers
from mt_core.tables.engine import RefreshEngine
from mt_core.tables.intents import Intents
from mt_core.tables.manager import TableManager
from mt_core.tables.refresh.workers import Watch, Workers
from mt_core.tables.registry import Registry
from mt_core.tables.runs.ledger import Ledger
from mt_core.tables.services import TableServices
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.workflows.published import PublishedWorkflows
from mt_core.workflow.scheduler import SchedulerContext, WorkflowScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamParts:
    """The engine of streaming jobs, what holds where a session says nothing, and how many jobs run at a time."""

    engine: StreamEngine
    defaults: StreamDefaults
    most_running: int = MOST_RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a gateway, and how many threads it has for full and continuous refreshes, and for statements."""

    registry: Registry
    engine: RefreshEngine
    statements: StatementEngine
    scheduler: WorkflowScheduler
    catalogs: CreatedCatalogs
    sessions: SessionManager
    settings: ManagerSettings
    clock: Clock
    refresh_threads: int = 2
    continuous_threads: int = 2
    statement_threads: int = 64
    job_history: timedelta = HISTORY
    job_hooks: InstalledHooks | None = None
    streams: StreamParts | None = None
    plans: PlanFiles | None = None
    connector_tables: ConnectorTables | None = None
    functions: CreatedFunctions | None = None


class Wiring:
    """The services of one gateway, wired to each other; `watch` is called before each step of a refresh."""

    def __init__(self, parts: Parts, *, watch: Watch | None = None) -> None:
        self._parts = parts
        self.jobs = JobStore(
            parts.registry,
            owner=parts.settings.owner,
            clock=parts.clock,
            history=parts.job_history,
            hooks=parts.job_hooks,
        )
        tables = wire_tables(parts.registry, parts.engine, parts.scheduler, parts.settings, parts.clock)
        self.tables = self._keeping_streams(parts, tables)
        self.sessions, self.signal = parts.sessions, self.tables.signal
        self.manager = TableManager(self.tables)
        self.workers = Workers(self.tables, count=parts.refresh_threads, watch=watch)
        self.continuous = ContinuousWorkers(self.tables, count=parts.continuous_threads, watch=watch)
        self.streams = self._own_streams(parts)
        self.scheduler_watch = SchedulerWatch(parts.scheduler, parts.clock)
        ports = StatementPorts(
            engine=parts.statements,
            commands=self.manager,
            runs=self.manager.requests,
            clock=parts.clock,
            cluster_info=parts.engine.state.cluster_info,
            catalogs=parts.catalogs,
            jobs=self.jobs,
            streams=self.streams,
            plans=parts.plans,
            connector_tables=parts.connector_tables or ConnectorTables(parts.registry),
            functions=parts.functions or CreatedFunctions(parts.registry),
            threads=parts.statement_threads,
        )
        statements = wire_statements(ports)
        self.executor = statements.executor
        self.endpoints = GatewayServices(
            sessions=self.sessions,
            executor=self.executor,
            jobs=statements.jobs,
            hooks=statements.hooks,
            names=statements.names,
            operations=OperationFinder(self.sessions, self.manager.requests, parts.engine.state.cluster_info),
            runs=self.manager.requests,
            info=ProductInfo(version=__version__),
            engine_trouble=parts.engine.state.trouble,
            engine_note=parts.engine.state.note,
            scheduler_trouble=self.scheduler_watch.trouble,
            published=PublishedWorkflows(parts.registry, parts.scheduler.identifier),
            plans=parts.plans,
        )

    def _keeping_streams(self, parts: Parts, tables: TableServices) -> TableServices:
        """Return *tables* with a keeper of those over streams, if there is an engine for these."""
        if parts.streams is None:
            return tables
        checkpoints = parts.streams.defaults.checkpoints
        stream = StreamKeeper(store=self.jobs, engine=parts.streams.engine, clock=parts.clock, checkpoints=checkpoints)
        assert isinstance(tables.keeper, Keepers)
        return replace(tables, keeper=tables.keeper.with_streams(stream))

    def _own_streams(self, parts: Parts) -> Streams | None:
        """Return what carries detached jobs out, None without an engine for them."""
        streams = parts.streams
        if streams is None:
            return None

        def ready() -> bool:
            try:
                return parts.statements.wait_ready(0)
            except EngineUnavailable:
                return False

        owner = StreamOwner(
            self.jobs, streams.engine, clock=parts.clock, ready=ready, most_running=streams.most_running
        )
        return Streams(engine=streams.engine, owner=owner, defaults=streams.defaults)

    def scheduler_context(
        self, gateway_url: str, *, options: Mapping[str, str] | None = None, token: str = ""
    ) -> SchedulerContext:
        """Return the context that opens the scheduler; its options have their defaults unless *options* has them."""
        defaults = {option.key: option.default or "" for option in self._parts.scheduler.options}
        return SchedulerContext(
            options={**defaults, **(options or {})},
            definitions=self._parts.registry.definitions,
            clock=self._parts.clock,
            gateway_url=gateway_url,
            token=token,
        )


def _new_id() -> str:
    return str(uuid.uuid4())


def wire_tables(
    registry: Registry,
    engine: RefreshEngine,
    scheduler: WorkflowScheduler,
    settings: ManagerSettings,
    clock: Clock,
    new_id: Callable[[], str] = _new_id,
) -> TableServices:
    """Return the services of commands on materialized tables, over one signal."""
    signal = Signal()
    fresh_at: dict[str, datetime] = {}
    # Without an engine for streams, the look-out refuses the tables over streams.
    change = ChangeKeeper(fresh_at)
    return TableServices(
        registry=registry,
        engine=engine,
        keeper=Keepers(
            {KeeperKind.STREAM: change, KeeperKind.WORKFLOW: WorkflowKeeper(scheduler), KeeperKind.CHANGE: change}
        ),
        settings=settings,
        clock=clock,
        ledger=Ledger(registry, settings, new_id, clock),
        intents=Intents(registry, settings, signal),
        new_id=new_id,
        signal=signal,
        fresh_at=fresh_at,
    )
