from __future__ import annotations

from datetime import timedelta

from mt_core.errors import EngineError
from mt_core.tables.upkeep.maintenance import maintain
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld


def world_with_history() -> ManagerWorld:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    world.work()
    world.engine.history_is_old = True
    return world


def test_old_snapshots_of_an_idle_table_expire_and_the_rows_stay() -> None:
    world = world_with_history()
    main = world.engine.load(world.table("totals").identifier).main

    done = maintain(world.services)

    assert done == ["expired old snapshots of lake.default.totals"]
    assert world.engine.load(world.table("totals").identifier).main == main
    assert world.table("totals").intent is None
    assert world.rows("totals") == [{"ds": "2026-03-01", "amount": 1}]
    assert maintain(world.services) == []


def test_versions_that_another_table_shows_are_kept_also_after_refreshes_of_it_that_failed() -> None:
    world = world_with_history()
    world.sql("CREATE MATERIALIZED TABLE above FRESHNESS = INTERVAL '1' DAY AS SELECT * FROM totals")
    world.work()
    totals = world.table("totals").identifier
    shown = world.engine.load(totals).main
    for _ in range(6):
        world.engine.failing["write"] = EngineError("disk full")
        world.engine.write_foreign(totals, [])
        world.sql("ALTER MATERIALIZED TABLE above REFRESH")
        world.work()

    maintain(world.services)

    assert shown is not None
    assert shown in world.engine.kept_of[totals]
    assert world.engine.kept_of[world.table("above").identifier] == frozenset()


def test_a_table_with_an_open_run_is_left_alone() -> None:
    world = world_with_history()
    world.sql("ALTER MATERIALIZED TABLE totals REFRESH")
    before = world.table("totals")

    assert maintain(world.services) == []
    assert world.table("totals") == before


def test_after_an_expiry_that_failed_the_table_can_be_used_at_once() -> None:
    world = world_with_history()
    world.engine.failing["expire"] = EngineError("disk full")

    assert maintain(world.services) == []

    assert world.table("totals").intent is None
    world.clock.advance(timedelta(hours=1))
    run = world.tick(world.latest_point("totals"), "totals")
    world.work()
    assert world.run(run.run_id).status == "SKIPPED"


def test_a_partition_whose_last_refresh_has_expired_is_refreshed_again() -> None:
    world = ManagerWorld()
    world.sql(DAILY.replace("'yyyy-MM-dd')", "'yyyy-MM-dd', 'refresh.late-data' = 'ignore')"))
    world.work()
    world.pass_days(2)
    for point in (world.latest_point() - timedelta(days=1), world.latest_point()):
        world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": point.day}])
        world.tick(point)
        world.work()
    world.engine.history_is_old = True

    maintain(world.services)
    run = world.tick(world.latest_point() - timedelta(days=1), key=None)
    world.work()

    assert world.run(run.run_id).reason == "its last refresh is no longer in the table's history"
