"""Tables with a schedule: what their schedule times refresh, when they are late,
and how ALTER changes them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial

import pytest

from mt_core.errors import DefinitionInvalid, TableNotCreated
from mt_core.model.cron import Cron
from mt_core.model.freshness import Freshness
from mt_core.model.run import RunStatus
from mt_core.model.table import Column, RefreshMode, TableDefinition
from mt_core.tables.registry import in_transaction
from mt_core.workflow.operations import ScheduleKind
from tests.support.fake_scheduler import FakeScheduler
from tests.support.manager_world import ManagerWorld

# The world begins on Sunday, 2026-03-01 at 12:00.
MONDAY = datetime(2026, 3, 2, 6, tzinfo=UTC)
FRIDAY, NEXT_MONDAY = MONDAY + timedelta(days=4), MONDAY + timedelta(days=7)
BY_DAY = "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')"
WEEKDAYS = f"CREATE MATERIALIZED TABLE daily {BY_DAY} SCHEDULE CRON '0 6 * * mon-fri' AS SELECT * FROM orders"
TOTALS = (
    "CREATE MATERIALIZED TABLE totals SCHEDULE CRON '0 6 * * MON-FRI' AT TIME ZONE 'Europe/Berlin' "
    "AS SELECT * FROM orders"
)


def partitions(world: ManagerWorld, point: datetime) -> list[str]:
    return sorted(str(spec) for spec in world.tick(point, force=True).scope.specs or ())


def test_a_schedule_means_full_and_brings_its_time_zone() -> None:
    world = ManagerWorld()

    world.sql(TOTALS)

    definition = world.table("totals").definition
    assert (definition.cron, definition.freshness) == (Cron("0 6 * * MON-FRI"), None)
    assert (definition.refresh_mode, definition.zone) == (RefreshMode.FULL, "Europe/Berlin")
    assert TableDefinition.from_json(definition.to_json()) == definition
    (row,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
    assert (row["refresh mode"], row["freshness"]) == ("FULL", "CRON '0 6 * * MON-FRI'")
    facts = {row["name"]: row["type"] for row in world.show("DESCRIBE EXTENDED totals")}
    assert facts["schedule"] == "by cron 0 6 * * MON-FRI in Europe/Berlin"


def test_show_create_gives_a_statement_that_defines_the_same_table() -> None:
    world = ManagerWorld()
    world.sql(TOTALS)
    (row,) = world.show("SHOW CREATE OR ALTER MATERIALIZED TABLE totals")
    before = world.table("totals").definition

    world.sql(str(row["result"]))

    assert "SCHEDULE CRON '0 6 * * MON-FRI' AT TIME ZONE 'Europe/Berlin'\n" in str(row["result"])
    after = world.table("totals").definition
    assert (after.cron, after.freshness, after.zone) == (before.cron, None, before.zone)


@pytest.mark.parametrize(("kind", "day"), [("string", "2026-03-01"), ("date", date(2026, 3, 1))])
def test_a_schedule_time_refreshes_each_partition_since_the_one_before_it(kind: str, day: object) -> None:
    world = ManagerWorld()
    columns = [Column(name="ds", type=kind), Column(name="amount", type="int")]
    world.engine.create_source("lake.default.orders", [{"ds": day, "amount": 1}], columns)
    world.sql(WEEKDAYS)
    world.work()
    world.clock.advance(NEXT_MONDAY + timedelta(minutes=1) - world.clock.now())

    assert partitions(world, FRIDAY) == ["ds=2026-03-05", "ds=2026-03-06"]
    assert partitions(world, NEXT_MONDAY)[-4:] == [
        "ds=2026-03-06",
        "ds=2026-03-07",
        "ds=2026-03-08",
        "ds=2026-03-09",
    ]


def test_a_schedule_time_at_midnight_refreshes_the_day_that_ended() -> None:
    world = ManagerWorld()
    world.sql(WEEKDAYS.replace("0 6", "0 0"))
    world.work()
    monday, tuesday = MONDAY - timedelta(hours=6), MONDAY + timedelta(hours=18)
    world.clock.advance(tuesday - world.clock.now())

    assert partitions(world, monday) == ["ds=2026-02-27", "ds=2026-02-28", "ds=2026-03-01"]
    assert partitions(world, tuesday) == ["ds=2026-03-02"]


def test_no_weekend_is_late_and_a_missed_weekday_is() -> None:
    world = ManagerWorld()
    world.sql(TOTALS.replace("AT TIME ZONE 'Europe/Berlin'", ""))
    world.work()
    world.clock.advance(FRIDAY - world.clock.now())
    world.engine.commit("lake.default.orders", [{"ds": "2026-03-06", "amount": 6}])
    world.tick(FRIDAY, "totals")
    world.work()

    world.clock.advance(NEXT_MONDAY - timedelta(minutes=1) - world.clock.now())
    (sunday,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
    world.clock.advance(timedelta(days=1, minutes=2))
    (tuesday,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert sunday["health"] == "OK"
    assert tuesday["health"] == "LATE"
    assert tuesday["late by"] == "60 s (schedule)"


def test_a_table_that_was_refreshed_by_hand_before_its_schedule_time_is_late_since_that() -> None:
    world = ManagerWorld()
    world.sql(TOTALS.replace("AT TIME ZONE 'Europe/Berlin'", ""))
    world.work()
    world.clock.advance(NEXT_MONDAY - timedelta(hours=1) - world.clock.now())
    world.engine.commit("lake.default.orders", [{"ds": "2026-03-09", "amount": 9}])
    world.sql("ALTER MATERIALIZED TABLE totals REFRESH")
    world.work()

    world.clock.advance(timedelta(hours=26))

    (row,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
    assert (row["health"], row["late by"]) == ("LATE", "60 min (schedule)")


def test_points_that_failed_alone_are_tried_again_as_many_as_fit_into_a_refresh() -> None:
    world = ManagerWorld(max_partitions=8)
    world.sql(WEEKDAYS.replace("mon-fri", "mon"))
    world.work()
    points = [MONDAY + timedelta(days=7 * week) for week in range(6)]
    table = world.table()
    failed = partial(replace, table, failing=tuple(points[:5]))
    in_transaction(world.registry, lambda tx: tx.tables.replace(replace(failed(), revision=table.revision)))
    world.clock.advance(points[-1] - world.clock.now())
    world.tick(points[-1])
    newest = world.claim()
    assert newest is not None
    for _ in world.attempt(newest):
        pass

    again = world.claim()

    assert again is not None
    assert (again.run.points, len(again.run.scope.specs or ())) == ((points[0],), 8)


def test_a_table_above_one_with_a_schedule_waits_for_half_the_time_between_its_own_schedule_times() -> None:
    world = ManagerWorld()
    world.sql(TOTALS)
    world.sql("CREATE MATERIALIZED TABLE above SCHEDULE CRON '0 6 * * MON,FRI' AS SELECT * FROM totals")
    world.work()
    world.clock.advance(MONDAY - world.clock.now())
    world.engine.commit("lake.default.orders", [{"ds": "2026-03-02", "amount": 2}])

    run = world.tick(MONDAY, "above")
    claimed = world.claim()
    waiting = world.run(run.run_id)

    assert claimed is None
    assert list(waiting.waits_for.values()) == ["lake.default.totals at 2026-03-02 05:00:00"]
    assert waiting.waits_until == MONDAY + timedelta(days=2)


def test_set_of_one_replaces_the_other_and_nothing_covered_comes_again() -> None:
    world = ManagerWorld()
    world.sql(
        f"CREATE MATERIALIZED TABLE daily {BY_DAY} FRESHNESS = INTERVAL '1' DAY AS SELECT * FROM orders"
    )
    world.work()
    world.clock.advance(FRIDAY - timedelta(hours=6) - world.clock.now())
    world.tick(world.latest_point())
    world.work()
    covered = world.table().covered_until

    world.sql("ALTER MATERIALIZED TABLE daily SET SCHEDULE CRON '0 6 * * MON-FRI'")
    to_cron = world.table()
    world.sql("ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '1' DAY")
    back = world.table()

    assert (to_cron.definition.cron, to_cron.definition.freshness) == (Cron("0 6 * * MON-FRI"), None)
    assert (back.definition.cron, back.definition.freshness) == (None, Freshness(1, "DAY"))
    assert covered == FRIDAY - timedelta(hours=6) == to_cron.covered_until == back.covered_until
    (workflow,) = world.scheduler.workflows.values()
    assert workflow.schedule.cadence == Freshness(1, "DAY")


def test_a_continuous_table_of_a_short_freshness_becomes_full_by_a_schedule() -> None:
    world = ManagerWorld()
    world.sql("CREATE MATERIALIZED TABLE totals FRESHNESS = INTERVAL '5' MINUTE AS SELECT * FROM orders")
    world.work()

    world.sql("ALTER MATERIALIZED TABLE totals SET SCHEDULE CRON '0 6 * * *'")
    point = MONDAY
    world.clock.advance(point - world.clock.now())
    world.tick(point, "totals")
    world.work()

    assert world.table("totals").definition.refresh_mode is RefreshMode.FULL
    assert world.runs("totals")[-1].status in (RunStatus.SKIPPED, RunStatus.SUCCEEDED)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"{TOTALS}".replace("AS SELECT", "REFRESH_MODE = CONTINUOUS AS SELECT"), "leave REFRESH_MODE out"),
        (WEEKDAYS.replace("yyyy-MM-dd", "yyyy-MM-dd HH:mm"), "stands for more than 366 partitions"),
        (
            "ALTER MATERIALIZED TABLE old SET REFRESH_MODE = CONTINUOUS",
            "SET FRESHNESS = INTERVAL 'n' unit first",
        ),
        (
            "ALTER MATERIALIZED TABLE old SET SCHEDULE CRON '0 6 * * *' AT TIME ZONE 'Asia/Tokyo'",
            "lake.default.old has the time zone UTC, in which its query runs and its partitions are named",
        ),
    ],
)
def test_what_does_not_go_with_a_schedule_is_refused_with_the_way_out(statement: str, message: str) -> None:
    world = ManagerWorld()
    world.sql("CREATE MATERIALIZED TABLE old SCHEDULE CRON '0 0 * * *' AS SELECT * FROM orders")
    before = world.state()

    text = world.refused(lambda: world.sql(statement), DefinitionInvalid)

    assert message in text
    assert world.state() == before


def test_a_table_that_is_declared_continuous_takes_no_schedule() -> None:
    world = ManagerWorld()
    world.sql(
        "CREATE MATERIALIZED TABLE totals FRESHNESS = INTERVAL '5' MINUTE REFRESH_MODE = CONTINUOUS AS "
        "SELECT * FROM orders"
    )

    text = world.refused(
        lambda: world.sql("ALTER MATERIALIZED TABLE totals SET SCHEDULE CRON '0 6 * * *'"), DefinitionInvalid
    )

    assert "ALTER MATERIALIZED TABLE lake.default.totals SET REFRESH_MODE = FULL first" in text


def test_a_scheduler_that_runs_no_cron_refuses_the_table() -> None:
    class FreshnessOnly(FakeScheduler):
        kinds = frozenset({ScheduleKind.FRESHNESS})

    world = ManagerWorld()
    world.scheduler = FreshnessOnly()
    world.restart()
    before = world.state()

    text = world.refused(lambda: world.sql(TOTALS), TableNotCreated)

    assert "does not run SCHEDULE CRON; write FRESHNESS = INTERVAL 'n' unit for lake.default.totals" in text
    assert world.state() == before


def test_days_of_both_kinds_are_warned_of() -> None:
    world = ManagerWorld()

    outcome = world.sql(
        "CREATE MATERIALIZED TABLE totals SCHEDULE CRON '0 6 1 * MON' AS SELECT * FROM orders"
    )

    assert any("a day that is one of either is due" in warning for warning in outcome.warnings)
