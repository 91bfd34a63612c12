"""A whole gateway in this process: everything wired, started in order, stopped in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial

from mt_core.app.endpoint_wiring import wire_endpoints
from mt_core.app.home import Home
from mt_core.app.lease import RegistryLease, lease_of
from mt_core.app.settings import (
    EMBEDDED_KEY,
    api_versions,
    check_exposure,
    driver_settings,
    job_hooks,
    manager_settings,
    scheduler_options,
    session_defaults,
    spools,
    stream_defaults,
)
from mt_core.app.statement_wiring import StatementPorts, StatementServices, wire_statements
from mt_core.app.stream_wiring import StreamPorts, StreamServices, wire_streams
from mt_core.app.table_wiring import TablePorts, TableWork, wire_table_work
from mt_core.app.tokens import gateway_tokens
from mt_core.base.background import BackgroundLoop
from mt_core.clock import SystemClock
from mt_core.config import Config
from mt_core.errors import MtError
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen, listen_at
from mt_core.jobs.remaining_work import remaining_work
from mt_core.jobs.store import JobStore
from mt_core.model.table import MaterializedTable
from mt_core.registry.store import SqlRegistry
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.sessions import SessionManager
from mt_core.spark.connectors.connector_tables import restore_tables
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import DriverSettings, catalog_names
from mt_core.spark.driver.java import check_java
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.files.jar_copies import JarCopies
from mt_core.spark.files.plan_files import StoredPlans
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.function_sync import FunctionSync
from mt_core.spark.functions.python_code import ModuleReader
from mt_core.spark.refresh.engine import spark_engine
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.spark.streams.engine import SparkStreams
from mt_core.tables.continuous.workers import ContinuousWorkers
from mt_core.tables.engine import SourceVector
from mt_core.tables.refresh.workers import Watch, Workers
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices, query_of
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.upkeep.check import check_tables
from mt_core.tables.upkeep.maintenance import maintain
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.tables.upkeep.registered import RegisteredTables
from mt_core.tables.workflows.handover import take_over_tables
from mt_core.workflow.loader import load_scheduler
from mt_core.workflow.scheduler import SchedulerContext, WorkflowScheduler

log = logging.getLogger(__name__)
RECONCILE_EVERY = timedelta(seconds=30)
MAINTAIN_EVERY = timedelta(hours=1)
FUNCTIONS_KEY = "sql-gateway.functions.enabled"
EXPIRE_KEY = "sql-gateway.session.check-interval"
HOOKS_EVERY = timedelta(seconds=1)
CHECK_EVERY = timedelta(minutes=1)
# How long all that publishes has, taken together, to finish; then the passes, whose ends were requested before that.
DRAIN_S, PASS_END_S = 30.0, 10.0
SPARK_START_S = 300.0


class Gateway:
    """Built from a configuration; after `start` it answers requests at once, while Spark is still starting.

    `on_lost` receives the error that ends the gateway: it could not keep its lease of the registry.
    """

    def __init__(
        self,
        config: Config,
        home: Home,
        environ: Mapping[str, str],
        *,
        watch: Watch | None = None,
        on_lost: Callable[[MtError], object] = lambda _error: None,
    ) -> None:
        check_exposure(config)
        check_java(environ)
        self._home, self._clock = home, SystemClock()
        self._loops: list[BackgroundLoop] = []
        self._registry = SqlRegistry.open(config.registry_url.reveal())
        self._connector_tables, self._jars = ConnectorTables(self._registry), JarCopies(home.jars)
        self._functions = CreatedFunctions(self._registry, self._read_now)
        self._function_files = FunctionFiles(home.functions)
        self._has_code = config.boolean(FUNCTIONS_KEY)
        self._driver = self._spark(driver_settings(config, home, environ))
        self._catalogs = CreatedCatalogs(self._registry, reserved=catalog_names(self._driver.settings))
        self._contexts = SparkContexts(self._driver, self._catalogs.settings)
        self._engine = spark_engine(self._contexts)
        self._statements = self._spark_statements(config)
        self._plans = StoredPlans(self._driver, home.sessions)
        scheduler = load_scheduler(config.text("workflow-scheduler.type"))
        self._scheduler, self._scheduler_options = scheduler(), scheduler_options(config, scheduler)
        self._tokens = gateway_tokens(config.tokens, home.token)
        settings = manager_settings(config)
        self._job_store = JobStore(
            self._registry,
            owner=settings.owner,
            clock=self._clock,
            history=config.duration("sql-gateway.job.history"),
            hooks=job_hooks(config),
        )
        self._sessions = self._session_manager(config)
        self._streams = self._wire_streams(config)
        self._work = self._wire_tables(config, settings, watch)
        self._tables, self._owner = self._work.services, self._streams.streams.owner
        self._served = self._wire_statements(config)
        self._server = self._listening(config)
        lease = lease_of(self._tables.settings.owner, self.url)
        self._lease = RegistryLease(self._registry, lease, clock=self._clock, on_lost=on_lost)
        self._configuration = {key: text for key, text, _source in config.rows()}
        self._expiry = self._loop("sessions", config.duration(EXPIRE_KEY), self._sessions.expire_idle)
        self._jobs = self._loop("jobs", RECONCILE_EVERY, self._settle_jobs)
        self._hooks = self._loop("job hooks", HOOKS_EVERY, self._job_store.calls.call_due)
        self._reconciler = self._loop("reconciler", RECONCILE_EVERY, partial(self._upkeep, reconcile, "reconciled"))
        self._check = self._loop("check", CHECK_EVERY, partial(self._upkeep, check_tables, "checked"))
        self._scheduler_loop = self._loop("scheduler", RECONCILE_EVERY, self._work.scheduler_watch.look)
        self._maintenance = self._loop("maintenance", MAINTAIN_EVERY, self._maintain)
        # The owner of detached jobs waits for its next pass itself.
        self._stream_loop = BackgroundLoop("streams", self._owner.watch, clock=self._clock)
        self._loops.append(self._stream_loop)

    @property
    def url(self) -> str:
        return self._server.url

    def remaining_work(self) -> str:
        """Return in words what goes on without clients; empty if nothing does."""
        return in_transaction(self._registry, remaining_work)

    def start(self, interrupt: threading.Event | None = None) -> None:
        """Answer requests and let the scheduler tick; Spark starts in the background, and accepted runs wait for it.

        First it waits for the end of another gateway's lease of the registry, or for *interrupt*; raises RegistryInUse.
        """
        if not self._lease.take(interrupt or threading.Event()):
            return
        self._lease.start()
        # Before the first request: a table of a scheduler that is not in use could be neither changed nor dropped.
        for line in take_over_tables(self._tables):
            log.info("%s", line, extra={"action": "scheduler_changed"})
        # Nobody is to see a job RUNNING whose gateway has ended.
        self._jobs.attempt()
        # Clients look there for the address whose token they may send; the driver adds its JVM.
        self._home.note(url=self.url, jvm_pid=None)
        self._jars.begin(self._job_store.jars())
        self._function_files.remove_unused(self._functions.needed())
        self._plans.begin()
        self._driver.start()
        self._server.start()
        token = self._tokens[-1].secret.reveal() if self._tokens else ""
        context = SchedulerContext(
            options=self._scheduler_options,
            definitions=self._registry.definitions,
            clock=self._clock,
            gateway_url=self.url,
            token=token,
            configuration=self._configuration,
        )
        self._scheduler.open(context)
        self._scheduler_loop.start()
        self._tables.ledger.recover()
        self._jobs.start()
        self._hooks.start()
        self._stream_loop.start()
        self._catalogs.load()
        self._expiry.start()

    def wait_ready(self) -> None:
        """Wait until Spark runs, then settle what the last process left, and start the workers."""
        while not self._driver.wait_ready(SPARK_START_S):
            log.warning("spark is not ready yet", extra={"action": "spark_late"})
        self._reconciler.attempt()
        self._work.workers.start()
        self._work.continuous.start()
        self._reconciler.start()
        self._maintenance.start()
        self._check.start()

    def stop(self) -> None:
        """Refuse new work, let running publishes finish, and release everything; harmless at any stage of the start."""
        for loop in self._loops:
            loop.end()
        self._work.workers.end()
        self._work.continuous.end()
        # Every step runs, even if one before it failed; the error is raised at the end.
        with ExitStack() as steps:
            steps.callback(self._home.note, url=None, jvm_pid=None)
            steps.callback(self._registry.close)
            steps.callback(self._lease.release)
            steps.callback(self._join)
            steps.callback(self._driver.stop)
            steps.callback(self._owner.close)
            steps.callback(drain, self._work.continuous, self._work.workers)
            steps.callback(self._server.stop)
            steps.callback(self._served.executor.close)
            steps.callback(self._sessions.close_all)
            steps.callback(close_scheduler, self._scheduler, self._reconciler, self._scheduler_loop)

    # ------------------------------------------------------------------------------------------------------- parts

    def _spark(self, settings: DriverSettings) -> SparkDriver:
        return SparkDriver(
            settings,
            functions=FunctionSync(
                self._functions.all,
                self._function_files,
                modules=ModuleReader(settings.environ),
                keep=self._functions.declare,
                has_code=self._has_code,
            ),
            on_launch=lambda pid: self._home.note(url=self.url, jvm_pid=pid),
            on_session=lambda session: restore_tables(self._driver, session, self._connector_tables.all().values()),
        )

    def _spark_statements(self, config: Config) -> SparkStatements:
        return SparkStatements(
            self._contexts,
            spools(config, self._home.results),
            tables=RegisteredTables(self._registry),
            connectors=self._connector_tables.all,
            jars=self._jars,
        )

    def _session_manager(self, config: Config) -> SessionManager:
        return SessionManager(
            engine=self._statements,
            clock=self._clock,
            defaults=session_defaults(config),
            idle_timeout=config.duration("sql-gateway.session.idle-timeout"),
            max_sessions=config.integer("sql-gateway.session.max-num"),
            on_close=self._plans.close_session,
        )

    def _wire_streams(self, config: Config) -> StreamServices:
        return wire_streams(
            StreamPorts(
                engine=SparkStreams(self._contexts, connectors=self._connector_tables.all, jars=self._jars),
                statements=self._statements,
                jobs=self._job_store,
                clock=self._clock,
                defaults=stream_defaults(config),
                # A stream that fails again and again has failed for good: without its functions it waits in place of that.
                most_running=config.integer("sql-gateway.job.max-concurrent") if self._has_code else 0,
            )
        )

    def _wire_tables(self, config: Config, settings: ManagerSettings, watch: Watch | None) -> TableWork:
        return wire_table_work(
            TablePorts(
                registry=self._registry,
                engine=self._engine,
                scheduler=self._scheduler,
                streams=self._streams.keeper,
                settings=settings,
                clock=self._clock,
                refresh_threads=config.integer("materialized-table.refresh.max-concurrent"),
                continuous_threads=config.integer("materialized-table.continuous.max-concurrent"),
            ),
            watch=watch,
        )

    def _wire_statements(self, config: Config) -> StatementServices:
        return wire_statements(
            StatementPorts(
                engine=self._statements,
                commands=self._work.manager,
                runs=self._work.manager.requests,
                clock=self._clock,
                cluster_info=self._engine.state.cluster_info,
                catalogs=self._catalogs,
                jobs=self._job_store,
                connector_tables=self._connector_tables,
                functions=self._functions,
                streams=self._streams.streams,
                plans=self._plans,
                threads=config.integer("sql-gateway.worker.threads.max"),
            )
        )

    def _read_now(self, table: MaterializedTable) -> SourceVector:
        return self._engine.sources.read_vector(query_of(table.definition))

    def _listening(self, config: Config) -> GatewayServer:
        hosts = config.names("sql-gateway.security.allowed-hosts")
        endpoints = replace(
            wire_endpoints(self._work, self._served, self._sessions, self._plans),
            tokens=self._tokens,
            hosts=hosts,
            versions=api_versions(config),
            engine_trouble=lambda: self._lease.trouble() or self._engine.state.trouble(),
        )
        if config.boolean(EMBEDDED_KEY):
            # The folder is closed to other users, and this process holds it.
            app = build_app(replace(endpoints, remaining_work=self.remaining_work))
            return GatewayServer(app, listen_at(self._home.socket))
        address = config.text("sql-gateway.endpoint.rest.address")
        return GatewayServer(build_app(endpoints), listen(address, config.integer("sql-gateway.endpoint.rest.port")))

    # -------------------------------------------------------------------------------------------------------- loops

    def _loop(self, name: str, every: timedelta, work: Callable[[], object]) -> BackgroundLoop:
        """Return a loop that ends with the gateway; one without a period never starts."""
        loop = BackgroundLoop(name, work, clock=self._clock, every=every)
        self._loops.append(loop)
        if not every:
            loop.end()
        return loop

    def _join(self) -> None:
        """Wait for the end of running passes: they need the registry, which is closed next."""
        deadline = time.monotonic() + PASS_END_S
        for loop in self._loops:
            if not loop.join(max(0.0, deadline - time.monotonic())):
                log.warning("%s is still at work", loop.name, extra={"action": "pass_left", "work": loop.name})

    def _settle_jobs(self) -> None:
        """End the jobs of gateways that have ended, and log each."""
        for line in self._job_store.settle():
            log.info("%s", line, extra={"action": "job_ended"})

    def _maintain(self) -> None:
        self._owner.forget_old()
        self._job_store.forget_old()
        self._upkeep(maintain, "maintained")

    def _upkeep(self, pass_over: Callable[[TableServices], list[str]], action: str) -> None:
        """Make one pass over the tables, and log each change as an event *action*; the next pass retries what failed."""
        for line in pass_over(self._tables):
            log.info("%s", line, extra={"action": action})


def close_scheduler(scheduler: WorkflowScheduler, *users: BackgroundLoop) -> None:
    """Close the scheduler once the passes of *users* have ended, which ask it, or after `PASS_END_S` in all."""
    deadline = time.monotonic() + PASS_END_S
    for user in users:
        user.join(max(0.0, deadline - time.monotonic()))
    scheduler.close()


def drain(*workers: ContinuousWorkers | Workers) -> None:
    """Let running batches and runs finish, for `DRAIN_S` in all."""
    deadline = time.monotonic() + DRAIN_S
    for each in workers:
        each.stop(max(0.0, deadline - time.monotonic()))
