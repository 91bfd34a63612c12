"""Runs are counted once, when they end, with what they did; continuous runs with each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mt_core.errors import ClusterLost, EngineUnavailable
from mt_core.metrics.instruments import Instruments
from mt_core.metrics.refreshes import RefreshCounters
from mt_core.model.run import BACKFILL, Batch, ReasonCode, RefreshRun, RunKind, RunStatus
from mt_core.tables import events
from mt_core.tables.events import RunClaimed, RunEnded, RunRequested, RunReturned
from mt_core.tables.registry import in_transaction
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld
from tests.support.registry_facts import NOON, a_run
from tests.support.scrape import Scrape
from tests.unit.tables.continuous_table import LiveTable

REFRESHES, LOST = "freshtable_refreshes_total", "freshtable_refresh_attempts_lost_total"
DURATION, DELAY = "freshtable_refresh_duration_seconds", "freshtable_refresh_schedule_delay_seconds"
ROWS, READ = "freshtable_refresh_rows_total", "freshtable_refresh_read_bytes_total"
BATCHES, LAG = "freshtable_batches_total", "freshtable_batch_lag_seconds"
KEY = ("kind", "outcome", "strategy", "reason_code")
SECOND = timedelta(seconds=1)


class Counted:
    """Counters that hear of the events of a world, or of single facts."""

    def __init__(self, world: ManagerWorld | None = None) -> None:
        self._world, self._instruments = world, Instruments()
        self.hear = RefreshCounters(self._instruments, "memory")
        if world is not None:
            world.services.events.deliver()
            world.services.events.subscribe("metrics", self.hear)

    @property
    def scrape(self) -> Scrape:
        if self._world is not None:
            self._world.services.events.deliver()
        return Scrape.of_instruments(self._instruments.registry)

    def by(self, name: str, *labels: str) -> Mapping[tuple[str, ...], float]:
        """Return the values that are not zero."""
        return {key: value for key, value in self.scrape.by(name, *labels).items() if value}


def ended(**changes: Any) -> RefreshRun:
    facts: dict[str, Any] = {
        "claim": 1,
        "status": RunStatus.SUCCEEDED,
        "started_at": NOON + SECOND,
        "finished_at": NOON + 5 * SECOND,
        "steps": {"queue": 1.0, "decide": 0.5, "write": 3.0, "publish": 0.4},
        "strategy": "append",
        "reason_code": ReasonCode.SOURCES_CHANGED,
    }
    return a_run(**{**facts, **changes})


# ------------------------------------------------------------------------------------------------------ runs


def test_runs_are_counted_by_kind_outcome_strategy_and_reason_once() -> None:
    world = ManagerWorld()
    counted = Counted(world)
    world.sql(WHOLE_TABLE)
    world.work()
    world.sql("ALTER MATERIALIZED TABLE totals REFRESH")
    world.work()
    world.engine.failing["write"] = EngineUnavailable("gone", alone=True)
    world.sql("ALTER MATERIALIZED TABLE totals REFRESH")
    world.work()

    with_ledger = {
        (run.kind.value, run.status.value, run.strategy or "", run.reason_code or "")
        for run in in_transaction(world.registry, lambda tx: tx.runs.newest())
    }

    assert counted.by(REFRESHES, *KEY).keys() == with_ledger
    assert sum(counted.by(REFRESHES).values()) == 3


def test_a_run_that_was_coalesced_or_skipped_without_a_worker_has_no_duration() -> None:
    counted = Counted()
    coalesced = a_run(status=RunStatus.COALESCED, finished_at=NOON)
    suspended = a_run(
        kind=RunKind.PERIODIC,
        status=RunStatus.SKIPPED,
        started_at=NOON,
        finished_at=NOON,
        reason_code=ReasonCode.TABLE_SUSPENDED,
    )

    for run in (coalesced, suspended):
        counted.hear(RunRequested(run=run))
        counted.hear(RunEnded(run=run))

    assert counted.by(REFRESHES, *KEY) == {
        ("MANUAL", "COALESCED", "", ""): 1,
        ("PERIODIC", "SKIPPED", "", "TABLE_SUSPENDED"): 1,
    }
    assert counted.by(f"{DURATION}_count", "step") == {}


def test_the_time_of_a_refresh_is_recorded_by_step_and_from_its_request_to_its_end() -> None:
    counted = Counted()

    counted.hear(RunEnded(run=ended()))

    assert counted.by(f"{DURATION}_sum", "step", "strategy") == {
        ("queue", "append"): 1.0,
        ("decide", "append"): 0.5,
        ("write", "append"): 3.0,
        ("publish", "append"): 0.4,
        ("total", "append"): 5.0,
    }


@pytest.mark.parametrize(
    "run",
    [
        ended(status=RunStatus.FAILED),
        ended(status=RunStatus.CANCELED),
        ended(kind=RunKind.VERIFY),
        ended(kind=RunKind.COMPACTION),
    ],
    ids=lambda run: f"{run.kind} {run.status}",
)
def test_a_run_that_did_not_refresh_is_counted_but_has_no_duration_and_no_rows(run: RefreshRun) -> None:
    counted = Counted()

    counted.hear(RunEnded(run=replace(run, rows_inserted=3, bytes_read=7)))

    assert sum(counted.by(REFRESHES).values()) == 1
    assert counted.by(f"{DURATION}_count") == {}
    assert (counted.by(ROWS), counted.by(READ)) == ({}, {})


def test_rows_are_counted_by_operation_and_unknown_numbers_as_none() -> None:
    counted = Counted()

    counted.hear(RunEnded(run=ended(rows_inserted=4, rows_updated=2, rows_deleted=1, bytes_read=100)))
    counted.hear(RunEnded(run=ended(rows_inserted=3, rows_updated=None, rows_deleted=None, bytes_read=None)))

    assert counted.by(ROWS, "operation") == {("insert",): 7, ("update",): 2, ("delete",): 1}
    assert counted.by(READ) == {(): 100}


# -------------------------------------------------------------------------------------------------- schedules


def test_the_delay_of_a_scheduler_is_the_time_from_the_schedule_time_to_its_request() -> None:
    counted = Counted()
    due = {"kind": RunKind.PERIODIC, "request_key": "k", "schedule_time": NOON - 3 * SECOND}

    counted.hear(RunRequested(run=a_run(**due)))
    counted.hear(RunRequested(run=a_run(**due, trigger="scheduled")))
    counted.hear(RunRequested(run=a_run(**{**due, "schedule_time": NOON + SECOND})))

    assert counted.by(f"{DELAY}_sum", "scheduler") == {("memory",): 6.0}
    assert counted.by(f"{DELAY}_count", "scheduler") == {("memory",): 3}


@pytest.mark.parametrize(
    "changes",
    [
        {"trigger": BACKFILL},
        {"retry_of": "an earlier run"},
        {"kind": RunKind.MANUAL},
        {"request_key": None},
    ],
    ids=str,
)
def test_a_request_that_is_not_of_a_schedule_has_no_delay(changes: dict[str, Any]) -> None:
    counted = Counted()
    due: dict[str, Any] = {"kind": RunKind.PERIODIC, "request_key": "k", "schedule_time": NOON - SECOND}

    counted.hear(RunRequested(run=a_run(**{**due, **changes})))

    assert counted.by(f"{DELAY}_count") == {}


# ----------------------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize(
    ("lost", "cause"),
    [
        (EngineUnavailable("gone", alone=True), "spark"),
        (EngineUnavailable("gone"), "spark"),
        (ClusterLost("no executor"), "cluster"),
    ],
    ids=["alone", "shared", "cluster"],
)
def test_a_run_that_loses_spark_is_one_lost_attempt_and_one_ended_run(
    lost: EngineUnavailable, cause: str
) -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.work()
    counted = Counted(world)
    world.engine.failing["write"] = lost
    world.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    world.work()

    assert counted.by(LOST, "cause") == {(cause,): 1}
    assert counted.by(REFRESHES, "kind", "outcome") == {("MANUAL", "SUCCEEDED"): 1}


def test_a_run_whose_gateway_was_lost_is_a_lost_attempt_of_the_next_gateway() -> None:
    counted, run = Counted(), a_run(status=RunStatus.QUEUED, reason_code=ReasonCode.PROCESS_LOST)

    counted.hear(RunReturned(run=run))

    assert counted.by(LOST, "cause") == {("gateway",): 1}


# ---------------------------------------------------------------------------------------------------- batches


def test_each_batch_is_counted_when_it_is_published_and_not_again_when_its_run_ends() -> None:
    world = LiveTable()
    counted = Counted(world)
    for amount in (10, 11, 12):
        world.append(amount)
        world.look(after=10)

    published = counted.scrape
    world.look(after=120)
    world.look(after=120)
    after_end = counted.scrape

    [run] = [run for run in world.stretches() if run.batches]
    assert run.status is RunStatus.SUCCEEDED
    for scrape in (published, after_end):
        assert sum(scrape.by(BATCHES).values()) == run.batches == 3
        assert sum(scrape.by("freshtable_batch_duration_seconds_count").values()) == 3
        assert scrape.total(ROWS, operation="insert") == run.rows_inserted
        assert scrape.total(READ) == (run.bytes_read or 0)
    assert counted.by(f"{DURATION}_count") == {}


def test_batches_whose_events_were_dropped_are_counted_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = LiveTable()
    counted = Counted(world)
    world.append(10)
    world.lookout.poll()
    monkeypatch.setattr(events, "CAPACITY", 0)
    for amount in (11, 12):
        world.append(amount)
        world.look(after=10)
    assert world.services.events.dropped > 0
    monkeypatch.undo()

    world.append(13)
    world.look(after=10)

    [run] = world.stretches()
    assert sum(counted.by(BATCHES).values()) == run.batches
    assert counted.scrape.total(ROWS, operation="insert") == run.rows_inserted


def test_the_lag_of_a_batch_is_recorded_if_it_is_known() -> None:
    counted, run = Counted(), a_run(kind=RunKind.CONTINUOUS, status=RunStatus.RUNNING, claim=1)
    batches = tuple(
        Batch(number=number, began_at=NOON, seconds=1.0, lag=lag, strategy="merge", rows=2, snapshot_id="s")
        for number, lag in enumerate((None, 4.0), start=1)
    )
    counted.hear(RunClaimed(run=run))

    counted.hear(RunEnded(run=replace(run, status=RunStatus.SUCCEEDED, batches=2, recent=batches)))

    assert counted.by(f"{LAG}_sum", "strategy") == {("merge",): 4.0}
    assert counted.by(f"{LAG}_count", "strategy") == {("merge",): 1}


def test_a_continuous_run_of_a_lost_gateway_is_a_lost_attempt_and_its_batches_were_counted_there() -> None:
    counted = Counted()
    batch = Batch(number=1, began_at=NOON, seconds=1.0, lag=None, strategy="merge", rows=2, snapshot_id="s")
    run = a_run(
        kind=RunKind.CONTINUOUS,
        status=RunStatus.CANCELED,
        claim=1,
        batches=1,
        recent=(batch,),
        rows_inserted=2,
        reason_code=ReasonCode.PROCESS_LOST,
        finished_at=NOON,
    )

    counted.hear(RunEnded(run=run))

    assert counted.by(LOST, "cause") == {("gateway",): 1}
    assert counted.by(REFRESHES, *KEY) == {("CONTINUOUS", "CANCELED", "", "PROCESS_LOST"): 1}
    assert (counted.by(BATCHES), counted.by(ROWS)) == ({}, {})
