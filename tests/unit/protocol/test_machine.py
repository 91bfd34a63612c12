"""The real ledger, attempts and manager under everything that may happen to them,
in random order (Hypothesis).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mt_core.model.partition import PartitionSpec
from mt_core.model.table import RefreshStatus
from mt_core.tables.settings import InitialRefresh
from tests.depth import DEPTH, rounds
from tests.support.protocol_world import SOURCES, ProtocolWorld, Worker

DAYS = ("2026-03-01", "2026-03-02")
# How often each kind of event may happen in one history: what is left over are workers that work.
BUDGET = {
    "crash": 2,
    "lapse": 3,
    "process": 1,
    "failure": 2,
    "away": 1,
    "answer": 3,
    "poison": 2,
    "point": 3,
    "tick": 6,
    "refresh": 3,
    "cancel": 2,
    "commit": 3,
    "compaction": 1,
    "rollback": 1,
    "foreign": 2,
    "alter": 2,
    "suspend": 3,
    "maintenance": 2,
    "clock": 1,
}
MOST_WORKERS = 3
EXAMPLES, MANY_EXAMPLES = 40, rounds(80, 400)
places = st.integers(min_value=0, max_value=20)
pauses = st.sampled_from(["write", "publish: read", "publish: commit", "published", "end"])


def spending(kind: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A rule that may be used while its budget lasts; each use spends one."""

    def decorate(method: Callable[..., None]) -> Callable[..., None]:
        @wraps(method)
        def spend(self: RefreshProtocol, *args: object, **drawn: object) -> None:
            self.budget[kind] -= 1
            method(self, *args, **drawn)

        return precondition(lambda self: self.budget[kind] > 0)(spend)

    return decorate


