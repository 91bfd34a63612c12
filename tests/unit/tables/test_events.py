"""Facts follow from what the registry has committed, and come to listeners in order."""

from __future__ import annotations

import itertools
import logging
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mt_core.errors import EngineError
from mt_core.model.job import Job, JobStatus
from mt_core.model.partition import WHOLE
from mt_core.model.run import TERMINAL, TRANSITIONS, Batch, RefreshRun, RunKind, RunStatus
from mt_core.model.stream import StreamState
from mt_core.model.table import Intent
from mt_core.tables import events
from mt_core.tables.events import (
    BatchPublished,
    Events,
    Fact,
    JobChanged,
    RunClaimed,
    RunEnded,
    RunRequested,
    RunReturned,
    StepDone,
    StreamAdvanced,
    TableChanged,
    facts_of,
)
from mt_core.tables.refresh.workers import Workers
from mt_core.tables.registry import JobChange, RunChange, TableChange, in_transaction
from mt_core.tables.runs.ledger import ClaimedRun
from mt_core.testing.fake_clock import FakeClock
from tests.support.manager_world import START, WHOLE_TABLE, ManagerWorld
from tests.support.memory_registry import MemoryRegistry
from tests.unit.tables.continuous_table import LiveTable

WAIT_S = 10.0
BATCH = Batch(number=1, began_at=START, seconds=1.0, lag=None, strategy="append", rows=1, snapshot_id="7")


def a_run(status: RunStatus, **facts: Any) -> RefreshRun:
    return RefreshRun(
        run_id="r", table_id="t", kind=RunKind.MANUAL, scope=WHOLE, requested_at=START, status=status, **facts
    )


def a_job(status: JobStatus, **facts: Any) -> Job:
    return Job(job_id="j", kind="INSERT", name="j", status=status, started_at=START, **facts)


class Heard:
    """A listener that remembers what it has heard."""

    def __init__(self, world: ManagerWorld) -> None:
        self._events = world.services.events
        self._events.deliver()
        self._facts: list[Fact] = []
        self._events.subscribe("test", self._facts.append)

    def facts(self) -> Sequence[Fact]:
        self._events.deliver()
        return self._facts

    def of_runs(self) -> list[str]:
        """Return the names of all facts about runs, but steps."""
        facts = (fact for fact in self.facts() if not isinstance(fact, TableChanged | StepDone))
        return [type(fact).__name__ for fact in facts]


# ------------------------------------------------------------------------------------------------------ facts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *itertools.product([None], RunStatus),
        *((s, t) for s in RunStatus for t in sorted({s, *TRANSITIONS[s]})),
    ],
)
def test_each_transition_of_a_run_is_one_fact_and_a_request_is_another(
    before: RunStatus | None, after: RunStatus
) -> None:
    run = a_run(after)
    ended: list[Fact] = [RunEnded(run=run)] if after in TERMINAL else []
    expected: dict[tuple[RunStatus | None, RunStatus], list[Fact]] = {
        (RunStatus.QUEUED, RunStatus.RUNNING): [RunClaimed(run=run)],
        (RunStatus.RUNNING, RunStatus.QUEUED): [RunReturned(run=run)],
        (None, RunStatus.QUEUED): [RunRequested(run=run)],
        (None, RunStatus.RUNNING): [RunRequested(run=run), RunClaimed(run=run)],
    }
    default = [] if before is after else [RunRequested(run=run), *ended] if before is None else ended

    facts = list(facts_of(RunChange(before=None if before is None else a_run(before), after=run)))

    assert facts == expected.get((before, after), default)


def test_a_renewed_lease_of_a_run_or_of_a_command_is_no_fact() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    intent = Intent(command="ALTER", step="s", token=1, owner="o", lease_until=START, started_at=START)
    table = replace(world.table("totals"), intent=intent)
    later = replace(table, intent=replace(intent, lease_until=START + timedelta(minutes=5)), revision=9)
    run = a_run(RunStatus.RUNNING)

    assert list(facts_of(RunChange(before=run, after=replace(run, lease_until=START)))) == []
    assert list(facts_of(TableChange(table_id="t", before=table, after=later))) == []


def test_a_table_that_is_created_changed_or_dropped_is_a_fact() -> None:
    world = ManagerWorld()
    heard = Heard(world)
    world.sql(WHOLE_TABLE)
    world.work()
    before = len(heard.facts())

    world.sql("ALTER MATERIALIZED TABLE totals SUSPEND")
    suspended = world.table("totals")
    world.sql("DROP MATERIALIZED TABLE totals")

    changes = [fact.table for fact in heard.facts()[before:] if isinstance(fact, TableChanged)]
    assert changes[-1] is None
    assert suspended in changes
    assert {type(fact) for fact in heard.facts()[before:]} == {TableChanged}


