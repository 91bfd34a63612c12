"""What do the facts about 10,000 tables cost, with a ledger of a million runs, and whom do they delay?

The registry is on SQLite and on PostgreSQL. It is filled as release 0.1.0 left it, and migrated.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from tempfile import TemporaryDirectory

from benchmarks.filled_registry import SOURCE, Filling, fill, plain_tables
from benchmarks.pages import PAGES, POLL_EVERY_S, ROUNDS, ROWS, SHOWS, Pages, pages
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show, timed
from mt_core.app.serve import freeze_startup_objects, share_interpreter
from mt_core.base.background import BackgroundLoop
from mt_core.clock import SystemClock
from mt_core.model.run import RunKind, RunStatus
from mt_core.model.table import MaterializedTable
from mt_core.registry.store import SqlRegistry
from mt_core.registry.turns import Turns
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.runs.decide import SKIP
from mt_core.tables.services import storage_spec
from mt_core.tables.settings import InitialRefresh, ManagerSettings
from mt_core.tables.table_commands import RefreshRequest
from mt_core.workflow.loader import load_scheduler
from tests.postgres import temporary_postgres
from tests.support.fake_engine import FakeEngine
from tests.support.gateway.wired import STOP_S, FakeParts, WiredGateway

MIGRATED_S, BUILT_S, SHOWN_S = 60.0, 15.0, 2.0
FIRST_S, UNCHANGED_S, SEARCH_S, TURN_S = 0.050, 0.002, 0.030, 0.005
CLAIM_RATIO, CLAIM_S, SKIP_S, SCRAPE_S = 1.2, 0.002, 0.0004, 0.150
CLAIMS, CLAIMS_PER_TURN = 5_000, 500
SCRAPES, MOST_SERIES = 20, 1_000_000
SKIPS, SKIPS_PER_TURN, SETTLE_S = 1_000, 100, 1.5
WARM_UP = 20
SCHEDULER = "memory"
TEXT, OPENMETRICS = "", "application/openmetrics-text"
# The threads that renew leases, which take turns without anybody looking at tables.
LEASES = frozenset({"gateway-lease", "gateway-lease-watch", "refresh-leases"})


def measure(filling: Filling) -> Iterator[Finding]:
    """Yield a table for each database."""
    with TemporaryDirectory(prefix="freshtable-bench-") as folder:
        yield _measured("SQLite", f"sqlite:///{folder}/registry.db", filling)
    with temporary_postgres() as url:
        yield _measured("PostgreSQL", url, filling)


@dataclass(frozen=True, slots=True)
class Report:
    """The rows and targets of a table, to which each measurement adds its own."""

    rows: list[list[str]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    def fact(self, name: str, value: str) -> None:
        self.rows.append([name, value])

    def goal(self, name: str, seconds: float, at_most: float, value: str | None = None) -> None:
        """Add a value that should be at most *at_most* seconds."""
        self.fact(name, value or show(seconds))
        asked = f"at most {_exact(at_most)}"
        self.targets.append(
            Target(asked=asked, measured=f"{name}: {_exact(seconds)}", met=seconds <= at_most)
        )

    def samples(self, name: str, samples: Samples, at_most: float) -> None:
        """Add times of which the median should be at most *at_most* seconds."""
        shown = f"{samples.shown()}, p99 {_exact(samples.percentile(99))}"
        self.goal(f"{name}, p50", samples.median, at_most, shown)


def _measured(database: str, url: str, filling: Filling) -> Finding:
    report = Report()
    report.fact("the ledger was filled in", show(timed(lambda: fill(url, filling))))
    report.goal(
        "migration of the registry of 0.1.0", timed(lambda: SqlRegistry.open(url).close()), MIGRATED_S
    )
    with _gateway(url) as gateway:
        _build(report, gateway)
        _scrape(report, gateway)
        gateway.keep_up()
        with pages(gateway.url) as clients:
            _look(report, gateway, clients, filling)
            _claims(report, gateway, clients)
        _skips(report, gateway)
    return Finding(
        title=f"{database}: {filling.name}",
        columns=["", "value"],
        rows=report.rows,
        targets=report.targets,
        notes=[
            f"Scrapes: {SCRAPES} of each kind, in processor time, after the first one.",
            f"Pages: {ROUNDS} rounds of requests on one connection, from another process; SHOW: {SHOWS} "
            "statements with all their rows. Spark is a fake that has nothing to do.",
            f"Claims: {CLAIMS:,} with {PAGES} pages that poll every {show(POLL_EVERY_S)}, and as many "
            f"without, in turns of {CLAIMS_PER_TURN}. Each claim changes the overview.",
            f"Skipped refreshes: {SKIPS:,} with events and {SKIPS:,} without, in turns of {SKIPS_PER_TURN}; "
            "processor time of the whole process, with what the overview reads afterwards.",
        ],
    )


# -------------------------------------------------------------------------------------------- the gateway


class MeasuredTurns(Turns):
    """Records for how long each turn was held, in the order of the turns, by the name of the thread."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, list[float]] = {}

    @contextmanager
    def take(self, timeout_s: float, what: str) -> Iterator[None]:
        with super().take(timeout_s, what):
            begun = time.perf_counter()
            try:
                yield
            finally:
                seconds = time.perf_counter() - begun
                self.held.setdefault(threading.current_thread().name, []).append(seconds)


