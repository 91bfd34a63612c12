"""A manager over real Spark and Iceberg: fake clock and scheduler, runs carried out in the calling thread."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mt_core.app.table_wiring import wire_tables
from mt_core.base.identifiers import quote
from mt_core.model.formatter import show_schedule_time
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.refresh.engine import spark_engine
from mt_core.sql.parser import parse
from mt_core.tables.engine import Query, SourceVector
from mt_core.tables.manager import TableManager
from mt_core.tables.refresh.attempt import Attempt
from mt_core.tables.refresh.step_times import Steps
from mt_core.tables.registry import Registry, in_transaction
from mt_core.tables.services import query_of
from mt_core.tables.settings import InitialRefresh, ManagerSettings
from mt_core.tables.table_commands import CommandContext, CommandOutcome, RefreshRequest
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_scheduler import FakeScheduler
from tests.support.listing import paths_below
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_steps import begin_process

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Row = tuple[object, ...]
_numbers = itertools.count(1)
_WITH_ID = re.compile(r"-[0-9a-f-]{32,36}$")


class RefreshWorld:
    """One namespace of the catalog `lake` with everything the manager works with.

    Names without a catalog are its own.
    """

    def __init__(
        self,
        driver: SparkDriver,
        *,
        registry: Registry | None = None,
        initial_refresh: InitialRefresh = InitialRefresh.ON_CREATE,
    ) -> None:
        self.namespace = f"world_{next(_numbers)}"
        # Each catalog has its tables in its own warehouse.
        self.folder = Path(driver.settings.warehouse.removeprefix("file:")) / self.namespace
        self.clock = FakeClock(START)
        self.contexts = SparkContexts(driver)
        self.engine = spark_engine(self.contexts)
        self.scheduler = FakeScheduler()
        self.registry = registry or MemoryRegistry(self.clock)
        self.context = CommandContext(catalog="lake", namespace=(self.namespace,))
        self.session = driver.new_session()
        self.session.conf.set("spark.sql.session.timeZone", "UTC")
        self.session.sql(f"CREATE NAMESPACE lake.{self.namespace}")
        self.session.sql(f"USE lake.{self.namespace}")
        settings = ManagerSettings(
            owner="test",
            scheduler_type="fake",
            initial_refresh=initial_refresh,
            intent_wait_s=0.0,
            alter_wait_s=0.0,
            drop_wait_s=0.0,
        )
        begin_process(self.registry, settings.owner)
        self.services = wire_tables(self.registry, self.engine, self.scheduler, settings, self.clock)
        self.ledger, self.signal = self.services.ledger, self.services.signal
        self.manager = TableManager(self.services)

    # --------------------------------------------------------------------------------------------- statements

    def spark(self, *texts: str) -> None:
        """Execute statements in plain Spark, as another user does."""
        for text in texts:
            self.session.sql(text)

    def plain(self, query: str) -> list[Row]:
        """Return the rows of a query as plain Spark gives them now, in order."""
        return in_order(tuple(row) for row in self.session.sql(query).collect())

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Return names and types of a stored table."""
        return [
            (field.name, field.dataType.simpleString()) for field in self.session.table(quote(name)).schema
        ]

    def sql(self, text: str) -> CommandOutcome:
        """Execute one statement of ours, without waiting for runs."""
        statement = parse(text)
        assert statement is not None, f"not a statement of ours: {text}"
        return self.manager.execute(statement, self.context)

    def context_with(self, properties: dict[str, str]) -> CommandContext:
        """Return the context of a session with *properties*."""
        return replace(self.context, properties=properties)

    def text(self, text: str) -> str:
        """Return the one value that a statement answers."""
        rows = self.sql(text).rows
        assert rows is not None
        return str(rows.page(0, 1)[0][0])

    def refused(self, text: str, error: type[Exception]) -> str:
        """Return the message of the *error* that the statement must raise, with nothing changed anywhere."""
        before = self.state()
        try:
            self.sql(text)
        except error as raised:
            assert self.state() == before
            return str(raised)
        raise AssertionError(f"{error.__name__} was not raised by {text}")

    def state(self) -> list[object]:
        """Return all that a refused statement must leave as it was."""
        tables = in_transaction(self.registry, lambda tx: list(tx.tables.page()))
        runs = in_transaction(self.registry, lambda tx: list(tx.runs.newest()))
        return [tables, runs, dict(self.scheduler.workflows), self.plain("SHOW TABLES"), self.files()]

    def files(self) -> list[str]:
        """Return the files of this namespace in folders with an id in their name, unlike those of sources."""
        paths = [path.relative_to(self.folder) for path in paths_below(self.folder) if path.is_file()]
        return sorted(str(path) for path in paths if _WITH_ID.search(path.parts[0]))

    def create(self, name: str, query: str, *, clauses: str = "", freshness: str = "'1' DAY") -> RefreshRun:
        """Create a table in FULL mode and return its first run, finished."""
        text = (
            f"CREATE MATERIALIZED TABLE {name} {clauses} FRESHNESS = INTERVAL {freshness} "
            f"REFRESH_MODE = FULL AS {query}"
        )
        outcome = self.sql(text)
        assert outcome.wait_for is not None
        self.work()
        return self.run(outcome.wait_for)

    def table(self, name: str) -> MaterializedTable:
        return self.services.intents.current(TableIdentifier("lake", (self.namespace,), name))

    def rows(self, name: str) -> list[Row]:
        """Return what a reader of the table sees, in order."""
        return self.plain(f"SELECT * FROM {quote(name)}")

    def vector(self, name: str) -> SourceVector:
        """Return what a refresh of the table would read now."""
        return self.engine.sources.read_vector(query_of(self.table(name).definition))

    def vector_of(self, text: str) -> SourceVector:
        """Return what a query would read now."""
        return self.engine.sources.read_vector(Query(text=text, catalog="lake", namespace=(self.namespace,)))

    # --------------------------------------------------------------------------------------------------- runs

    def request(self, name: str, **spec: str) -> str:
        """Queue a refresh by hand, of the whole table or of the partitions of *spec*; return its run id."""
        return self.manager.requests.request_manual(self.table(name).identifier, spec, {}).run_id

    def refresh(self, name: str, **spec: str) -> RefreshRun:
        """Refresh by hand and return the finished run."""
        run_id = self.request(name, **spec)
        self.work()
        return self.run(run_id)

    def tick(self, name: str, point: datetime | None = None) -> RefreshRun:
        """Send the periodic request of a grid point (the next one, to which the clock moves), carry it out,
        return the run.
        """
        run_id = self.request_tick(name, point or self.next_point())
        self.work()
        return self.run(run_id)

    def next_point(self) -> datetime:
        """Move the clock to the next grid point."""
        point = _midnight_after(self.clock.now())
        self.clock.advance(point - self.clock.now())
        return point

    def request_tick(self, name: str, point: datetime) -> str:
        """Send the periodic request of a grid point, as a scheduler does; return the run id."""
        table = self.table(name)
        request = RefreshRequest(
            identifier_text=str(table.identifier),
            is_periodic=True,
            schedule_time=show_schedule_time(point, table.definition.zone),
            request_key=f"{table.table_id}/{point.isoformat()}",
            table_id=table.table_id,
        )
        return self.manager.requests.request_refresh(request).run_id

    def on_end(self, _status: RunStatus | None) -> None:
        self.signal.set()

    def attempt(self) -> Steps:
        """Claim the next run and return its steps, to be driven one by one."""
        claimed = self.ledger.claim()
        assert claimed is not None
        return Attempt(claimed, ledger=self.ledger, engine=self.engine, on_end=self.on_end).steps()

    def work(self, *, before: str = "", do: Callable[[], object] | None = None) -> None:
        """Carry out queued runs until there are none; *do* happens once,
        just before the first step *before*.
        """
        while (claimed := self.ledger.claim()) is not None:
            for step in Attempt(claimed, ledger=self.ledger, engine=self.engine, on_end=self.on_end).steps():
                if do is not None and step == before:
                    once, do = do, None
                    once()
        assert do is None, f"no run came to the step {before}"

    def run(self, run_id: str) -> RefreshRun:
        """Return a run as its requester sees it."""
        run = self.ledger.shown(run_id)
        assert run is not None
        return run

    def runs(self, name: str) -> list[RefreshRun]:
        """Return the ledger of a table, oldest first."""
        table_id = self.table(name).table_id
        return list(
            reversed(in_transaction(self.registry, lambda tx: list(tx.runs.newest(table_id=table_id))))
        )


@pytest.fixture
def world(spark_driver: SparkDriver) -> RefreshWorld:
    """A namespace of the test's own."""
    return RefreshWorld(spark_driver)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows in one order, whatever their values are."""
    return sorted(rows, key=repr)


def _midnight_after(instant: datetime) -> datetime:
    return instant.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