@pytest.mark.parametrize(
    ("before", "after", "fact"),
    [
        (None, a_job(JobStatus.CREATED), JobChanged),
        (a_job(JobStatus.CREATED), a_job(JobStatus.RUNNING), JobChanged),
        (a_job(JobStatus.RUNNING), a_job(JobStatus.RESTARTING, error="lost"), JobChanged),
        (a_job(JobStatus.RUNNING), a_job(JobStatus.FINISHED), JobChanged),
        (a_job(JobStatus.RUNNING), a_job(JobStatus.RUNNING, restarts=1), StreamAdvanced),
        (a_job(JobStatus.RUNNING), a_job(JobStatus.RUNNING, stream=StreamState(batch=4)), StreamAdvanced),
        (a_job(JobStatus.RUNNING), a_job(JobStatus.RUNNING, revision=8), None),
        (a_job(JobStatus.FINISHED, checkpoint="c"), a_job(JobStatus.FINISHED), None),
    ],
)
def test_each_step_of_a_job_is_a_fact_and_a_row_written_again_is_none(
    before: Job | None, after: Job, fact: type[Fact] | None
) -> None:
    facts = list(facts_of(JobChange(before=before, after=after)))

    assert [type(each) for each in facts] == ([] if fact is None else [fact])


def test_the_facts_of_one_run_are_in_its_order_and_its_steps_are_between_claim_and_end() -> None:
    world = ManagerWorld()
    heard = Heard(world)
    world.sql(WHOLE_TABLE)
    Workers(world.services, count=1).run_next()

    names = [
        fact.step if isinstance(fact, StepDone) else type(fact).__name__
        for fact in heard.facts()
        if not isinstance(fact, TableChanged)
    ]

    assert names == [
        *("RunRequested", "RunClaimed", "decide", "write", "staged"),
        *("publish: read", "publish: commit", "published", "RunEnded", "end"),
    ]


def test_a_coalesced_request_ends_at_once_and_a_lost_run_returns_and_is_claimed_again() -> None:
    world = ManagerWorld()
    heard = Heard(world)
    world.sql(WHOLE_TABLE)
    world.work(stop_before="write")
    world.clock.advance(timedelta(minutes=5))
    world.restart()
    world.recover()
    world.work()
    for hour in (12, 13):
        world.tick(START.replace(hour=hour), "totals")

    # No listener of the second process takes the place of the first one's.
    assert heard.of_runs() == [
        *("RunRequested", "RunClaimed", "RunReturned", "RunClaimed", "RunEnded"),
        *("RunRequested", "RunRequested", "RunEnded"),
    ]


def test_each_batch_of_a_continuous_run_is_a_fact() -> None:
    world = LiveTable()
    heard = Heard(world)
    for amount in (10, 11):
        world.append(amount)
        world.look(after=10)
    world.lookout.end("the gateway stops")

    assert heard.of_runs() == ["RunRequested", "RunClaimed", "BatchPublished", "BatchPublished", "RunEnded"]
    batches = [fact.batch for fact in heard.facts() if isinstance(fact, BatchPublished)]
    assert [batch.number for batch in batches] == [1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_the_ended_runs_of_a_random_sequence_are_those_of_the_ledger(seed: int) -> None:
    world, chance = ManagerWorld(), random.Random(seed)
    heard = Heard(world)
    world.sql(WHOLE_TABLE)
    hours = itertools.count(12)

    def fail() -> None:
        world.engine.failing["write"] = EngineError("the disk is full")

    def lose_process() -> None:
        world.work(stop_before=chance.choice(["decide", "write", "published", "end"]))
        world.clock.advance(timedelta(minutes=5))
        world.ledger.recover()

    def cancel() -> None:
        world.ledger.cancel(chance.choice(world.runs("totals")).run_id)

    steps = [
        lambda: world.tick(START + timedelta(hours=next(hours)), "totals"),
        lambda: world.sql("ALTER MATERIALIZED TABLE totals REFRESH"),
        lambda: world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": next(hours)}]),
        *(world.work, fail, lose_process, cancel),
    ]
    for _ in range(60):
        chance.choice(steps)()

    runs = in_transaction(world.registry, lambda tx: tx.runs.newest(kinds=frozenset(RunKind)))
    ended = Counter(fact.run.status for fact in heard.facts() if isinstance(fact, RunEnded))
    assert ended == Counter(run.status for run in runs if run.status in TERMINAL)
    assert sum(isinstance(fact, RunRequested) for fact in heard.facts()) == len(runs)


# ------------------------------------------------------------------------------------------------- the queue


def an_end(number: int) -> RunChange:
    return RunChange(
        before=a_run(RunStatus.RUNNING), after=replace(a_run(RunStatus.FAILED), run_id=str(number))
    )


def test_a_full_queue_drops_and_counts_steps_batches_and_progress_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "CAPACITY", 3)
    registry, heard = MemoryRegistry(FakeClock(START)), list[Fact]()
    bus = Events(registry, FakeClock(START))
    bus.subscribe("test", heard.append)
    assert registry.on_commit is not None
    running, job = a_run(RunStatus.RUNNING), a_job(JobStatus.RUNNING)
    batch = RunChange(before=running, after=replace(running, batches=1, recent=(BATCH,)))

    for number in range(3):
        bus.step_done(running, f"step {number}", 0.5)
    bus.step_done(running, "dropped", 0.5)
    progress = JobChange(before=job, after=replace(job, stream=StreamState(batch=2)))
    registry.on_commit((an_end(1), batch, progress, an_end(2), JobChange(before=None, after=job)))
    bus.deliver()
    bus.step_done(running, "again", 0.5)
    bus.deliver()

    assert bus.dropped == 3
    assert [type(fact) for fact in heard] == [StepDone] * 3 + [RunEnded, RunEnded, JobChanged, StepDone]