class FilledGateway(WiredGateway):
    """A gateway with a fake Spark on a filled registry. Runs are only carried out by its caller."""

    def __init__(self, url: str) -> None:
        self.turns, self.engine = MeasuredTurns(), FakeEngine()
        self.engine.create_source(SOURCE, [{"ds": "2026-03-01", "amount": 1}])
        registry = SqlRegistry.open(url)
        registry._turns = self.turns
        settings = ManagerSettings(
            owner=str(uuid.uuid4()), scheduler_type=SCHEDULER, initial_refresh=InitialRefresh.NONE
        )
        parts = FakeParts(
            registry=registry,
            engine=self.engine,
            scheduler=load_scheduler(SCHEDULER)(),
            settings=settings,
            clock=SystemClock(),
            refresh_threads=0,
        )
        super().__init__(parts, most_series=MOST_SERIES)
        self._overview_loop = BackgroundLoop("overview", self.tables.overview.keep_up, clock=parts.clock)

    def keep_up(self) -> None:
        """Let the overview follow the registry, as the application does from the start."""
        self._overview_loop.start()

    def stop(self) -> None:
        self._overview_loop.end()
        self.tables.overview.end()
        self._overview_loop.join(STOP_S)
        super().stop()


@contextmanager
def _gateway(url: str) -> Iterator[FilledGateway]:
    gateway = FilledGateway(url)
    # The storage of a real engine outlives the process. The fake reads the names of all that it has.
    gateway.engine.create_storage(storage_spec(_plain_tables(gateway)[0]))
    gateway.start()
    freeze_startup_objects()
    share_interpreter()
    try:
        yield gateway
    finally:
        gateway.stop()


# ------------------------------------------------------------------------------------------ the measurements


def _build(report: Report, gateway: FilledGateway) -> None:
    overview, begun = gateway.tables.overview, time.process_time()

    def build() -> None:
        overview.catch_up()
        overview.facts(overview.now())

    seconds = timed(build)
    processor_s = time.process_time() - begun
    report.goal("the overview is built", seconds, BUILT_S)
    report.fact("processor time of that", show(processor_s))
    report.fact("the facts of all tables a moment later", show(timed(lambda: overview.facts(overview.now()))))


def _scrape(report: Report, gateway: FilledGateway) -> None:
    """Scrape the metrics, with series of all tables."""
    first = _processor_s(lambda: gateway.metrics.answer(TEXT))
    report.goal("processor time of the first scrape of the metrics", first, SCRAPE_S)
    for name, accept in (("text", TEXT), ("OpenMetrics", OPENMETRICS)):
        scrape = partial(gateway.metrics.answer, accept)
        taken = Samples([_processor_s(scrape) for _ in range(SCRAPES)])
        report.samples(f"processor time of a scrape as {name}", taken, SCRAPE_S)


