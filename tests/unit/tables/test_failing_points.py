"""Schedule times that fail alone: few tries behind all other work, out of the way of the others,
until they heal.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mt_core.errors import QueryFailed
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld

ORDERS = "lake.default.orders"
FAILED, SUCCEEDED, QUEUED = RunStatus.FAILED, RunStatus.SUCCEEDED, RunStatus.QUEUED


@pytest.fixture
def world() -> ManagerWorld:
    """A daily table with nine days to make up."""
    made = ManagerWorld()
    made.sql(DAILY)
    made.work()
    made.pass_days(9)
    made.engine.commit(ORDERS, [{"ds": f"2026-03-0{number}", "amount": number} for number in range(1, 10)])
    return made


def day(number: int) -> datetime:
    """The midnight at which that day of March 2026 begins."""
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=number - 1)


def spec(number: int) -> PartitionSpec:
    return PartitionSpec.of({"ds": f"{day(number):%Y-%m-%d}"})


def poison(world: ManagerWorld, *numbers: int) -> None:
    world.engine.poisoned = {spec(number) for number in numbers}


def periodic(world: ManagerWorld, after: int = 0) -> list[tuple[RunStatus, Scope]]:
    runs = [run for run in world.runs() if run.kind is RunKind.PERIODIC]
    return [(run.status, run.scope) for run in runs[after:]]


def one(status: RunStatus, *numbers: int) -> tuple[RunStatus, Scope]:
    return status, Scope.of(spec(number) for number in numbers)


def next_tick(world: ManagerWorld) -> None:
    world.pass_days(1)
    world.engine.commit(ORDERS, [{"ds": f"2026-03-{number:02}", "amount": number} for number in range(1, 28)])
    world.tick(world.latest_point())


def test_a_broken_source_is_tried_three_times_not_once_for_each_missed_partition(world: ManagerWorld) -> None:
    poison(world, *range(1, 20))

    world.tick(day(10))
    world.work()

    assert periodic(world) == [one(FAILED, *range(1, 10)), one(FAILED, 9), one(FAILED, 8), one(FAILED, 7)]
    assert world.table().failing == (day(10), day(9), day(8))


def test_a_query_that_cannot_be_understood_is_tried_once_not_for_single_partitions(
    world: ManagerWorld,
) -> None:
    world.engine.failing["read_vector"] = QueryFailed(
        "[UNRESOLVED_COLUMN] amont", error_class="UNRESOLVED_COLUMN"
    )

    world.tick(day(10))
    world.work()

    assert periodic(world) == [one(FAILED, *range(1, 10))]
    assert world.table().failing == ()


def test_what_a_broken_query_left_undone_is_made_up_when_it_is_whole_again(world: ManagerWorld) -> None:
    world.engine.failing["read_vector"] = QueryFailed(
        "[UNRESOLVED_COLUMN] amont", error_class="UNRESOLVED_COLUMN"
    )
    world.tick(day(10))
    world.work()

    next_tick(world)
    world.work()

    assert periodic(world, after=1) == [one(SUCCEEDED, *range(1, 11))]


def test_a_query_that_breaks_between_refreshes_of_single_partitions_ends_them(world: ManagerWorld) -> None:
    poison(world, *range(1, 20))
    world.tick(day(10))
    for _ in range(2):
        claimed = world.claim()
        assert claimed is not None
        for _ in world.attempt(claimed):
            pass
    world.engine.failing["read_vector"] = QueryFailed(
        "[UNRESOLVED_COLUMN] amont", error_class="UNRESOLVED_COLUMN"
    )

    world.work()

    assert periodic(world) == [one(FAILED, *range(1, 10)), one(FAILED, 9), one(FAILED, 8)]
    assert world.table().failing == (day(10),)


def test_refreshes_of_single_partitions_come_after_those_of_every_other_table(world: ManagerWorld) -> None:
    world.sql(WHOLE_TABLE)
    world.work()
    poison(world, *range(1, 20))
    world.tick(day(10))
    claimed = world.claim()
    assert claimed is not None
    for _ in world.attempt(claimed):
        pass

    world.tick(world.latest_point("totals"), "totals")
    following = [run.table_id for run in claims(world)]

    assert following == [world.table("totals").table_id] + [world.table().table_id] * 3


def claims(world: ManagerWorld) -> list[RefreshRun]:
    """Carry out what is queued, and return the runs in the order of their claims."""
    runs: list[RefreshRun] = []
    while (claimed := world.claim()) is not None:
        runs.append(claimed.run)
        for _ in world.attempt(claimed):
            pass
    return runs


def test_one_run_of_a_single_partition_waits_at_a_time(world: ManagerWorld) -> None:
    poison(world, 5)
    world.tick(day(10))
    claimed = world.claim()
    assert claimed is not None
    for _ in world.attempt(claimed):
        pass

    assert [run.status for run in world.runs()].count(QUEUED) == 1


def test_partitions_behind_one_that_fails_are_refreshed_all_the_same(world: ManagerWorld) -> None:
    poison(world, 9, 5)

    world.tick(day(10))
    world.work()

    singles = [one(FAILED if number in (9, 5) else SUCCEEDED, number) for number in range(9, 0, -1)]
    assert periodic(world)[1:] == singles
    assert world.table().failing == (day(10), day(6))
    assert world.table().covered_until == day(5)


def test_a_point_that_failed_alone_does_not_fail_the_runs_of_others_and_is_tried_behind_them(
    world: ManagerWorld,
) -> None:
    poison(world, 5)
    world.tick(day(10))
    world.work()
    before = len(periodic(world))

    next_tick(world)
    world.work()

    assert periodic(world, before) == [one(SUCCEEDED, 10), one(FAILED, 5)]


def test_points_that_failed_alone_heal_together_at_the_next_tick(world: ManagerWorld) -> None:
    poison(world, *range(1, 20))
    world.tick(day(10))
    world.work()
    poison(world)
    before = len(periodic(world))

    next_tick(world)
    world.work()

    assert periodic(world, before) == [one(SUCCEEDED, *range(1, 7), 10), one(SUCCEEDED, 7, 8, 9)]
    assert (world.table().failing, world.table().covered_until) == ((), day(11))
    assert world.table().covered == ()


def test_of_many_that_fail_those_tried_longest_ago_are_tried_first(world: ManagerWorld) -> None:
    poison(world, *range(1, 20))
    world.tick(day(10))
    world.work()
    poison(world, 7, 8, 9)
    next_tick(world)
    world.work()
    poison(world, 8, 9)
    before = len(periodic(world))

    next_tick(world)
    world.work()

    assert one(SUCCEEDED, 7) in periodic(world, before)
    assert set(world.table().failing) == {day(9), day(10)}


def test_a_tick_that_fails_while_single_partitions_wait_adds_its_own_to_them(world: ManagerWorld) -> None:
    poison(world, *range(1, 20))
    world.tick(day(10))
    for _ in world.attempt(world.claim()):  # type: ignore[arg-type]
        pass
    world.pass_days(1)
    world.tick(day(11))
    for _ in world.attempt(world.claim()):  # type: ignore[arg-type]
        pass

    (waiting,) = [run for run in world.runs() if run.status is QUEUED]

    assert waiting.points == (day(10),)
    assert waiting.rest == (*(day(number) for number in range(9, 1, -1)), day(11))


def test_a_whole_refresh_takes_the_points_that_failed_alone_with_it(world: ManagerWorld) -> None:
    poison(world, 5)
    world.tick(day(10))
    world.work()
    poison(world)
    world.engine.failing["write"] = RuntimeError("no executor")
    world.engine.create_source("lake.default.copies", [{"ds": "2026-03-01", "amount": 1}])
    world.sql("ALTER MATERIALIZED TABLE daily AS SELECT * FROM copies")
    world.work()

    next_tick(world)
    world.work()

    assert periodic(world)[-1] == (SUCCEEDED, WHOLE)
    assert world.table().failing == ()
    assert world.table().covered_until == day(11)


def test_a_table_that_gives_up_its_date_formatters_is_not_failing_for_ever(world: ManagerWorld) -> None:
    poison(world, 1)
    world.tick(world.latest_point())
    world.work()
    assert world.table().failing != ()
    poison(world)

    world.sql(
        DAILY.replace("CREATE", "CREATE OR ALTER").replace(
            "WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')", ""
        )
    )
    world.work()

    assert world.table().failing == ()
    assert world.show("SHOW MATERIALIZED TABLES")[0]["health"] == "OK"
