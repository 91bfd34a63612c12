"""A world with a table of refresh mode CONTINUOUS, whose look-out works in the calling thread."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from mt_core.base.background import attempt
from mt_core.incremental.shape import Occurrence, QueryShape, Reach
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.tables.continuous.continuous_run import ContinuousRun
from mt_core.tables.continuous.source_watcher import SourceWatcher
from mt_core.tables.engine import Write
from mt_core.tables.refresh.refresh_log import RefreshLog
from mt_core.tables.refresh.step_times import Steps
from mt_core.tables.registry import in_transaction
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.tables.runs.losses import Losses
from tests.support.manager_world import ManagerWorld

ORDERS = "lake.default.orders"
LIVE = TableIdentifier("lake", ("default",), "live")
TEN = [{"ds": "2026-03-01", "amount": number} for number in range(10)]
BY_DAYS = QueryShape(
    occurrences={0: Occurrence(reach=Reach.GROUPED)},
    lineage=({0: "ds"}, {0: "ds"}),
    keys=(0, 1),
    merge="not on top",
)


class ProcessEnded(BaseException):
    """The process ends here: nothing of it may happen any more."""


class LiveTable(ManagerWorld):
    """`live` shows ten rows of `orders`; it is refreshed continuously within 10 seconds,
    and was filled by CREATE.

    It is partitioned *by_days* if changed rows are to be applied by replacing their partitions.

    `ways` is how each batch since then got its rows; the process ends before the step `ends_before`,
    somebody compacts the table before `compacts_before`, once.
    """

    def __init__(self, clauses: str = "FRESHNESS = INTERVAL '10' SECOND", *, by_days: bool = False) -> None:
        self.ways: list[str] = []
        self.ends_before: str | None = None
        self.compacts_before: str | None = None
        super().__init__()
        self.engine.commit(ORDERS, TEN)
        if by_days:
            self.engine.shape = BY_DAYS
            clauses = f"PARTITIONED BY (ds) WITH ('refresh.strategy' = 'incremental') {clauses}"
        self.sql(f"CREATE MATERIALIZED TABLE live {clauses} AS SELECT * FROM orders")
        self.work()
        self.engine.on_write = self._note

    def restart(self) -> None:
        super().restart()
        self.services.events.subscribe("log", RefreshLog(self.registry, self.services.errors))
        self.lookout = SourceWatcher(
            self.services, submit=lambda work: attempt("a continuous refresh", work), watch=self._watch
        )

    def append(self, *amounts: int) -> None:
        """Commit rows to the source."""
        rows = self.engine.sources[ORDERS].versions[self.engine.sources[ORDERS].current]
        self.engine.commit(ORDERS, [*rows, *({"ds": "2026-03-02", "amount": amount} for amount in amounts)])

    def look(self, *, after: float = 0) -> None:
        """Let the look-out look so many seconds later."""
        self.clock.advance(timedelta(seconds=after))
        self.lookout.poll()
        self.services.events.deliver()

    def continuous_run(self) -> Steps:
        """Claim the table for a continuous run and return its steps."""
        claimed = self.ledger.claim_continuous(self.table("live").table_id)
        assert claimed is not None
        return ContinuousRun(claimed, self.services, beside=lambda work: work(), losses=Losses()).steps()

    def shows_its_source(self) -> bool:
        """Whether a reader sees exactly the rows of the source."""
        source = self.engine.sources[ORDERS]
        expected = [dict(row) for row in source.versions[source.current]]
        return self.rows("live") == sorted(
            expected, key=lambda row: tuple(str(value) for value in row.values())
        )

    def stretches(self) -> list[RefreshRun]:
        """Return the continuous runs of the ledger, oldest first."""
        return [run for run in self.runs("live") if run.kind is RunKind.CONTINUOUS]

    def stretches_of_all(self) -> list[RunStatus]:
        """Return the status of each continuous run of the ledger, also of tables that were dropped."""
        runs = in_transaction(self.registry, lambda tx: list(tx.runs.newest()))
        return [run.status for run in runs if run.kind is RunKind.CONTINUOUS]

    def when_writing(self, work: Callable[[], object]) -> None:
        """Do *work* once, while the next batch writes."""

        def once(write: Write) -> None:
            self.engine.on_write = self._note
            work()
            self._note(write)

        self.engine.on_write = once

    def _note(self, write: Write) -> None:
        self.ways.append("recompute" if write.maintenance is None else str(write.maintenance.strategy.way))

    def _watch(self, _claimed: ClaimedRun, step: str) -> None:
        if step == self.compacts_before:
            # Once: a step is taken again when the compaction has won.
            self.compacts_before = None
            self.engine.compact_foreign(LIVE)
        if step == self.ends_before:
            raise ProcessEnded
