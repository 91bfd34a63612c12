"""Cancel takes one requester away; when none is left, the work ends and publishes nothing."""

from __future__ import annotations

import pytest

from mt_core.errors import OperationNotFound
from mt_core.model.run import RefreshRun, RunStatus
from tests.support.manager_world import ManagerWorld
from tests.unit.tables.daily_table import ORDERS, daily_world, manual, statuses


@pytest.fixture
def world() -> ManagerWorld:
    return daily_world()


def cancel(world: ManagerWorld, run: RefreshRun) -> RefreshRun:
    return world.manager.requests.cancel_run(run.run_id)


def test_a_queued_run_that_its_requester_cancels_is_canceled_at_once(world: ManagerWorld) -> None:
    run = manual(world)

    canceled = cancel(world, run)
    steps = world.work()

    assert (canceled.status, canceled.reason) == (RunStatus.CANCELED, "cancelled by its requesters")
    assert steps == []
    assert cancel(world, run).status is RunStatus.CANCELED


@pytest.mark.parametrize("leaver", [0, 1])
def test_when_one_of_two_requesters_cancels_the_run_goes_on_for_the_other(
    world: ManagerWorld, leaver: int
) -> None:
    runs = [manual(world, {"ds": "2026-03-01"}), manual(world, {"ds": "2026-03-02"})]

    cancel(world, runs[leaver])
    world.work()

    assert world.run(runs[1 - leaver].run_id).status is RunStatus.SUCCEEDED
    assert statuses(world) == [RunStatus.SUCCEEDED, RunStatus.COALESCED]


def test_when_both_requesters_cancel_nothing_is_left_to_do(world: ManagerWorld) -> None:
    runs = [manual(world, {"ds": "2026-03-01"}), manual(world, {"ds": "2026-03-02"})]

    for run in runs:
        cancel(world, run)

    assert {world.run(run.run_id).status for run in runs} == {RunStatus.CANCELED}
    assert world.work() == []


def test_a_running_run_that_is_cancelled_ends_canceled_and_publishes_nothing(world: ManagerWorld) -> None:
    run = manual(world)
    rows, writes = world.rows(), []

    def cancel_meanwhile(write):
        writes.append(write.job_id)
        cancel(world, run)

    world.engine.on_write = cancel_meanwhile
    world.engine.commit(ORDERS, [{"ds": "2026-03-02", "amount": 2}])

    world.work()

    assert world.run(run.run_id).status is RunStatus.CANCELED
    assert world.rows() == rows
    assert len(writes) == 1
    assert world.engine.storages[world.table().identifier].branches == {}


@pytest.mark.parametrize("step", ["decide", "write", "staged", "publish: read"])
def test_a_cancel_at_any_step_before_the_publish_ends_the_run_canceled(
    world: ManagerWorld, step: str
) -> None:
    run = manual(world)
    world.engine.commit(ORDERS, [{"ds": "2026-03-02", "amount": 2}])
    rows = world.rows()
    claimed = world.claim()
    assert claimed is not None

    for name in world.attempt(claimed):
        if name == step:
            cancel(world, run)

    assert world.run(run.run_id).status is RunStatus.CANCELED
    assert world.rows() == rows


def test_a_run_whose_process_was_lost_after_it_was_cancelled_ends_canceled(world: ManagerWorld) -> None:
    run = manual(world)
    world.work(stop_before="publish: read")
    cancel(world, run)
    world.restart()
    world.recover()

    world.work()

    assert world.run(run.run_id).status is RunStatus.CANCELED


def test_a_cancel_that_comes_after_the_end_changes_nothing(world: ManagerWorld) -> None:
    runs = [manual(world, {"ds": "2026-03-01"}), manual(world, {"ds": "2026-03-02"})]
    world.work()

    for run in runs:
        cancel(world, run)

    assert {world.run(run.run_id).status for run in runs} == {RunStatus.SUCCEEDED}


def test_a_cancel_of_a_refresh_that_nobody_knows_is_refused(world: ManagerWorld) -> None:
    refusal = world.refused(lambda: world.manager.requests.cancel_run("nobody"), OperationNotFound)

    assert "nobody" in refusal


def test_drop_ends_waiting_and_running_requests_as_canceled(world: ManagerWorld) -> None:
    table_id = world.table().table_id
    first, second = manual(world, {"ds": "2026-03-01"}), manual(world, {"ds": "2026-03-02"})
    claimed = world.claim()
    assert claimed is not None
    third = manual(world)

    def drop_meanwhile(write):
        world.sql("DROP MATERIALIZED TABLE daily")

    world.engine.on_write = drop_meanwhile
    list(world.attempt(claimed))

    assert {world.run(run.run_id).status for run in (first, second, third)} == {RunStatus.CANCELED}
    assert world.run(first.run_id).table_id == table_id
    assert world.engine.storages == {}


def test_a_cancel_counts_though_the_engine_is_away(world: ManagerWorld) -> None:
    run = manual(world)
    world.work(stop_before="publish: read")
    world.engine.away = True

    cancel(world, run)
    world.engine.away = False
    world.restart()
    world.recover()
    world.work()

    assert world.run(run.run_id).status is RunStatus.CANCELED


def test_a_drop_while_the_engine_is_away_succeeds_with_a_warning_and_the_rest_follows(
    world: ManagerWorld,
) -> None:
    run = manual(world)
    world.work(stop_before="publish: read")
    world.engine.away = True

    outcome = world.sql("DROP MATERIALIZED TABLE daily")
    world.engine.away = False
    world.restart()
    world.recover()
    world.work()

    assert "away" in outcome.warnings[0]
    assert world.run(run.run_id).status is RunStatus.CANCELED
    state = world.state()
    assert (state["tables"], state["tombstones"], state["workflows"], state["storages"]) == ([], [], {}, {})
