"""Tables whose refreshes fail by their query, time after time: they are suspended with the reason."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.errors import EngineError, MtError, QueryFailed
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshStatus, SuspendedBy
from mt_core.tables.upkeep.reconcile import reconcile
from tests.support.manager_world import COMPUTED_TABLE, DAILY, ManagerWorld

ORDERS = "lake.default.orders"
BY = "5 failed schedule times in a row"
DIVIDED = QueryFailed("division by zero", error_class="DIVIDE_BY_ZERO")


@pytest.fixture
def world() -> ManagerWorld:
    """An hourly table without partitions, filled by CREATE."""
    made = ManagerWorld()
    made.sql(COMPUTED_TABLE)
    made.work()
    return made


def tick_and_fail(world: ManagerWorld, times: int, error: MtError = DIVIDED) -> None:
    """Let so many schedule times pass, each with a changed source and a refresh that fails."""
    for _ in range(times):
        world.clock.advance(timedelta(hours=1))
        world.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": world.clock.now().hour}])
        world.engine.failing["write"] = error
        run = world.tick(world.latest_point("totals"), "totals")
        world.work()
        assert world.run(run.run_id).status is RunStatus.FAILED


def test_a_table_whose_query_fails_at_five_schedule_times_in_a_row_is_suspended_with_the_reason(
    world: ManagerWorld,
) -> None:
    tick_and_fail(world, 5)

    done = reconcile(world.services)

    table = world.table("totals")
    assert done == ["suspended lake.default.totals after 5 failed schedule times in a row"]
    assert (table.status, table.status_by, table.status_reason, table.suspended_by) == (
        RefreshStatus.SUSPENDED,
        BY,
        "division by zero",
        SuspendedBy.FAILURES,
    )
    assert [workflow.paused for workflow in world.scheduler.workflows.values()] == [True]
    assert reconcile(world.services) == []


def test_show_and_describe_say_why_a_table_was_suspended(world: ManagerWorld) -> None:
    tick_and_fail(world, 5)
    reconcile(world.services)

    (shown,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
    facts = {row["name"]: row["type"] for row in world.show("DESCRIBE EXTENDED totals")}

    assert (shown["status"], shown["status by"]) == ("SUSPENDED", f"{BY}: division by zero")
    assert facts["status"] == f"SUSPENDED, by {BY} at 2026-03-01 17:00:00: division by zero"


def test_four_failures_and_a_success_are_no_row_of_five(world: ManagerWorld) -> None:
    tick_and_fail(world, 4)
    world.clock.advance(timedelta(hours=1))
    world.tick(world.latest_point("totals"), "totals")
    world.work()
    tick_and_fail(world, 4)

    assert reconcile(world.services) == []
    assert world.table("totals").status is RefreshStatus.ACTIVATED


def test_a_refresh_by_hand_that_succeeds_ends_the_row(world: ManagerWorld) -> None:
    tick_and_fail(world, 4)
    world.sql("ALTER MATERIALIZED TABLE totals REFRESH")
    world.work()
    tick_and_fail(world, 1)

    assert reconcile(world.services) == []


@pytest.mark.parametrize(
    "error",
    [
        EngineError("the store is away"),
        QueryFailed("connection refused", error_class="FAILED_JDBC.UNCLASSIFIED"),
        QueryFailed("Job aborted due to stage failure"),
    ],
)
def test_failures_of_engine_store_and_sources_suspend_nothing(world: ManagerWorld, error: MtError) -> None:
    tick_and_fail(world, 9, error)

    assert reconcile(world.services) == []
    assert world.table("totals").status is RefreshStatus.ACTIVATED


def test_a_schedule_time_that_is_tried_again_counts_once(world: ManagerWorld) -> None:
    tick_and_fail(world, 4)
    for _ in range(3):
        world.engine.failing["write"] = DIVIDED
        world.tick(world.latest_point("totals"), "totals")
        world.work()

    assert reconcile(world.services) == []


def test_schedule_times_that_fail_together_and_then_alone_count_once_each() -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.work()
    world.pass_days(2)
    world.engine.commit(ORDERS, [{"ds": f"2026-03-0{number}", "amount": number} for number in range(1, 10)])
    world.engine.failing["write"] = DIVIDED
    first, second = world.latest_point() - timedelta(days=1), world.latest_point()
    world.tick(second)

    while (claimed := world.claim()) is not None:
        world.engine.failing["write"] = DIVIDED
        for _ in world.attempt(claimed):
            pass

    assert [run.status for run in world.runs()[1:]] == [RunStatus.FAILED] * 3
    assert set(world.table().failed_times) == {first, second}


def test_the_count_survives_a_restart_and_the_gateway_that_comes_suspends(world: ManagerWorld) -> None:
    tick_and_fail(world, 3)
    world.restart()
    tick_and_fail(world, 2)
    world.restart()

    assert reconcile(world.services) == [
        "suspended lake.default.totals after 5 failed schedule times in a row"
    ]


def test_resume_begins_to_count_from_zero(world: ManagerWorld) -> None:
    tick_and_fail(world, 5)
    reconcile(world.services)

    world.sql("ALTER MATERIALIZED TABLE totals RESUME")
    assert (world.table("totals").status_reason, world.table("totals").failed_times) == (None, ())
    tick_and_fail(world, 4)

    assert reconcile(world.services) == []
    tick_and_fail(world, 1)
    assert len(reconcile(world.services)) == 1


def test_a_suspension_that_lost_its_process_is_finished_with_its_reason(world: ManagerWorld) -> None:
    tick_and_fail(world, 5)
    world.scheduler.failing["modify"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reconcile(world.services)
    world.restart()

    reconcile(world.services)

    table = world.table("totals")
    assert (table.status, table.status_by, table.status_reason) == (
        RefreshStatus.SUSPENDED,
        BY,
        "division by zero",
    )
    assert table.intent is None


def test_a_scheduler_that_is_away_is_asked_again_at_the_next_pass(world: ManagerWorld) -> None:
    tick_and_fail(world, 5)
    world.scheduler.down = True
    reconcile(world.services)
    assert world.table("totals").status is RefreshStatus.ACTIVATED
    world.scheduler.down = False

    reconcile(world.services)

    assert world.table("totals").status is RefreshStatus.SUSPENDED
