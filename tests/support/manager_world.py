"""A manager with fakes: registry, engine, scheduler and clock are in memory.

Runs execute in the calling thread.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mt_core.app.table_wiring import wire_tables
from mt_core.model.formatter import show_schedule_time
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.sql.parser import parse
from mt_core.sql.statements import TableStatement
from mt_core.tables.manager import TableManager
from mt_core.tables.refresh.attempt import Attempt
from mt_core.tables.refresh.step_times import Steps
from mt_core.tables.registry import Registry, Transaction, in_transaction
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.tables.settings import InitialRefresh, ManagerSettings
from mt_core.tables.table_commands import CommandContext, CommandOutcome, RefreshRequest
from mt_core.tables.upkeep.reconcile import reconcile
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_engine import FakeEngine
from tests.support.fake_scheduler import FakeScheduler
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_steps import begin_process

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAILY = """CREATE MATERIALIZED TABLE daily PARTITIONED BY (ds)
WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')
FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT * FROM orders"""
WHOLE_TABLE = (
    "CREATE MATERIALIZED TABLE totals FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL "
    "AS SELECT * FROM orders"
)
COMPUTED_TABLE = WHOLE_TABLE.replace(" FRESHNESS", " WITH ('refresh.strategy' = 'full') FRESHNESS")


class ManagerWorld:
    """The manager's environment, with shortcuts for tests. `restart` simulates a new process."""

    def __init__(
        self,
        *,
        registry: Registry | None = None,
        engine: FakeEngine | None = None,
        initial_refresh: InitialRefresh = InitialRefresh.ON_CREATE,
        max_partitions: int = 366,
    ) -> None:
        self.clock = FakeClock(START)
        self.engine = engine or FakeEngine()
        self.engine.now = self.clock.now
        self.scheduler: Any = FakeScheduler()
        self.registry = registry or MemoryRegistry(self.clock)
        self._initial_refresh = initial_refresh
        self._max_partitions = max_partitions
        self.observe_wait_s = 60.0
        self._processes = itertools.count(1)
        self._ids = itertools.count(1)
        self.context = CommandContext(catalog="lake", namespace=("default",))
        if not self.engine.sources:
            self.engine.create_source("lake.default.orders", [{"ds": "2026-03-01", "amount": 1}])
        self.restart()

    def restart(self) -> None:
        """Restart as a new process on the same registry, storage and scheduler.

        All earlier processes have ended.
        """
        settings = ManagerSettings(
            owner=f"process-{next(self._processes)}",
            scheduler_type=self.scheduler.identifier,
            initial_refresh=self._initial_refresh,
            max_partitions=self._max_partitions,
            intent_wait_s=0.0,
            alter_wait_s=0.0,
            drop_wait_s=0.0,
            observe_wait_s=self.observe_wait_s,
        )
        begin_process(self.registry, settings.owner)
        self.services = wire_tables(
            self.registry, self.engine.roles, self.scheduler, settings, self.clock, self.new_id
        )
        self.ledger, self.signal = self.services.ledger, self.services.signal
        self.manager = TableManager(self.services)

    def new_id(self) -> str:
        """Return a UUID that is the same in every execution of a test."""
        return str(uuid.UUID(int=next(self._ids)))

    # --------------------------------------------------------------------------------------------- statements

    def sql(self, text: str) -> CommandOutcome:
        """Execute one Freshtable statement without waiting for runs."""
        statement = parse(text)
        assert statement is not None, f"not a statement of ours: {text}"
        assert isinstance(statement, TableStatement), f"not about materialized tables: {text}"
        return self.manager.execute(statement, self.context)

    def show(self, text: str) -> list[dict[str, object]]:
        """Return the rows of a statement as dictionaries."""
        rows = self.sql(text).rows
        assert rows is not None
        names = [column.name for column in rows.columns]
        return [dict(zip(names, row, strict=True)) for row in rows.page(0, 10_000)]

    def table(self, name: str = "daily") -> MaterializedTable:
        """Return a table of the current namespace."""
        return self.services.intents.current(TableIdentifier("lake", ("default",), name))

    def rows(self, name: str = "daily") -> list[dict[str, object]]:
        """Return the table's rows as a reader sees them, in order."""
        rows = [dict(row) for row in self.engine.rows(TableIdentifier("lake", ("default",), name))]
        return sorted(rows, key=lambda row: tuple(str(value) for value in row.values()))

    # --------------------------------------------------------------------------------------------------- runs

    def tick(
        self,
        point: datetime,
        name: str = "daily",
        *,
        key: str | None = "",
        force: bool = False,
        trigger: str | None = None,
    ) -> RefreshRun:
        """Send the periodic request of a grid point, as a scheduler does. If *key* is None, send no key."""
        table = self.table(name)
        request = RefreshRequest(
            identifier_text=str(table.identifier),
            is_periodic=True,
            schedule_time=show_schedule_time(point, table.definition.zone),
            request_key=f"{table.table_id}/{point.isoformat()}" if key == "" else key,
            table_id=table.table_id,
            force=force,
            trigger=trigger,
        )
        return self.manager.requests.request_refresh(request)

    def latest_point(self, name: str = "daily") -> datetime:
        """Return the latest past schedule time."""
        definition = self.table(name).definition
        return definition.grid().at_or_before(self.clock.now())

    def pass_days(self, days: int) -> None:
        """Advance the clock."""
        self.clock.advance(timedelta(days=days))

    def claim(self) -> ClaimedRun | None:
        """Claim the next run, as a worker does."""
        return self.ledger.claim()

    def attempt(self, claimed: ClaimedRun) -> Steps:
        """Return the steps of an attempt, which the test takes one by one."""
        return Attempt(claimed, ledger=self.ledger, engine=self.engine.roles, on_end=self._on_end).steps()

    def _on_end(self, _status: RunStatus | None) -> None:
        self.signal.set()

    def work(self, *, stop_before: str | None = None) -> list[str]:
        """Execute queued runs in this thread until the queue is empty.

        If *stop_before* is given, the process dies before that step.
        """
        steps: list[str] = []
        while self.engine.ready() and (claimed := self.claim()) is not None:
            for step in self.attempt(claimed):
                if step == stop_before:
                    return steps
                steps.append(step)
        return steps

    def recover(self) -> None:
        """Settle commands, then requeue the runs of lost processes, as the application does at its start."""
        reconcile(self.services)
        self.ledger.recover()

    def run(self, run_id: str) -> RefreshRun:
        """Return a run as its requester sees it."""
        run = self.ledger.shown(run_id)
        assert run is not None
        return run

    def runs(self, name: str = "daily") -> list[RefreshRun]:
        """Return the ledger of a table, oldest first."""
        table_id = self.table(name).table_id
        return list(
            reversed(in_transaction(self.registry, lambda tx: list(tx.runs.newest(table_id=table_id))))
        )

    def state(self) -> dict[str, object]:
        """Return everything that a refused or undone command must leave unchanged. Revisions may increase."""

        def read(tx: Transaction) -> dict[str, object]:
            return {
                "tables": [replace(table, revision=0, repair_until=None) for table in tx.tables.page()],
                "runs": list(tx.runs.newest()),
                "tombstones": list(tx.tombstones.all()),
            }

        storages = {
            str(identifier): (stored.spec, stored.main, stored.epoch, dict(stored.branches), stored.columns)
            for identifier, stored in self.engine.storages.items()
        }
        return {
            **in_transaction(self.registry, read),
            "definitions": self.registry.definitions.all(),
            "workflows": dict(self.scheduler.workflows),
            "storages": storages,
        }

    def refused(self, work: Callable[[], object], error: type[Exception]) -> str:
        """Return the message of the *error* that *work* must raise."""
        try:
            work()
        except error as raised:
            return str(raised)
        raise AssertionError(f"{error.__name__} was not raised")