class RefreshProtocol(RuleBasedStateMachine):
    """Every rule is something that anybody may do at any time; the observer checks P1-P8 after each,
    `teardown` L1-L3.
    """

    partitioned = True
    initial_refresh = InitialRefresh.NONE

    def __init__(self) -> None:
        super().__init__()
        self.world = ProtocolWorld(partitioned=self.partitioned, initial_refresh=self.initial_refresh)
        self.budget = dict(BUDGET)
        self.ahead = 0

    @initialize(done=st.integers(0, 2), asked=st.booleans())
    def begin(self, done: int, asked: bool) -> None:
        """Begin with some points that are done, and one that waits."""
        for number in range(done + asked):
            self.budget["point"] -= 1
            self.world.tick(self.world.pass_point())
            if number < done:
                self.world.drain()

    # ------------------------------------------------------------------------------------------------ workers

    def _worker(self, place: int) -> Worker:
        return self.world.workers[-1 - place % len(self.world.workers)]

    def _advance(self, worker: Worker | None, steps: int) -> None:
        for _ in range(steps):
            if worker is None or not self.world.advance(worker):
                break

    @precondition(lambda self: len(self.world.workers) < MOST_WORKERS)
    @rule(steps=st.integers(0, 12))
    def claim_and_advance(self, steps: int) -> None:
        self._advance(self.world.claim(), steps)

    @precondition(lambda self: len(self.world.workers) < MOST_WORKERS)
    @rule(pause=pauses)
    def claim_and_advance_to(self, pause: str) -> None:
        worker = self.world.claim()
        if worker is not None:
            self.world.advance(worker, to=pause)

    @precondition(lambda self: self.world.workers)
    @rule(place=places, steps=st.integers(1, 9))
    def advance(self, place: int, steps: int) -> None:
        self._advance(self._worker(place), steps)

    @precondition(lambda self: self.world.workers)
    @rule(place=places, pause=pauses)
    def advance_to(self, place: int, pause: str) -> None:
        self.world.advance(self._worker(place), to=pause)

    @precondition(lambda self: self.world.workers)
    @rule(place=places)
    @spending("crash")
    def crash(self, place: int) -> None:
        self.world.crash(self._worker(place))

    @precondition(lambda self: self.world.is_running)
    @rule(dies=st.booleans())
    @spending("lapse")
    def lapse(self, dies: bool) -> None:
        """The holder dies or is only cut off; either way its run goes back to the queue."""
        for worker in list(self.world.workers):
            if dies and self.world.observer.holds(worker.claimed):
                self.world.crash(worker)
        self.world.lapse()

    @rule(zombies=st.booleans())
    @spending("process")
    def begin_new_process(self, zombies: bool) -> None:
        self.world.begin_new_process(zombies=zombies)

    # ------------------------------------------------------------------------------------------------- faults

    @precondition(lambda self: self.world.workers)
    @rule(place=places)
    @spending("failure")
    def fail(self, place: int) -> None:
        """What a worker asks of the engine next fails, for a reason that says nothing about its outcome."""
        worker = self._worker(place)
        asks = {"decide": "read_vector", "write": "write", "read": "load", "commit": "swap"}
        self.world.fail(worker, asks.get(worker.at.split(": ")[-1], "load"))

    @precondition(lambda self: self.world.workers)
    @rule(place=places)
    @spending("away")
    def lose_engine(self, place: int) -> None:
        self.world.lose_engine(self._worker(place))

    @precondition(lambda self: any(worker.at.endswith("commit") for worker in self.world.workers))
    @rule(place=places, fate=st.sampled_from(["landed", "late", "lost"]))
    @spending("answer")
    def lose_answer(self, place: int, fate: str) -> None:
        committing = [worker for worker in self.world.workers if worker.at.endswith("commit")]
        self.world.lose_answer(committing[place % len(committing)], fate)

    @precondition(lambda self: self.world.engine.is_committing)
    @rule()
    def land(self) -> None:
        self.world.land()

    @rule(day=st.sampled_from(DAYS))
    @spending("poison")
    def poison_or_cure(self, day: str) -> None:
        self.world.engine.poisoned ^= {PartitionSpec.of({"ds": day})}

    # ----------------------------------------------------------------------------------------------- requests

    @rule(ticks=st.booleans())
    @spending("point")
    def pass_point(self, ticks: bool) -> None:
        point = self.world.pass_point()
        if ticks:
            self.world.tick(point)

    @precondition(lambda self: self.world.points)
    @rule(place=places, new_key=st.booleans())
    @spending("tick")
    def tick(self, place: int, new_key: bool) -> None:
        points = list(self.world.points)
        self.world.tick(points[-1 - place % len(points)], new_key=new_key)

    @rule(day=st.sampled_from([None, *DAYS]))
    @spending("refresh")
    def refresh(self, day: str | None) -> None:
        self.world.refresh(day if self.partitioned else None)

    @precondition(lambda self: self.world.open_runs())
    @rule(place=places)
    @spending("cancel")
    def cancel(self, place: int) -> None:
        runs = self.world.open_runs()
        self.world.cancel(runs[place % len(runs)].run_id)

    # ----------------------------------------------------------------------------------------- everybody else

    @rule()
    @spending("commit")
    def commit_sources(self) -> None:
        self.world.engine.commit_sources()

    @rule()
    @spending("compaction")
    def compact_sources(self) -> None:
        self.world.engine.compact_sources()

    @rule()
    @spending("rollback")
    def roll_back_sources(self) -> None:
        self.world.engine.roll_back_sources()

    @rule(day=st.sampled_from(DAYS))
    @spending("foreign")
    def write_foreign(self, day: str) -> None:
        self.world.write_foreign(day)

    @rule(source=st.sampled_from(SOURCES))
    @spending("alter")
    def alter(self, source: str) -> None:
        self.world.alter(source)

    @rule(options=st.sampled_from(["", "WITH ('write.spark.fanout.enabled' = 'true')"]))
    @spending("suspend")
    def suspend_or_resume(self, options: str) -> None:
        if self.world.table.status is RefreshStatus.SUSPENDED:
            self.world.resume(options)
        else:
            self.world.suspend()

    @rule(hours=st.sampled_from([1, 25]))
    @spending("clock")
    def put_clock_ahead(self, hours: int) -> None:
        self.world.put_clock(timedelta(hours=hours))
        self.ahead += hours

    @precondition(lambda self: self.ahead)
    @rule()
    def put_clock_back(self) -> None:
        self.world.put_clock(-timedelta(hours=self.ahead))
        self.ahead = 0

    @rule()
    @spending("maintenance")
    def maintain(self) -> None:
        self.world.maintain()

    def teardown(self) -> None:
        self.world.settle()


class WholeTableProtocol(RefreshProtocol):
    """The same on a table without partitions."""

    partitioned = False


class FilledTableProtocol(RefreshProtocol):
    """The same on a table that is due as a whole until a run of all of it has succeeded."""

    initial_refresh = InitialRefresh.ON_CREATE


class FilledOnScheduleProtocol(RefreshProtocol):
    """The same on a table that its first scheduled refresh fills."""

    initial_refresh = InitialRefresh.ON_SCHEDULE


def _settings(examples: int, *, fixed: bool) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=50,
        # Where CI is set, Hypothesis draws the same examples every time; elsewhere the many are new ones.
        derandomize=fixed or settings.default.derandomize,
        database=None,
        deadline=None,
        print_blob=not fixed,
        suppress_health_check=list(HealthCheck),
    )


MACHINES = [
    RefreshProtocol,
    WholeTableProtocol,
    FilledTableProtocol,
    FilledOnScheduleProtocol,
]


@pytest.mark.parametrize("machine", MACHINES)
class TestProtocol:
    @pytest.mark.timeout(600)
    def test_the_protocol_keeps_its_promises(self, machine: type[RefreshProtocol]) -> None:
        run_state_machine_as_test(machine, settings=_settings(EXAMPLES, fixed=True))

    @pytest.mark.slow
    @pytest.mark.timeout(900 * DEPTH)
    def test_the_protocol_keeps_its_promises_in_many_random_histories(
        self, machine: type[RefreshProtocol]
    ) -> None:
        run_state_machine_as_test(machine, settings=_settings(MANY_EXAMPLES, fixed=False))
