"""A complete gateway in this process: it starts the services in order, runs background loops, and stops them.

Each step of the start relies on the steps before it. The lease is acquired first, because only the gateway
that holds it may change the registry. A registry of an earlier release is migrated next. Then the jobs that
an earlier gateway left unfinished are settled, before a request can see them. The HTTP server serves requests
before Spark is ready, which takes up to half a minute. Meanwhile statements wait for Spark, and accepted
refreshes are queued in the ledger. Workers, the reconciler and maintenance start only when Spark is ready.

Stopping proceeds in the reverse order. The gateway refuses new work, lets running publishes finish within
`DRAIN_S`, then stops Spark and releases the lease and the registry. Every step of `stop` runs even if an
earlier one fails, and at any stage of the start. A killed gateway skips all of this, so correctness must not
depend on it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial

from mt_core.app.configured_services import ConfiguredServices
from mt_core.app.home import Home
from mt_core.app.lease import RegistryLease, lease_of
from mt_core.app.settings import (
    EMBEDDED_KEY,
    api_versions,
    check_exposure,
    page_base,
    page_url,
    scheduler_options,
)
from mt_core.app.spark_parts import SparkParts
from mt_core.app.tokens import gateway_tokens
from mt_core.base.background import BackgroundLoop, LoopState, start_thread
from mt_core.clock import SystemClock
from mt_core.config import Config
from mt_core.errors import MtError
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen, listen_at
from mt_core.gateway.page.page import PREFIX
from mt_core.jobs.remaining_work import remaining_work
from mt_core.registry.store import SqlRegistry
from mt_core.spark.driver.java import check_java
from mt_core.tables.continuous.workers import ContinuousWorkers
from mt_core.tables.overview.hours import LOOK_EVERY
from mt_core.tables.refresh.workers import Watch, Workers
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices
from mt_core.tables.upkeep.check import check_tables
from mt_core.tables.upkeep.maintenance import maintain
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.tables.workflows.handover import take_over_tables
from mt_core.workflow.loader import load_scheduler
from mt_core.workflow.scheduler import SchedulerContext, WorkflowScheduler

log = logging.getLogger(__name__)
RECONCILE_EVERY = timedelta(seconds=30)
MAINTAIN_EVERY = timedelta(hours=1)
EXPIRE_KEY = "sql-gateway.session.check-interval"
HOOKS_EVERY = timedelta(seconds=1)
CHECK_EVERY = timedelta(minutes=1)
# How long workers that may be publishing have to finish, in total, and how long the loops then have to end
# their current passes.
DRAIN_S, PASS_END_S = 30.0, 10.0
SPARK_START_S = 300.0


class Gateway:
    """A gateway built from a configuration. `start` returns when it serves requests, before Spark is ready.

    `on_lost` is called with the error if the gateway loses its lease of the registry and must end.
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
        self._registry = SqlRegistry.open(config.registry_url.reveal(), migrate=False)
        self._spark = SparkParts(config, home, environ, self._registry, on_launch=self._note_jvm)
        scheduler = load_scheduler(config.text("workflow-scheduler.type"))
        self._scheduler, self._scheduler_options = scheduler(), scheduler_options(config, scheduler)
        self._tokens = gateway_tokens(config.tokens, home.token)
        self._services = ConfiguredServices(
            config, self._registry, self._spark, self._scheduler, self._clock, watch=watch
        )
        self._work, self._tables = self._services.work, self._services.work.services
        self._job_store, self._owner = self._services.jobs, self._services.streams.streams.owner
        self._page_url = page_url(config)
        self._server = self._listening(config)
        lease = lease_of(self._tables.settings.owner, self.url)
        self._lease = RegistryLease(self._registry, lease, clock=self._clock, on_lost=on_lost)
        self._configuration = {key: text for key, text, _source in config.rows()}
        self._expiry = self._loop(
            "sessions", config.duration(EXPIRE_KEY), self._services.sessions.expire_idle
        )
        self._jobs = self._loop("jobs", RECONCILE_EVERY, self._settle_jobs)
        self._hooks = self._loop("job hooks", HOOKS_EVERY, self._job_store.calls.call_due)
        self._reconciler = self._loop(
            "reconciler", RECONCILE_EVERY, partial(self._upkeep, reconcile, "reconciled")
        )
        self._check = self._loop("check", CHECK_EVERY, partial(self._upkeep, check_tables, "checked"))
        self._scheduler_loop = self._loop("scheduler", RECONCILE_EVERY, self._work.scheduler_watch.poll)
        self._maintenance = self._loop("maintenance", MAINTAIN_EVERY, self._maintain)
        # The loop has no period, because the owner of detached jobs itself waits for its next pass.
        self._stream_loop = BackgroundLoop("streams", self._owner.watch, clock=self._clock)
        self._loops.append(self._stream_loop)
        # The overview itself waits as well, for the next event.
        self._overview_loop = BackgroundLoop("overview", self._tables.overview.keep_up, clock=self._clock)
        self._loops.append(self._overview_loop)
        self._hours_loop = self._loop("hours of freshness", LOOK_EVERY, self._work.hours.look)
        self._metric_loops = self._measuring()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def page_url(self) -> str | None:
        """The URL of the page for browsers, None if the gateway serves no page."""
        return None if self._page_url is None else f"{self._page_url or self.url + PREFIX}/"

    def remaining_work(self) -> str:
        """Describe the work that continues without clients. The text is empty if there is none."""
        return in_transaction(self._registry, remaining_work)

    def start(self, interrupt: threading.Event | None = None) -> None:
        """Start serving requests and the scheduler. Spark starts in the background, and runs wait for it.

        This first waits until another gateway's lease of the registry has ended, or until *interrupt* is set.
        Raises RegistryInUse if that gateway is alive.
        """
        if not self._lease.take(interrupt or threading.Event()):
            return
        # A migration may take longer than the lease, and the renewal would wait for it.
        self._registry.migrate(self._lease.hold)
        self._lease.start()
        if self._services.metrics is not None:
            self._services.metrics.start()
        for loop in self._metric_loops:
            loop.start()
        self._tables.events.start()
        self._overview_loop.start()
        self._hours_loop.start()
        # This must precede the first request, because a table of a scheduler that is not configured can be
        # neither altered nor dropped.
        for line in take_over_tables(self._tables):
            log.info("%s", line, extra={"action": "scheduler_changed"})
        # Fail orphaned jobs before the first request can see them.
        self._jobs.attempt()
        # Clients read the address from the home folder before they send its token. The driver later adds its
        # JVM.
        self._home.note(url=self.url, jvm_pid=None)
        self._spark.start(self._job_store.jars())
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
        self._spark.catalogs.load()
        self._expiry.start()

    def wait_ready(self) -> None:
        """Wait until Spark is ready, settle what the last process left unfinished, and start the workers."""
        while not self._spark.driver.wait_ready(SPARK_START_S):
            log.warning("spark is not ready yet", extra={"action": "spark_late"})
        self._reconciler.attempt()
        self._work.workers.start()
        self._work.continuous.start()
        self._reconciler.start()
        self._maintenance.start()
        self._check.start()
        if self._page_url is not None:
            # A download may take minutes, or wait for a network that does not answer.
            start_thread("libraries of the page", self._spark.fetch_libraries)

    def stop(self) -> None:
        """Refuse new work, let running publishes finish, and release everything.

        May be called at any stage of the start.
        """
        for loop in self._loops:
            loop.end()
        self._tables.overview.end()
        self._work.workers.end()
        self._work.continuous.end()
        # Steps run in reverse order, each even if another one failed. The error is raised at the end.
        with ExitStack() as steps:
            steps.callback(self._home.note, url=None, jvm_pid=None)
            steps.callback(self._registry.close)
            steps.callback(self._lease.release)
            steps.callback(self._work.hours.flush)
            steps.callback(self._tables.events.stop, PASS_END_S)
            steps.callback(self._join)
            steps.callback(self._spark.driver.stop)
            steps.callback(self._owner.close)
            steps.callback(drain, self._work.continuous, self._work.workers)
            steps.callback(self._server.stop)
            steps.callback(self._services.statements.executor.close)
            steps.callback(self._services.sessions.close_all)
            steps.callback(close_scheduler, self._scheduler, self._reconciler, self._scheduler_loop)

    def _note_jvm(self, pid: int) -> None:
        self._home.note(url=self.url, jvm_pid=pid)

    def _listening(self, config: Config) -> GatewayServer:
        hosts = config.names("sql-gateway.security.allowed-hosts")
        endpoints = replace(
            self._services.endpoints,
            facts=replace(self._services.endpoints.facts, loops=self._loop_states),
            tokens=self._tokens,
            hosts=hosts,
            versions=api_versions(config),
            page_base=page_base(config),
            page_url=self._page_url or "",
            engine_trouble=lambda: self._lease.trouble() or self._spark.engine.state.trouble(),
        )
        if config.boolean(EMBEDDED_KEY):
            # This is safe without a token: other users cannot open the folder, and this process has locked
            # it.
            app = build_app(replace(endpoints, remaining_work=self.remaining_work))
            return GatewayServer(app, listen_at(self._home.socket))
        address = config.text("sql-gateway.endpoint.rest.address")
        return GatewayServer(
            build_app(endpoints), listen(address, config.integer("sql-gateway.endpoint.rest.port"))
        )

    # -------------------------------------------------------------------------------------------------- loops

    def _loop(self, name: str, every: timedelta, work: Callable[[], object]) -> BackgroundLoop:
        """Return a loop that ends with the gateway. If *every* is zero, it never starts."""
        loop = BackgroundLoop(name, work, clock=self._clock, every=every)
        self._loops.append(loop)
        if not every:
            loop.end()
        return loop

    def _measuring(self) -> list[BackgroundLoop]:
        """Let metrics read the state of this gateway, and return the loops that read more for them."""
        metrics = self._services.metrics
        if metrics is None:
            return []
        metrics.work.read_lease(lambda: self._lease.expires_at)
        metrics.work.read_loops(self._loop_states, self._services.endpoints.facts.started_at)
        return [
            self._loop("backlog", metrics.backlog.every, metrics.backlog.read),
            self._loop("spark workload", metrics.spark.every, metrics.spark.read),
        ]

    def _loop_states(self) -> list[LoopState]:
        return [loop.state for loop in self._loops if not loop.ending.is_set()]

    def _join(self) -> None:
        """Wait for running passes to end, because they need the registry, which is closed next."""
        deadline = time.monotonic() + PASS_END_S
        for loop in self._loops:
            if not loop.join(max(0.0, deadline - time.monotonic())):
                log.warning(
                    "%s is still running", loop.name, extra={"action": "pass_left", "work": loop.name}
                )

    def _settle_jobs(self) -> None:
        """End or take over the jobs of gateways that have ended, and log each of them."""
        for line in self._job_store.settle():
            log.info("%s", line, extra={"action": "job_ended"})

    def _maintain(self) -> None:
        self._owner.forget_old()
        self._job_store.forget_old()
        self._upkeep(maintain, "maintained")

    def _upkeep(self, pass_over: Callable[[TableServices], list[str]], action: str) -> None:
        """Run one pass over the tables and log each change as *action*. The next pass retries failures."""
        for line in pass_over(self._tables):
            log.info("%s", line, extra={"action": action})


def close_scheduler(scheduler: WorkflowScheduler, *users: BackgroundLoop) -> None:
    """Close the scheduler after the loops in *users*, which call it, have ended, or after `PASS_END_S`."""
    deadline = time.monotonic() + PASS_END_S
    for user in users:
        user.join(max(0.0, deadline - time.monotonic()))
    scheduler.close()


def drain(*workers: ContinuousWorkers | Workers) -> None:
    """Let running batches and runs finish within `DRAIN_S` in total."""
    deadline = time.monotonic() + DRAIN_S
    for each in workers:
        each.stop(max(0.0, deadline - time.monotonic()))
