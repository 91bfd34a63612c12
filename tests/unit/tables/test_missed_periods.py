"""Missed, failed, suspended and paused periods heal themselves at the next tick."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mt_core.errors import IllegalStatus, TableInitializing
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from tests.support.manager_world import DAILY, START, WHOLE_TABLE, ManagerWorld

ORDERS = "lake.default.orders"
HOURLY = """CREATE MATERIALIZED TABLE hourly PARTITIONED BY (ds, hh)
WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd', 'partition.fields.hh.date-formatter' = 'HH')
FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = FULL AS SELECT * FROM clicks"""


def day(number: int) -> datetime:
    """The midnight at which that day of March 2026 begins."""
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=number - 1)


def ds(*numbers: int) -> Scope:
    return Scope.of(PartitionSpec.of({"ds": f"{day(number):%Y-%m-%d}"}) for number in numbers)


def rows_of(*numbers: int) -> list[dict[str, object]]:
    return [{"ds": f"{day(number):%Y-%m-%d}", "amount": number} for number in numbers]


def daily(world: ManagerWorld, *, days: int) -> None:
    """A daily table, refreshed at its creation on March 1st; then *days* days pass,
    each with a row of its own.
    """
    world.sql(DAILY)
    world.work()
    world.pass_days(days)
    world.engine.commit(ORDERS, rows_of(*range(1, days + 1)))


def summary(run: RefreshRun) -> tuple[RunStatus, Scope, tuple[datetime, ...]]:
    return run.status, run.scope, run.points


def periodic(world: ManagerWorld, name: str = "daily") -> list[tuple[RunStatus, Scope, tuple[datetime, ...]]]:
    return [summary(run) for run in world.runs(name) if run.kind is RunKind.PERIODIC]


def points_covered(world: ManagerWorld, name: str = "daily") -> set[datetime]:
    done = {RunStatus.SUCCEEDED, RunStatus.SKIPPED}
    return {point for run in world.runs(name) if run.status in done for point in run.points}


def test_one_run_makes_up_the_partitions_of_three_ticks_for_which_the_gateway_was_down(
    world: ManagerWorld,
) -> None:
    daily(world, days=3)

    world.tick(day(4))
    world.work()

    assert periodic(world) == [(RunStatus.SUCCEEDED, ds(1, 2, 3), (day(4), day(3), day(2)))]
    assert world.rows() == rows_of(1, 2, 3)
    assert world.table().covered_until == day(4)


def test_a_partition_whose_tick_failed_is_taken_by_the_next_tick(world: ManagerWorld) -> None:
    daily(world, days=1)
    world.engine.failing["write"] = RuntimeError("no executor")
    world.tick(day(2))
    world.work()
    world.pass_days(1)
    world.engine.commit(ORDERS, rows_of(1, 2))

    world.tick(day(3))
    world.work()

    assert periodic(world) == [
        (RunStatus.FAILED, ds(1), (day(2),)),
        (RunStatus.SUCCEEDED, ds(1, 2), (day(3), day(2))),
    ]
    assert world.rows() == rows_of(1, 2)


def test_a_poisoned_partition_costs_its_neighbours_nothing_and_heals_when_it_is_cured(
    world: ManagerWorld,
) -> None:
    daily(world, days=3)
    (poison,) = ds(2).specs or ()
    world.engine.poisoned = {poison}

    union = world.tick(day(4))
    world.work()

    assert periodic(world) == [
        (RunStatus.FAILED, ds(1, 2, 3), (day(4), day(3), day(2))),
        (RunStatus.SUCCEEDED, ds(3), (day(4),)),
        (RunStatus.FAILED, ds(2), (day(3),)),
        (RunStatus.SUCCEEDED, ds(1), (day(2),)),
    ]
    assert {run.retry_of for run in world.runs()[2:]} == {union.run_id}
    assert world.rows() == rows_of(1, 3)
    assert world.table().covered_until == day(2)

    world.engine.poisoned = set()
    world.pass_days(1)
    world.engine.commit(ORDERS, rows_of(1, 2, 3, 4))
    world.tick(day(5))
    world.work()

    assert periodic(world)[-2:] == [
        (RunStatus.SUCCEEDED, ds(4), (day(5),)),
        (RunStatus.SUCCEEDED, ds(2), (day(3),)),
    ]
    assert world.rows() == rows_of(1, 2, 3, 4)
    assert world.table().covered_until == day(5)


def test_after_a_suspended_week_and_resume_the_next_tick_leaves_no_partition_missing(
    world: ManagerWorld,
) -> None:
    daily(world, days=1)
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    for number in range(2, 9):
        world.tick(day(number))
        world.pass_days(1)
    world.engine.commit(ORDERS, rows_of(*range(1, 9)))
    world.sql("ALTER MATERIALIZED TABLE daily RESUME")

    world.tick(day(9))
    world.work()

    assert [run[0] for run in periodic(world)] == [RunStatus.SKIPPED] * 7 + [RunStatus.SUCCEEDED]
    assert world.rows() == rows_of(*range(1, 9))
    assert world.table().covered_until == day(9)


def test_resume_without_catch_up_forgets_what_was_missed(world: ManagerWorld) -> None:
    daily(world, days=7)
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    world.sql("ALTER MATERIALIZED TABLE daily RESUME WITH ('catch-up' = 'none')")
    world.pass_days(1)
    world.engine.commit(ORDERS, rows_of(*range(1, 9)))

    world.tick(day(9))
    world.work()

    assert periodic(world) == [(RunStatus.SUCCEEDED, ds(8), (day(9),))]
    assert world.rows() == rows_of(1, 8)
    assert dict(world.table().dynamic_options) == {}


def test_a_catch_up_that_does_not_exist_is_refused_and_the_table_stays_suspended(world: ManagerWorld) -> None:
    daily(world, days=1)
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    before = world.state()

    refusal = world.refused(
        lambda: world.sql("ALTER MATERIALIZED TABLE daily RESUME WITH ('catch-up' = 'some')"), IllegalStatus
    )

    assert "'all' (the default) or 'none'" in refusal
    assert world.state() == before


@pytest.mark.parametrize("order", [[4, 3, 2], [2, 4, 3], [4, 4, 4], [3, 2, 3, 4, 2]])
def test_ticks_out_of_order_or_repeated_leave_every_partition_refreshed(
    world: ManagerWorld, order: list[int]
) -> None:
    daily(world, days=3)

    for number in order:
        world.tick(day(number), key=None)
        world.work()

    assert world.rows() == rows_of(1, 2, 3)
    assert {run[0] for run in periodic(world)} <= {RunStatus.SUCCEEDED, RunStatus.SKIPPED}
    assert world.table().covered_until == day(4)


def test_a_late_tick_of_a_partition_that_is_done_changes_nothing(world: ManagerWorld) -> None:
    daily(world, days=3)
    world.tick(day(4))
    world.work()
    writes = world.engine.writes

    world.tick(day(2))
    world.work()

    assert periodic(world)[-1] == (RunStatus.SKIPPED, ds(1), (day(2),))
    assert world.engine.writes == writes


def test_more_due_partitions_than_a_run_may_take_go_to_further_runs_newest_first() -> None:
    world = ManagerWorld(max_partitions=3)
    daily(world, days=8)

    world.tick(day(9))
    world.work()

    assert periodic(world) == [
        (RunStatus.SUCCEEDED, ds(6, 7, 8), (day(9), day(8), day(7))),
        (RunStatus.SUCCEEDED, ds(3, 4, 5), (day(6), day(5), day(4))),
        (RunStatus.SUCCEEDED, ds(1, 2), (day(3), day(2))),
    ]
    assert world.rows() == rows_of(*range(1, 9))
    assert world.table().covered_until == day(9)


def test_a_further_run_takes_its_own_share_though_the_run_before_it_failed() -> None:
    world = ManagerWorld(max_partitions=2)
    daily(world, days=4)
    world.engine.failing["write"] = RuntimeError("no executor")

    world.tick(day(5))
    world.work()

    assert world.rows() == rows_of(1, 2, 3, 4)
    assert points_covered(world) == {day(2), day(3), day(4), day(5)}
    assert world.table().covered_until == day(5)


@pytest.mark.parametrize("point", [day(-5), day(3) + timedelta(hours=5)])
def test_a_request_for_a_point_that_is_not_due_refreshes_its_own_partition_only(
    world: ManagerWorld, point: datetime
) -> None:
    daily(world, days=4)
    own = (point - timedelta(days=1)).strftime("%Y-%m-%d")
    world.engine.commit(
        ORDERS, [{"ds": own, "amount": 70}, *[row for row in rows_of(1, 2, 3, 4) if row["ds"] != own]]
    )

    world.tick(point)
    world.work()

    assert periodic(world) == [(RunStatus.SUCCEEDED, Scope.of([PartitionSpec.of({"ds": own})]), (point,))]
    assert {"ds": own, "amount": 70} in world.rows()
    assert len(world.rows()) == 2
    assert world.table().covered_until == START


def test_a_request_for_a_point_that_has_not_passed_covers_nothing_and_catches_up_nothing(
    world: ManagerWorld,
) -> None:
    daily(world, days=2)

    world.tick(day(20))
    world.work()

    assert periodic(world) == [(RunStatus.SUCCEEDED, ds(19), ())]
    assert world.table().covered_until == START

    world.pass_days(18)
    world.engine.commit(ORDERS, rows_of(*range(1, 21)))
    world.tick(day(21))
    world.work()

    assert world.rows() == rows_of(*range(1, 21))


def test_a_tick_of_a_scheduler_whose_clock_is_a_little_ahead_counts(world: ManagerWorld) -> None:
    daily(world, days=1)
    world.clock.advance(day(3) - timedelta(seconds=20) - world.clock.now())
    world.engine.commit(ORDERS, rows_of(1, 2))

    world.tick(day(3))
    world.work()

    assert periodic(world) == [(RunStatus.SUCCEEDED, ds(1, 2), (day(3), day(2)))]
    assert world.table().covered_until == day(3)


def test_two_date_formatters_name_each_missed_hour(world: ManagerWorld) -> None:
    world.engine.create_source("lake.default.clicks", [{"ds": "2026-03-01", "hh": "11", "n": 0}])
    world.sql(HOURLY)
    world.work()
    hours = [START + timedelta(hours=number) for number in range(14)]
    rows = [{"ds": f"{hour:%Y-%m-%d}", "hh": f"{hour:%H}", "n": number} for number, hour in enumerate(hours)]
    world.clock.advance(timedelta(hours=14))
    world.engine.commit("lake.default.clicks", [{"ds": "2026-03-01", "hh": "11", "n": 0}, *rows])

    world.tick(START + timedelta(hours=14), "hourly")
    world.work()

    (run,) = periodic(world, "hourly")
    specs = [PartitionSpec.of({"ds": str(row["ds"]), "hh": str(row["hh"])}) for row in rows]
    assert run[:2] == (RunStatus.SUCCEEDED, Scope.of(specs))
    assert world.rows("hourly") == [{"ds": "2026-03-01", "hh": "11", "n": 0}, *rows]


def test_hours_of_one_partition_count_as_one_partition() -> None:
    world = ManagerWorld(max_partitions=2)
    world.sql(DAILY.replace("'1' DAY", "'1' HOUR"))
    world.work()
    world.pass_days(2)

    world.tick(day(3) + timedelta(hours=12))
    world.work()

    assert [(run[1], len(run[2])) for run in periodic(world)] == [(ds(2, 3), 36), (ds(1), 12)]
    assert world.table().covered_until == day(3) + timedelta(hours=12)


def test_a_table_without_date_formatter_makes_up_any_number_of_missed_ticks_by_one_run(
    world: ManagerWorld,
) -> None:
    world.sql(WHOLE_TABLE)
    world.work()
    world.pass_days(3)
    world.engine.commit(ORDERS, rows_of(1, 2, 3))

    world.tick(world.latest_point("totals"), "totals")
    world.work()

    assert periodic(world, "totals") == [(RunStatus.SUCCEEDED, WHOLE, (day(4) + timedelta(hours=12),))]
    assert world.rows("totals") == rows_of(1, 2, 3)


def test_missed_ticks_that_come_all_at_once_become_one_run(world: ManagerWorld) -> None:
    daily(world, days=3)

    ticks = [world.tick(day(number)) for number in (2, 3, 4)]
    world.work()

    assert [run.status for run in world.runs()[1:]] == [
        RunStatus.SUCCEEDED,
        RunStatus.COALESCED,
        RunStatus.COALESCED,
    ]
    assert {world.run(tick.run_id).status for tick in ticks} == {RunStatus.SUCCEEDED}
    assert world.rows() == rows_of(1, 2, 3)


def test_a_run_that_lost_its_process_still_covers_what_it_took(world: ManagerWorld) -> None:
    daily(world, days=3)
    world.tick(day(4))
    world.work(stop_before="publish: commit")
    world.restart()
    world.recover()

    world.work()

    assert periodic(world) == [(RunStatus.SUCCEEDED, ds(1, 2, 3), (day(4), day(3), day(2)))]
    assert world.runs()[-1].attempt == 2
    assert world.rows() == rows_of(1, 2, 3)


def test_a_shorter_freshness_loses_no_partition(world: ManagerWorld) -> None:
    daily(world, days=3)
    world.sql("ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '1' HOUR")

    world.tick(world.latest_point())
    world.work()

    assert world.rows() == rows_of(1, 2, 3)
    assert world.table().covered_until == day(4) + timedelta(hours=12)


def test_a_tick_that_overtakes_its_resume_is_asked_to_come_again_and_is_not_lost(world: ManagerWorld) -> None:
    daily(world, days=2)
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    modify, refusals = world.scheduler.modify_refresh_workflow, []

    def tick_at_once(operation):
        modify(operation)
        refusals.append(world.refused(lambda: world.tick(day(3)), TableInitializing))

    world.scheduler.modify_refresh_workflow = tick_at_once
    world.sql("ALTER MATERIALIZED TABLE daily RESUME")

    world.tick(day(3))
    world.work()

    assert len(refusals) == 1
    assert periodic(world) == [(RunStatus.SUCCEEDED, ds(1, 2), (day(3), day(2)))]
    assert world.rows() == rows_of(1, 2)
