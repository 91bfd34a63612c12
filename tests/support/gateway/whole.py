"""A complete gateway in this process, reached over real HTTP. Only Spark and time are fakes.

It can be killed and restarted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from starlette.types import ASGIApp

from mt_core.base.rowset import Column, RowSet
from mt_core.client.http import GatewayClient, ResultPage
from mt_core.errors import GatewayError
from mt_core.gateway.services import GatewayServices
from mt_core.model.job import JobStatus
from mt_core.model.reservation import Reservation
from mt_core.model.run import OPEN
from mt_core.model.stream import StreamState
from mt_core.model.table import TableIdentifier
from mt_core.registry.store import SqlRegistry
from mt_core.sessions.ports import SessionContext, StatementResult
from mt_core.streaming.owner import StreamOwner
from mt_core.tables.engine import Write
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.tables.settings import ManagerSettings
from mt_core.testing.fake_clock import FakeClock
from mt_core.workflow.loader import load_scheduler
from mt_core.workflow.scheduler import WorkflowScheduler
from scheduler_plugins.memory.delivery import THREADS
from scheduler_plugins.memory.scheduler import MemoryScheduler
from tests.support.fake_engine import FakeEngine
from tests.support.fake_plans import FakePlans
from tests.support.fake_statements import FakeStatementEngine, Hold
from tests.support.fake_streams import FakeStreams
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.wired import FakeParts, WiredGateway
from tests.support.registry_facts import a_job, a_stream

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WAIT_S = 60.0
INTENT_WAIT_S = 0.5
WORKERS = 3
ORDERS = [{"ds": "2026-02-28", "amount": 1}, {"ds": "2026-03-01", "amount": 2}]
DAILY = """CREATE MATERIALIZED TABLE daily PARTITIONED BY (ds)
WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')
FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT * FROM orders"""
EVERY_10_S = (
    "CREATE MATERIALIZED TABLE {} FRESHNESS = INTERVAL '10' SECOND REFRESH_MODE = FULL AS SELECT * FROM {}"
)
_SELECT = re.compile(r"SELECT \* FROM (?P<name>\w+)")

Row = dict[str, Any]


class TableStatements(FakeStatementEngine):
    """Answers `SELECT * FROM name` with the table's rows. All other statements have prepared answers."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__()
        self._refreshes = engine

    def execute(
        self, context: SessionContext, sql: str, *, job_id: str, reservation: Reservation | None = None
    ) -> StatementResult:
        select = _SELECT.fullmatch(sql)
        if select is None or identifier_of(select["name"]) not in self._refreshes.storages:
            return super().execute(context, sql, job_id=job_id, reservation=reservation)
        stored = self._refreshes.storages[identifier_of(select["name"])]
        names = [column.name for column in stored.columns]
        rows = [[row[name] for name in names] for row in self._refreshes.rows(stored.spec.identifier)]
        return StatementResult(
            is_query=True, rows=RowSet(columns=[Column(name=name) for name in names], rows=rows)
        )


