"""ProtocolWorld: one table, workers that take one step at a time, possible events, and an observer.

The `Observer` checks every event immediately. `settle` ends all activity and checks the final state too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from mt_core.errors import MtError
from mt_core.model.run import OPEN, RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.refresh.step_times import Steps
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.tables.settings import InitialRefresh
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld
from tests.support.observed_engine import ObservedEngine
from tests.support.observer import Observer

SOURCES = ("lake.default.orders", "lake.default.returns")
DAYS = tuple(f"2026-03-0{day}" for day in range(1, 7))
_LAPSE = timedelta(seconds=61)


@dataclass(eq=False)
class Worker:
    """A worker that is about to take the step `at`. The lease of a zombie is not renewed."""

    claimed: ClaimedRun
    steps: Steps
    at: str
    zombie: bool = False


class ProtocolWorld:
    """A table with two sources.

    It is `daily` (partitioned by day, with a date-formatter) or `totals` (not partitioned).
    """

    def __init__(
        self, *, partitioned: bool = True, initial_refresh: InitialRefresh = InitialRefresh.NONE
    ) -> None:
        self.engine = ObservedEngine(DAYS, SOURCES)
        self.world = ManagerWorld(engine=self.engine, initial_refresh=initial_refresh)
        self.name = "daily" if partitioned else "totals"
        self.partitioned = partitioned
        self.world.sql(DAILY if partitioned else WHOLE_TABLE)
        self.observer = Observer(
            self.world.registry, self.engine, fills=initial_refresh is not InitialRefresh.NONE
        )
        self.workers: list[Worker] = []
        self.points: dict[datetime, int] = {}
        self._keys = self._setbacks = 0

    # ------------------------------------------------------------------------------------------------ workers

    def claim(self) -> Worker | None:
        """Make a free worker claim the next run."""
        claimed = self.world.claim()
        self.observer.look()
        if claimed is None:
            return None
        steps = self.world.attempt(claimed)
        worker = Worker(claimed, steps, next(steps))
        self.workers.append(worker)
        self.observer.look()
        return worker

    def advance(self, worker: Worker, *, to: str | None = None) -> bool:
        """Make a worker take one step, or all steps before *to*. Return whether it continues.

        An error ends its process.
        """
        following: str | None = worker.at
        while worker in self.workers and following != to:
            try:
                following = self.observer.step(worker.claimed, worker.at, worker.steps)
            except MtError:
                following = None
            if following is None:
                self.workers.remove(worker)
            else:
                worker.at = following
            if to is None:
                break
        return worker in self.workers

    def finish(self, worker: Worker) -> RefreshRun:
        """Make a worker take all remaining steps, and return its run."""
        while self.advance(worker):
            pass
        return self.run(worker.claimed.run.run_id)

    def crash(self, worker: Worker) -> None:
        """End the process of a worker.

        None of its code may run afterwards, not even to close its generator.
        """
        before = (self.engine.load(self.table.identifier), self.observer.runs())
        worker.steps.close()
        assert (self.engine.load(self.table.identifier), self.observer.runs()) == before, (
            "a dying worker did something"
        )
        self.workers.remove(worker)

    @property
    def is_running(self) -> bool:
        """Whether any run is RUNNING."""
        return any(run.status is RunStatus.RUNNING for run in self.observer.runs())

    def lapse(self) -> None:
        """Expire the lease of the RUNNING run. The run is queued again, and its worker becomes a zombie."""
        for worker in self.workers:
            worker.zombie = True
        self.world.clock.advance(_LAPSE)
        self.world.ledger.recover()
        self.observer.look()

    def begin_new_process(self, *, zombies: bool = False) -> None:
        """Restart.

        The workers of the old process have ended or, with *zombies*, are only temporarily cut off.
        """
        for worker in list(self.workers):
            worker.zombie = True
            if not zombies:
                self.crash(worker)
        self.world.restart()
        self.world.recover()
        self.observer.look()

    # ------------------------------------------------------------------------------------------------- faults

    def fail(self, worker: Worker, operation: str) -> bool:
        """Make a worker take one step in which *operation* of the engine fails once."""
        self.engine.failing[operation] = RuntimeError("planned")
        try:
            return self.advance(worker)
        finally:
            self.engine.failing.clear()

    def lose_engine(self, worker: Worker) -> bool:
        """Make a worker take one step while the engine is unavailable."""
        self.engine.away = True
        try:
            return self.advance(worker)
        finally:
            self.engine.away = False

    def lose_answer(self, worker: Worker, fate: str) -> bool:
        """Make a worker commit without receiving an answer.

        *fate* says whether the commit landed, will land ("late"), is lost, or landed but was reported as a
        conflict ("conflict").
        """
        what = worker.at.partition(":")[0]
        if fate == "late":
            self.engine.plan_late_landing(what)
        elif fate == "conflict":
            self.engine.plan_untrue_conflict(what)
        else:
            self.engine.plan_lost_answer(what, landed=fate == "landed")
        try:
            return self.advance(worker)
        finally:
            self.engine.forget_plans()

    def land(self) -> bool:
        """Deliver the commit in flight, if it can still land."""
        landed = self.engine.land()
        self.observer.look()
        return landed

    # ----------------------------------------------------------------------------------------------- requests

    @property
    def table(self) -> MaterializedTable:
        """The current table."""
        return self.world.table(self.name)

    def run(self, run_id: str) -> RefreshRun:
        """Return a run as its requester sees it."""
        return self.world.run(run_id)

    def pass_point(self) -> datetime:
        """Advance the clock to the next grid point. Live workers renew their leases."""
        definition = self.table.definition
        point = definition.grid().after(self.world.clock.now())
        self.world.clock.advance(point - self.world.clock.now())
        for worker in self.workers:
            if not worker.zombie:
                self.world.ledger.renew_lease(worker.claimed)
        # A point that is passed again, after the clock was set back, is refreshed again.
        self.points[point] = len(self.engine.positions) - 1
        return point

    def put_clock(self, delta: timedelta) -> None:
        """Set the clock ahead or back.

        Live workers renew their leases before expired leases are checked, as always.
        """
        self.world.clock.put(delta)
        self._setbacks += delta < timedelta(0)
        for worker in self.workers:
            if not worker.zombie:
                self.world.ledger.renew_lease(worker.claimed)
        self.world.recover()
        self.observer.look()

    def tick(self, point: datetime, *, new_key: bool = False) -> RefreshRun:
        """Send the tick of a point, with the scheduler's key or another one."""
        self._keys += 1
        # If the clock was set back, a scheduler distinguishes a point from the same point before.
        new_key = new_key or self._setbacks > 0
        run = self.world.tick(point, self.name, key=f"again-{self._keys}" if new_key else "")
        self.observer.look()
        return run

    def refresh(self, day: str | None = None) -> RefreshRun:
        """Request a manual refresh of a day's partition, or of the whole table."""
        partition = f" PARTITION (ds = '{day}')" if day else ""
        outcome = self.world.sql(f"ALTER MATERIALIZED TABLE {self.name} REFRESH{partition}")
        self.observer.look()
        return self.run(outcome.wait_for or "")

    def cancel(self, run_id: str) -> RefreshRun:
        """Withdraw one requester from a run."""
        run = self.world.manager.requests.cancel_run(run_id)
        self.observer.look()
        return run

    def open_runs(self) -> list[RefreshRun]:
        """Return the runs that their requesters see as QUEUED or RUNNING."""
        return [run for run in self.observer.runs() if self.run(run.run_id).status in OPEN]

    # ----------------------------------------------------------------------------------------- everybody else

    def alter(self, source: str) -> None:
        """Change the table's query."""
        self.world.sql(f"ALTER MATERIALIZED TABLE {self.name} AS SELECT * FROM {source}")
        self.observer.look()

    def suspend(self) -> None:
        """Suspend the table."""
        self.world.sql(f"ALTER MATERIALIZED TABLE {self.name} SUSPEND")
        self.observer.look()

    def resume(self, options: str = "") -> None:
        """Resume the table, with *options* such as WITH ('a' = 'b')."""
        self.world.sql(f"ALTER MATERIALIZED TABLE {self.name} RESUME {options}")
        self.observer.look()

    def write_foreign(self, day: str) -> None:
        """Add a row to a day's partition as another writer."""
        self.engine.write_foreign(self.table.identifier, [{"ds": day, "amount": -1}])
        self.observer.look()

    def maintain(self) -> bool:
        """Expire old snapshots, which requires that no run is RUNNING."""
        if self.is_running:
            return False
        self.engine.expire(self.table.identifier, self.world.clock.now(), ())
        self.observer.look()
        return True

    # --------------------------------------------------------------------------------------------------- rest

    def settle(self) -> None:
        """End all faults, let a healthy worker empty the queue, and tick one more point.

        Then check the invariants of the final state.
        """
        self.engine.forget_faults()
        self.begin_new_process()
        self.drain()
        if self.table.status is RefreshStatus.SUSPENDED:
            self.resume()
        point = self.pass_point()
        while point < max(self.points):
            point = self.pass_point()
        self.tick(point, new_key=True)
        self.drain()
        self.observer.check_rest(self.points)

    def drain(self, limit: int = 60) -> None:
        """Execute queued runs in order until the queue is empty."""
        for _ in range(limit):
            worker = self.claim()
            if worker is None:
                return
            self.finish(worker)
        raise AssertionError(f"L1 after {limit} runs there are still more")