def _processor_s(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _look(report: Report, gateway: FilledGateway, clients: Pages, filling: Filling) -> None:
    """Look at pages and statements, and at the turns that are held meanwhile."""
    gateway.turns.held.clear()
    taken = {name: Samples(seconds) for name, seconds in clients.times().items()}
    report.samples(f"the first {ROWS} of {filling.tables:,} tables, JSON", taken["first"], FIRST_S)
    report.samples("the late tables, JSON", taken["late"], FIRST_S)
    report.samples("a poll, nothing has changed, JSON", taken["unchanged"], UNCHANGED_S)
    report.samples("a search, JSON", taken["search"], SEARCH_S)
    report.samples(f"the page with the first {ROWS} of {filling.tables:,} tables", taken["view"], FIRST_S)
    report.samples("the page with the late tables", taken["late view"], FIRST_S)
    report.samples("a poll of the page, nothing has changed", taken["unchanged view"], UNCHANGED_S)
    report.samples("a search on the page", taken["view search"], SEARCH_S)
    report.samples("SHOW MATERIALIZED TABLES", Samples(clients.shows()), SHOWN_S)
    held = {name: seconds for name, seconds in gateway.turns.held.items() if name not in LEASES}
    turns = Samples([0.0, *(each for seconds in held.values() for each in seconds)])
    report.fact("turns of the registry that they take", f"{len(turns.seconds) - 1}")
    report.goal("the longest of these turns", turns.worst, TURN_S)


def _claims(report: Report, gateway: FilledGateway, clients: Pages) -> None:
    tables = _plain_tables(gateway)
    taken: Mapping[bool, list[float]] = {False: [], True: []}
    answers = 0
    _claim(gateway, tables, WARM_UP)
    for turn in range(2 * CLAIMS // CLAIMS_PER_TURN):
        with_pages = turn % 2 == 1
        if with_pages:
            before = clients.poll()
        taken[with_pages] += _claim(gateway, tables, CLAIMS_PER_TURN)
        if with_pages:
            answers += clients.rest() - before
    alone, beside = Samples(taken[False]), Samples(taken[True])
    report.fact("a claim, no page polls", _spread(alone))
    report.fact(f"a claim, {PAGES} pages poll", f"{_spread(beside)} ({answers} answers)")
    p99, most = beside.percentile(99), alone.percentile(99)
    report.goal("p99 of a claim beside pages", p99, max(CLAIM_RATIO * most, most + CLAIM_S))


def _claim(gateway: FilledGateway, tables: Sequence[MaterializedTable], count: int) -> list[float]:
    """Request, claim and end *count* runs, and return how long the claims take."""
    ledger, services, taken = gateway.tables.ledger, gateway.tables, []
    for number in range(count):
        table = tables[number % len(tables)]

        def request(tx: Transaction, table: MaterializedTable = table) -> None:
            run = services.new_run(table, RunKind.MANUAL, tx.now(), requested_by=None)
            ledger.request_in(tx, table, run)

        in_transaction(gateway.registry, request)
        begun = time.perf_counter()
        claimed = ledger.claim()
        taken.append(time.perf_counter() - begun)
        assert claimed is not None
        ledger.end(claimed, RunStatus.CANCELED, {})
    return taken


def _skips(report: Report, gateway: FilledGateway) -> None:
    table = _plain_tables(gateway)[0]
    listener = gateway.registry.on_commit
    assert listener is not None
    taken: Mapping[bool, list[float]] = {False: [], True: []}
    for _ in range(WARM_UP):
        _refresh(gateway, table)
    for turn in range(2 * SKIPS // SKIPS_PER_TURN):
        with_events = turn % 2 == 1
        gateway.registry.on_commit = listener if with_events else None
        begun = time.process_time()
        for _ in range(SKIPS_PER_TURN):
            assert _refresh(gateway, table) == SKIP
        time.sleep(SETTLE_S)
        taken[with_events].append((time.process_time() - begun) / SKIPS_PER_TURN)
    gateway.registry.on_commit = listener
    without, with_events_s = Samples(taken[False]), Samples(taken[True])
    report.fact("processor time of a skipped refresh, without events", without.shown())
    report.fact("processor time of a skipped refresh, with events", with_events_s.shown())
    report.goal("events add to a skipped refresh", with_events_s.median - without.median, SKIP_S)


def _refresh(gateway: FilledGateway, table: MaterializedTable) -> str | None:
    """Refresh *table* as a scheduler does, and return the decision."""
    request = RefreshRequest(
        identifier_text=str(table.identifier),
        is_periodic=True,
        schedule_time=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    )
    run = gateway.work.manager.requests.request_refresh(request)
    assert gateway.work.workers.run_next()
    ended = gateway.work.manager.requests.run(run.run_id)
    return None if ended is None else ended.decision


def _plain_tables(gateway: FilledGateway) -> list[MaterializedTable]:
    with gateway.registry.reading() as tx:
        return list(tx.tables.with_names(plain_tables(100)))


def _spread(samples: Samples) -> str:
    return (
        f"p50 {_exact(samples.median)}, p99 {_exact(samples.percentile(99))}, worst {_exact(samples.worst)}"
    )


def _exact(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if abs(seconds) < 0.01 else show(seconds)
