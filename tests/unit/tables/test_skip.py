"""A refresh is left out only when it could not have changed a row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.tables.settings import InitialRefresh
from mt_core.tables.table_commands import RefreshRequest
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld

ORDERS = "lake.default.orders"
TOTALS = TableIdentifier("lake", ("default",), "totals")
ROWS = [{"ds": "2026-03-01", "amount": 1}]


def totals(world: ManagerWorld) -> None:
    world.sql(WHOLE_TABLE)
    world.work()


def tick(world: ManagerWorld, name: str = "totals") -> RefreshRun:
    """The tick of the next hour (day), carried out."""
    world.clock.advance(timedelta(hours=1) if name == "totals" else timedelta(days=1))
    run = world.tick(world.latest_point(name), name)
    world.work()
    return world.run(run.run_id)


def outcome(run: RefreshRun) -> tuple[RunStatus, str | None]:
    return run.status, run.reason


def test_a_tick_at_unchanged_sources_is_skipped_and_writes_nothing(world: ManagerWorld) -> None:
    totals(world)
    storage = world.state()["storages"]
    writes = world.engine.writes

    run = tick(world)

    assert outcome(run) == (RunStatus.SKIPPED, "sources unchanged")
    assert run.decision == "skip"
    assert world.engine.writes == writes
    assert world.state()["storages"] == storage


def test_a_new_partition_at_unchanged_sources_is_refreshed(world: ManagerWorld) -> None:
    world.engine.commit(ORDERS, [*ROWS, {"ds": "2026-03-02", "amount": 2}])
    world.sql(DAILY)
    tick(world, "daily")
    world.work()

    run = tick(world, "daily")

    assert outcome(run) == (RunStatus.SKIPPED, "sources unchanged")
    assert world.rows() == [*ROWS, {"ds": "2026-03-02", "amount": 2}]


def test_a_partition_that_no_run_ever_wrote_is_not_skipped(world: ManagerWorld) -> None:
    world = ManagerWorld(initial_refresh=InitialRefresh.NONE)
    world.engine.commit(ORDERS, [*ROWS, {"ds": "2026-03-02", "amount": 2}])
    world.sql(DAILY)
    tick(world, "daily")

    run = tick(world, "daily")

    assert outcome(run) == (RunStatus.SUCCEEDED, "new partition")
    assert world.rows() == [*ROWS, {"ds": "2026-03-02", "amount": 2}]


def change_source(world: ManagerWorld) -> None:
    world.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 9}])


def roll_back_source(world: ManagerWorld) -> None:
    first = world.engine.sources[ORDERS].current
    world.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 9}])
    tick(world)
    world.engine.roll_back(ORDERS, first)


def alter_query(world: ManagerWorld) -> None:
    world.engine.create_source("lake.default.others", [{"ds": "2026-03-01", "amount": 5}])
    world.sql("ALTER MATERIALIZED TABLE totals AS SELECT * FROM others")


def write_by_hand(world: ManagerWorld) -> None:
    world.engine.write_foreign(TOTALS, [{"ds": "foreign", "amount": 0}])


def replace_source(world: ManagerWorld) -> None:
    world.engine.create_source(ORDERS, [{"ds": "2026-03-01", "amount": 3}])


@pytest.mark.parametrize(
    "change",
    [
        change_source,
        roll_back_source,
        alter_query,
        write_by_hand,
        replace_source,
    ],
)
def test_after_a_change_the_next_tick_leaves_the_table_equal_to_its_query(
    world: ManagerWorld, change
) -> None:
    totals(world)
    tick(world)
    writes = world.engine.writes

    change(world)
    run = tick(world)

    source = "lake.default.others" if change is alter_query else ORDERS
    current = world.engine.sources[source]
    assert world.engine.writes > writes
    assert run.status in {RunStatus.SUCCEEDED, RunStatus.SKIPPED}
    assert world.rows("totals") == [dict(row) for row in current.versions[current.current]]
    assert outcome(tick(world)) == (RunStatus.SKIPPED, "sources unchanged")


def test_the_reason_of_a_refresh_names_the_source_that_changed(world: ManagerWorld) -> None:
    totals(world)
    change_source(world)

    run = tick(world)

    assert outcome(run) == (
        RunStatus.SUCCEEDED,
        "lake.default.orders changed; rows are added and deleted",
    )


def test_a_query_that_is_not_stable_is_never_skipped(world: ManagerWorld) -> None:
    totals(world)
    world.engine.unstable = "current_date()"

    runs = [tick(world), tick(world)]

    assert [outcome(run) for run in runs] == [
        (RunStatus.SUCCEEDED, "the query is not stable: current_date()"),
        (RunStatus.SUCCEEDED, "the query is not stable: current_date()"),
    ]


def test_a_compaction_of_the_source_is_no_change(world: ManagerWorld) -> None:
    totals(world)
    world.engine.commit(ORDERS, ROWS, compaction=True)

    assert outcome(tick(world)) == (RunStatus.SKIPPED, "sources unchanged")


def test_a_refresh_by_hand_never_skips(world: ManagerWorld) -> None:
    totals(world)

    waited = world.sql("ALTER MATERIALIZED TABLE totals REFRESH").wait_for
    world.work()

    assert waited is not None
    assert outcome(world.run(waited)) == (RunStatus.SUCCEEDED, "requested manually")


def test_a_foreign_write_into_a_partitioned_table_is_replaced_in_the_partitions_of_the_tick(
    world: ManagerWorld,
) -> None:
    world.sql(DAILY)
    tick(world, "daily")
    world.engine.write_foreign(
        TableIdentifier("lake", ("default",), "daily"), [{"ds": "2026-03-02", "amount": 66}]
    )
    world.engine.commit(ORDERS, ROWS)

    run = tick(world, "daily")

    assert run.status is RunStatus.SUCCEEDED
    assert world.rows() == ROWS


def test_a_change_in_one_partition_by_hand_is_not_hidden_by_a_skip_of_another(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 2}])
    world.sql("ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds = '2026-02-01')")
    world.work()

    tick(world, "daily")

    assert world.rows() == [{"ds": "2026-03-01", "amount": 2}]


def test_resume_with_options_that_change_no_row_rebuilds_nothing(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()

    outcome = world.sql(
        "ALTER MATERIALIZED TABLE daily RESUME WITH ('sink.parallelism' = '4', "
        "'write.format.default' = 'orc')"
    )
    world.work()

    assert (len(world.runs()), world.table().rebuild_due) == (1, None)
    assert outcome.warnings == (
        "RESUME WITH of lake.default.daily: sink.parallelism: accepted, but without effect here.",
    )


def test_options_that_change_while_a_rebuild_is_due_do_not_keep_it_due_for_ever(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.engine.create_source("lake.default.others", [{"ds": "2026-03-01", "amount": 5}])
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    world.sql("ALTER MATERIALIZED TABLE daily AS SELECT * FROM others")

    world.sql("ALTER MATERIALIZED TABLE daily RESUME WITH ('sink.parallelism' = '4')")
    world.work()
    run = tick(world, "daily")

    assert world.table().rebuild_due is None
    assert not run.scope.whole
    assert world.rows() == [{"ds": "2026-03-01", "amount": 5}]


def test_the_same_options_again_rebuild_nothing(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.sql("ALTER MATERIALIZED TABLE daily RESUME WITH ('sink.parallelism' = '4')")
    world.work()
    runs = len(world.runs())

    world.sql("ALTER MATERIALIZED TABLE daily RESUME WITH ('sink.parallelism' = '4')")

    assert len(world.runs()) == runs
    assert world.table().rebuild_due is None


def test_a_tick_that_repeats_the_options_of_the_table_is_no_change(world: ManagerWorld) -> None:
    totals(world)
    world.sql("ALTER MATERIALIZED TABLE totals RESUME WITH ('sink.parallelism' = '4')")
    world.work()
    request = RefreshRequest(
        identifier_text="lake.default.totals",
        is_periodic=True,
        schedule_time=f"{datetime(2026, 3, 1, 12, tzinfo=UTC):%Y-%m-%d %H:%M:%S}",
        dynamic_options={"sink.parallelism": "4"},
    )

    run = world.manager.requests.request_refresh(request)
    world.work()

    assert outcome(world.run(run.run_id)) == (RunStatus.SKIPPED, "sources unchanged")