class WholeGateway:
    """A gateway that the test starts, kills and restarts, as a user sees it. Time passes only in `tick`.

    *app* builds the application from the services.
    """

    def __init__(
        self,
        folder: Path,
        scheduler: type[WorkflowScheduler] | None = None,
        app: Callable[[GatewayServices], ASGIApp] = app_of,
    ) -> None:
        self._scheduler, self._build = scheduler or load_scheduler("memory"), app
        self.clock, self.engine = FakeClock(START), FakeEngine()
        self.engine.create_source("lake.default.orders", ORDERS)
        self.streams = FakeStreams()
        self.plans = FakePlans()
        self.engine.on_write = self._before_write
        (folder / "registry.db").write_bytes(empty_registry())
        self._url = f"sqlite:///{folder}/registry.db"
        self._holds: dict[str, Hold] = {}
        self._freezer: tuple[str, Hold] | None = None
        self._frozen: list[Hold] = []
        self._process: WiredGateway | None = None
        self._zombies: list[WiredGateway] = []
        self.start()

    # -------------------------------------------------------------------------------------- life of a process

    @property
    def process(self) -> WiredGateway:
        assert self._process is not None, "the gateway is down"
        return self._process

    def start(self) -> None:
        self._process = WiredGateway(self._parts(), app=self._app, watch=self._watch)
        self._process.start()
        self.client = GatewayClient(self.process.server.url)
        self.http = httpx.Client(base_url=self.process.server.url, verify=False, timeout=WAIT_S)

    def _app(self, services: GatewayServices) -> ASGIApp:
        self.services = services
        return self._build(services)

    def _parts(self) -> FakeParts:
        settings = ManagerSettings(owner=str(uuid4()), intent_wait_s=INTENT_WAIT_S)
        registry, self.statements = SqlRegistry.open(self._url, self.clock), TableStatements(self.engine)
        return FakeParts(
            registry=registry,
            engine=self.engine,
            scheduler=self._scheduler(),
            settings=settings,
            clock=self.clock,
            statements=self.statements,
            streams=self.streams,
            plans=self.plans,
            refresh_threads=WORKERS,
            statement_threads=4,
        )

    def stop(self) -> None:
        self._hang_up()
        self.process.stop()
        self._process = None

    def kill(self) -> None:
        self.process.kill()
        self._zombies.append(self.process)
        self._hang_up()
        self._process = None

    def bury_zombies(self) -> None:
        """Wait until no thread of a killed process is working."""
        for zombie in self._zombies:
            zombie.work.workers.stop(WAIT_S)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Clean up, whatever the state in which a test ended."""
        for hold in (*self._holds.values(), *self._frozen):
            hold.release()
        if self._process is not None:
            self.kill()

    def _hang_up(self) -> None:
        self.client.close()
        self.http.close()

    # ----------------------------------------------------------------------------------------- planned events

    def hold_write(self, table: str) -> Hold:
        """Make the next write to *table* wait for the test."""
        self._holds[table] = Hold()
        return self._holds[table]

    def freeze_before(self, step: str) -> Hold:
        """Stop the next worker at *step* of a run until the test continues it.

        This simulates a process that is about to be killed.
        """
        self._freezer = (step, Hold())
        self._frozen.append(self._freezer[1])
        return self._freezer[1]

    def _before_write(self, write: Write) -> None:
        hold = self._holds.get(write.table.name)
        if hold is not None and not hold.entered.is_set():
            hold.entered.set()
            assert hold.ended.wait(WAIT_S), "the test never released the write"

    def _watch(self, _claimed: ClaimedRun, step: str) -> None:
        freezer = self._freezer
        if freezer is not None and freezer[0] == step:
            self._freezer = None
            freezer[1].entered.set()
            assert freezer[1].ended.wait(WAIT_S), "the test never let the worker go on"

    # --------------------------------------------------------------------------------------------------- time

    def pass_time(self, **delta: float) -> None:
        """Advance time until every tick is answered and every run that can end has ended."""
        self.tick(**delta)
        self.wait_quiet()

    def tick(self, **delta: float) -> None:
        """Advance time until every tick is answered. Runs continue."""
        self.clock.advance(timedelta(**delta))
        self.wait_ticked()

    def wait_ticked(self) -> None:
        """Wait until every due tick has been answered."""
        assert self.clock.settle(threads=f"{THREADS}-timer", timeout_s=WAIT_S)
        scheduler = self.process.scheduler
        assert isinstance(scheduler, MemoryScheduler)
        assert scheduler.wait_idle(WAIT_S)

    def wait_quiet(self) -> None:
        """Wait until no run is open."""
        self.wait_ticked()
        self.wait_until(lambda: not self._open_runs())

    def wait_until(self, done: Callable[[], bool]) -> None:
        """Wait until *done* returns True. It is checked whenever a run or a table changes."""
        assert self.process.signal.wait(done, WAIT_S), self.refreshes()

    def expire_sessions(self) -> None:
        """Advance time until every session has expired."""
        self.tick(minutes=20)
        self.process.sessions.expire_idle()
        self.client.close()
        self.client = GatewayClient(self.process.server.url)

    def _open_runs(self) -> bool:
        with self.process.registry.transaction() as tx:
            return bool(tx.runs.newest(statuses=OPEN, limit=1))

    def watch_streams(self, passes: int = 1) -> None:
        """Make the owner of streaming jobs take *passes* passes, one second apart."""
        for _ in range(passes):
            self.tick(seconds=1)
            wait(self.owner.pass_over())

    def start_stream(self, job_id: str) -> None:
        """Start a streaming job that was stored with this id."""
        definition = self.streams.prepare(a_stream(checkpoint=f"memory:/c/{job_id}"), job_id)
        job = a_job(
            job_id,
            status=JobStatus.CREATED,
            started_at=self.clock.now(),
            checkpoint=definition.checkpoint,
            definition=definition,
            stream=StreamState(),
        )
        self.owner.submit(job)
        self.watch_streams()

    def run_batch(self, *rows: str) -> None:
        """Make every streaming job read its source, with *rows* added, and make its owner notice."""
        self.streams.source += rows
        self.streams.run_batches()
        self.watch_streams(6)

    @property
    def owner(self) -> StreamOwner:
        """The owner of streaming jobs."""
        return self.process.streams.streams.owner

    # --------------------------------------------------------------------------------------- what a user does

    def sql(self, statement: str) -> list[Row]:
        """Execute a statement to its end and return its rows."""
        return self.rows(self.client.execute(statement))

    def perform(self, statement: str) -> list[Row]:
        """Execute a statement that waits for the owner of streaming jobs."""
        with ThreadPoolExecutor(1) as pool:
            rows = pool.submit(self.sql, statement)
            while not rows.done():
                self.watch_streams()
            return rows.result()

    def job(self, job_id: str) -> Row:
        """Return the result of DESCRIBE JOB."""
        [found] = self.sql(f"DESCRIBE JOB '{job_id}'")
        return found

    def rows(self, operation: str) -> list[Row]:
        """Return the rows of an operation when it has finished."""
        pages = list(self.client.pages(operation))
        return [dict(zip(_names(page), row, strict=True)) for page in pages for row in page.rows]

    def page(self, operation: str) -> ResultPage:
        """Return the first page of an operation when it has finished."""
        return next(iter(self.client.pages(operation)))

    def refused(self, statement: str) -> str:
        """Return the message of a refused statement."""
        return self.error_of(lambda: self.sql(statement))

    def error_of(self, work: Callable[[], object]) -> str:
        """Return the message of the GatewayError that *work* must raise."""
        try:
            work()
        except GatewayError as error:
            return str(error)
        raise AssertionError("no GatewayError was raised")

    def refresh(
        self, identifier: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Call the refresh endpoint as an external scheduler does.

        The refresh is manual unless *body* differs.
        """
        path = f"/v3/sessions/{self.client.session}/materialized-tables/{quote(identifier, safe='')}/refresh"
        return self.http.post(path, json={"isPeriodic": False, **(body or {})}, headers=dict(headers or {}))

    def show(self, *columns: str, name: str = "daily", limit: int = 1000) -> list[Any]:
        """Return columns of SHOW REFRESHES FOR *name* EXTENDED, oldest run first.

        For a single column, return plain values.
        """
        rows = list(reversed(self.sql(f"SHOW REFRESHES FOR {name} EXTENDED LIMIT {limit}")))
        return [
            row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns) for row in rows
        ]

    def refreshes(self) -> list[Row]:
        """Return the run ledger of all tables, oldest run first."""
        return list(reversed(self.sql("SHOW REFRESHES EXTENDED LIMIT 1000")))

    def amounts(self, name: str = "daily") -> list[tuple[str, int]]:
        """Return pairs of ds and amount in a table of orders, as a reader sees them."""
        return sorted((row["ds"], row["amount"]) for row in self.sql(f"SELECT * FROM {name}"))

    def facts(self, name: str = "daily") -> dict[str, str]:
        """Return the key/value rows of DESCRIBE EXTENDED."""
        rows = self.sql(f"DESCRIBE EXTENDED {name}")
        start = [row["name"] for row in rows].index("# Materialized table")
        return {row["name"]: row["type"] for row in rows[start + 1 :]}

    # ------------------------------------------------------------------------------------------- what is left

    def state(self) -> dict[str, object]:
        """Return everything that a refused statement must leave unchanged. Revisions may increase."""
        with self.process.registry.transaction() as tx:
            tables = [replace(table, revision=0) for table in tx.tables.page()]
            found = {
                "tables": tables,
                "runs": list(tx.runs.newest()),
                "tombstones": list(tx.tombstones.all()),
            }
        storages = {
            str(name): (stored.spec, stored.main, stored.epoch, dict(stored.branches), stored.columns)
            for name, stored in self.engine.storages.items()
        }
        return {**found, "definitions": self.process.registry.definitions.all(), "storages": storages}

    def branches(self, name: str = "daily") -> list[str]:
        """Return the branches that attempts have left on the table."""
        return sorted(self.engine.load(identifier_of(name)).branches)

    def ledger_and_main(self, name: str = "daily") -> tuple[list[Row], str | None]:
        """Return everything that users can see of refreshes."""
        return self.refreshes(), self.engine.load(identifier_of(name)).main

    def published(self, run_id: str, name: str = "daily") -> int:
        """Return the number of the run's snapshots in the history of main."""
        metadata = self.engine.load(identifier_of(name))
        return sum(snapshot.run_id == run_id for snapshot in self.engine.ancestors(metadata))


NOTHING: dict[str, object] = {"tables": [], "runs": [], "tombstones": [], "definitions": [], "storages": {}}


def root_cause(answer: httpx.Response) -> str:
    """Return what a Flink client shows, which is the text after the last `Caused by:`."""
    text: str = answer.json()["errors"][-1]
    return text.rpartition("Caused by: ")[2].partition("\n\tat ")[0]


def _names(page: ResultPage) -> list[str]:
    return [column.name for column in page.columns]


def identifier_of(name: str) -> TableIdentifier:
    """Return the full name of a table in the namespace of every session."""
    return TableIdentifier("lake", ("default",), name)


@cache
def empty_registry() -> bytes:
    """Return an empty registry file. Copying it is several times faster than creating one."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "registry.db"
        SqlRegistry.open(f"sqlite:///{file}").close()
        return file.read_bytes()


@pytest.fixture(name="whole")
def whole_gateway(tmp_path: Path) -> Iterator[WholeGateway]:
    """Yield a running gateway with a source table `orders`."""
    with closing(WholeGateway(tmp_path)) as gateway:
        yield gateway