def test_a_listener_that_raises_is_logged_and_the_others_hear_everything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry, heard = MemoryRegistry(FakeClock(START)), list[Fact]()
    bus = Events(registry, FakeClock(START))

    def broken(_fact: Fact) -> None:
        raise RuntimeError("planned")

    bus.subscribe("a broken listener", broken)
    bus.subscribe("test", heard.append)
    assert registry.on_commit is not None
    with caplog.at_level(logging.ERROR):
        registry.on_commit((an_end(1), an_end(2)))
        bus.deliver()

    assert len(heard) == 2
    assert [record.getMessage() for record in caplog.records] == ["a broken listener failed"] * 2


def test_without_a_listener_there_is_no_queue_no_thread_and_nothing_is_collected() -> None:
    world = ManagerWorld()
    bus, threads = world.services.events, threading.active_count()

    bus.start()
    world.sql(WHOLE_TABLE)
    Workers(world.services, count=1).run_next()

    assert (world.registry.on_commit, bus._queue, threading.active_count()) == (None, None, threads)
    assert bus.stop(0.0)


def test_a_stop_delivers_what_happened_before_it_and_does_not_wait_for_a_slow_listener_forever() -> None:
    registry, heard, goes_on = MemoryRegistry(FakeClock(START)), list[Fact](), threading.Event()
    bus = Events(registry, FakeClock(START))

    def slow(_fact: Fact) -> None:
        goes_on.wait(WAIT_S)

    bus.subscribe("slow", slow)
    bus.subscribe("test", heard.append)
    assert registry.on_commit is not None
    bus.start()
    registry.on_commit((an_end(1), an_end(2)))

    assert not bus.stop(0.05)
    goes_on.set()
    assert bus.stop(WAIT_S)
    assert len(heard) == 2


def test_a_watch_is_called_before_each_step_in_the_thread_that_takes_it() -> None:
    world, seen = ManagerWorld(), list[tuple[str, threading.Thread]]()
    heard = Heard(world)
    world.sql(WHOLE_TABLE)

    def watch(_claimed: ClaimedRun, step: str) -> None:
        steps = [fact.step for fact in heard.facts() if isinstance(fact, StepDone)]
        assert step not in steps
        seen.append((step, threading.current_thread()))

    Workers(world.services, count=1, watch=watch).run_next()

    done = [fact.step for fact in heard.facts() if isinstance(fact, StepDone)]
    assert [step for step, _ in seen] == done
    assert {thread for _, thread in seen} == {threading.current_thread()}


def test_facts_from_two_threads_are_in_the_order_of_the_commits() -> None:
    world = ManagerWorld()
    heard = Heard(world)
    world.sql(WHOLE_TABLE)
    begin = threading.Barrier(3)

    def work() -> None:
        begin.wait(WAIT_S)
        for _ in range(50):
            world.work()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    begin.wait(WAIT_S)
    for minute in range(30):
        world.tick(START + timedelta(minutes=minute), "totals", key=None)
    for thread in threads:
        thread.join(WAIT_S)
    world.work()

    order: dict[str, list[type[Fact]]] = {}
    for fact in heard.facts():
        if isinstance(fact, RunRequested | RunClaimed | RunEnded):
            order.setdefault(fact.run.run_id, []).append(type(fact))
    assert len(order) > 1
    assert {tuple(kinds) for kinds in order.values()} <= {
        (RunRequested, RunClaimed, RunEnded),
        (RunRequested, RunEnded),
    }
