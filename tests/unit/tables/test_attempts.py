"""The same request asked for by several attempts of its requester, as a scheduler's task that is retried
or cleared does.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.tables.table_commands import RefreshRequest
from tests.support.manager_world import ManagerWorld
from tests.unit.tables.daily_table import daily_world, statuses

KEY = "table/dag/run/task/-1/0/2026-03-03T00:00:00"


@pytest.fixture
def world() -> ManagerWorld:
    made = daily_world()
    made.engine.commit("lake.default.orders", [{"ds": f"2026-03-0{day}", "amount": 4} for day in (1, 2)])
    return made


def ask(world: ManagerWorld, attempt: int, *, key: str = KEY, at: str = "2026-03-03 00:00:00") -> RefreshRun:
    request = RefreshRequest(
        identifier_text="lake.default.daily",
        is_periodic=True,
        schedule_time=at,
        request_key=key,
        table_id=world.table().table_id,
        attempt=attempt,
    )
    return world.manager.requests.request_refresh(request)


def cancel(world: ManagerWorld, run: RefreshRun, attempt: int | None) -> RefreshRun:
    return world.manager.requests.cancel_run(run.run_id, attempt)


def test_a_retried_task_attaches_to_the_run_that_is_open(world: ManagerWorld) -> None:
    first = ask(world, 1)
    world.claim()

    second = ask(world, 2)

    assert second.run_id == first.run_id
    assert statuses(world) == [RunStatus.RUNNING]
    assert world.run(first.run_id).request_attempt == 2


def test_a_retried_task_is_told_of_the_run_that_was_published_meanwhile(world: ManagerWorld) -> None:
    first = ask(world, 1)
    world.work()

    second = ask(world, 2)

    assert second.run_id == first.run_id
    assert world.run(first.run_id).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("claimed", [False, True])
def test_a_late_cancel_of_an_old_attempt_is_ignored(world: ManagerWorld, claimed: bool) -> None:
    run = ask(world, 1)
    if claimed:
        world.claim()
    ask(world, 2)

    late = cancel(world, run, 1)

    assert (late.status, late.cancel_requested) == (RunStatus.RUNNING if claimed else RunStatus.QUEUED, False)
    assert cancel(world, run, 2).cancel_requested


def test_a_cancel_without_an_attempt_always_counts(world: ManagerWorld) -> None:
    run = ask(world, 2)

    assert cancel(world, run, None).status is RunStatus.CANCELED


def test_a_late_cancel_finds_the_run_that_took_the_place_of_a_failed_one(world: ManagerWorld) -> None:
    old = ask(world, 1)
    cancel(world, old, 1)
    new = ask(world, 2)

    late = cancel(world, old, 1)

    assert (late.run_id, late.status) == (old.run_id, RunStatus.CANCELED)
    assert (new.retry_of, world.run(new.run_id).status) == (old.run_id, RunStatus.QUEUED)


def test_a_task_that_asks_again_while_its_cancelled_run_is_ending_gets_a_new_run(world: ManagerWorld) -> None:
    old = ask(world, 1)
    claimed = world.claim()
    assert claimed is not None
    cancel(world, old, 1)

    new = ask(world, 2)
    list(world.attempt(claimed))
    world.work()

    assert new.run_id != old.run_id
    assert world.run(old.run_id).status is RunStatus.CANCELED
    assert world.run(new.run_id).status is RunStatus.SUCCEEDED


def test_an_old_attempt_of_a_request_that_is_covered_by_another_run_does_not_take_it_away(
    world: ManagerWorld,
) -> None:
    ask(world, 1, key="other", at="2026-03-02 00:00:00")
    covered = ask(world, 1)
    ask(world, 2)

    late = cancel(world, covered, 1)
    world.work()

    assert not late.cancel_requested
    assert world.run(covered.run_id).status is RunStatus.SUCCEEDED


def test_a_run_started_by_hand_between_two_schedule_times_refreshes_the_partition_of_that_time(
    world: ManagerWorld,
) -> None:
    world.engine.commit(
        "lake.default.orders", [{"ds": "2026-02-01", "amount": 5}, {"ds": "2026-03-02", "amount": 6}]
    )

    run = ask(world, 1, at="2026-03-03 09:30:00")
    world.work()

    done = world.run(run.run_id)
    assert (done.status, str(done.scope)) == (RunStatus.SUCCEEDED, "ds=2026-03-02")
    assert {"ds": "2026-03-02", "amount": 6} in world.rows()


def test_a_backfill_refreshes_the_partitions_of_the_past(world: ManagerWorld) -> None:
    world.engine.commit(
        "lake.default.orders", [{"ds": f"2026-02-0{day}", "amount": day} for day in (1, 2, 3)]
    )

    runs = [ask(world, 1, key=f"backfill-{day}", at=f"2026-02-0{day + 1} 00:00:00") for day in (1, 2, 3)]
    world.work()

    assert {world.run(run.run_id).status for run in runs} == {RunStatus.SUCCEEDED}
    assert [row["amount"] for row in world.rows() if str(row["ds"]) < "2026-02-04"] == [1, 2, 3]
    assert world.table().covered_until < datetime(2026, 3, 3, tzinfo=UTC)
