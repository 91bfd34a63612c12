"""The first refresh of a table: when it happens, and that a failed one is made up for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.model.partition import WHOLE, PartitionSpec
from mt_core.model.run import RunKind, RunStatus
from mt_core.tables.settings import InitialRefresh
from tests.support.manager_world import DAILY, ManagerWorld

ORDERS = "lake.default.orders"
PAST = [{"ds": f"2026-02-{number:02}", "amount": number} for number in range(1, 29)]


def created(initial_refresh: InitialRefresh) -> ManagerWorld:
    """A daily table over a month of past orders."""
    world = ManagerWorld(initial_refresh=initial_refresh)
    world.engine.commit(ORDERS, PAST)
    world.sql(DAILY)
    return world


def tick_days(world: ManagerWorld, days: int) -> None:
    for _ in range(days):
        world.clock.advance(timedelta(days=1))
        world.tick(world.latest_point())
        world.work()


def test_the_past_is_filled_at_the_next_tick_when_the_first_refresh_failed(
    world_created: ManagerWorld,
) -> None:
    world = world_created
    world.engine.failing["write"] = RuntimeError("object store answered 503")
    world.work()
    after_create = world.rows()

    tick_days(world, 1)

    assert after_create == []
    assert [(run.kind, run.status, run.scope) for run in world.runs()] == [
        (RunKind.INITIAL, RunStatus.FAILED, WHOLE),
        (RunKind.PERIODIC, RunStatus.SUCCEEDED, WHOLE),
    ]
    assert world.rows() == PAST
    assert world.table().rebuild_due is None


@pytest.fixture
def world_created() -> ManagerWorld:
    return created(InitialRefresh.ON_CREATE)


def test_the_past_is_filled_when_the_first_refresh_lost_its_process_for_good(
    world_created: ManagerWorld,
) -> None:
    for _ in range(4):
        world_created.work(stop_before="publish: commit")
        world_created.clock.advance(timedelta(minutes=2))
        world_created.ledger.recover()
    world_created.work()

    tick_days(world_created, 1)

    assert [run.status for run in world_created.runs()] == [RunStatus.FAILED, RunStatus.SUCCEEDED]
    assert world_created.rows() == PAST


def test_the_whole_table_stays_due_until_a_run_of_it_has_succeeded(world_created: ManagerWorld) -> None:
    world = world_created
    world.engine.poisoned = {PartitionSpec.of({"ds": "2026-02-10"})}
    tick_days(world, 3)
    due = world.table().rebuild_due
    world.engine.poisoned = set()

    tick_days(world, 1)

    assert due is not None
    assert world.rows() == PAST


def test_a_first_refresh_that_succeeded_leaves_single_partitions_to_the_ticks(
    world_created: ManagerWorld,
) -> None:
    world_created.work()

    tick_days(world_created, 1)

    assert world_created.table().rebuild_due is None
    assert not world_created.runs()[-1].scope.whole


def test_on_schedule_the_first_tick_takes_the_whole_table_and_the_second_a_partition() -> None:
    world = created(InitialRefresh.ON_SCHEDULE)

    tick_days(world, 2)

    assert [(run.kind, run.scope.whole) for run in world.runs()] == [
        (RunKind.PERIODIC, True),
        (RunKind.PERIODIC, False),
    ]
    assert world.rows() == PAST


def test_none_refreshes_only_the_partitions_that_schedule_times_name() -> None:
    world = created(InitialRefresh.NONE)

    tick_days(world, 2)

    assert [run.scope.whole for run in world.runs()] == [False, False]
    assert world.rows() == []


def test_runs_of_whole_tables_have_the_token_of_the_statement_that_asked_for_them() -> None:
    world = ManagerWorld()
    world.engine.create_source("lake.default.returns", [{"ds": "2026-03-01", "amount": 1}])
    world.context = replace(world.context, caller="anna")
    world.sql(DAILY)
    world.context = replace(world.context, caller="ben")
    world.sql("ALTER MATERIALIZED TABLE daily AS SELECT ds, amount FROM lake.default.returns")
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    world.work()
    del world.engine.storages[world.table().identifier]
    world.context = replace(world.context, caller="cleo")
    world.sql("ALTER MATERIALIZED TABLE daily RESUME")

    asked = {(run.kind, run.requested_by) for run in world.runs()}

    assert asked == {(RunKind.INITIAL, "anna"), (RunKind.REBUILD, "ben"), (RunKind.REBUILD, "cleo")}
