"""Ended runs leave the ledger after a while; what is still needed stays,
and one stuck partition costs nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import SqlSyntaxError
from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.partition import PartitionSpec
from mt_core.model.run import DONE, RunStatus
from mt_core.tables.registry import in_transaction
from mt_core.tables.upkeep.maintenance import maintain
from mt_core.tables.upkeep.retention import NEWEST_RETAINED, forget_old_runs
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld
from tests.support.registry_steps import insert_runs

MONTH = timedelta(days=30)


@pytest.fixture
def world() -> ManagerWorld:
    """A daily table with sixty days of refreshes."""
    made = ManagerWorld()
    made.sql(DAILY)
    made.work()
    tick_days(made, 60)
    return made


def tick_days(world: ManagerWorld, days: int) -> None:
    for _ in range(days):
        world.pass_days(1)
        world.engine.commit(
            "lake.default.orders", [{"ds": "2026-03-01", "amount": world.clock.now().toordinal()}]
        )
        world.tick(world.latest_point())
        world.work()


def test_ended_runs_older_than_the_history_are_forgotten(world: ManagerWorld) -> None:
    before = world.runs()

    done = maintain(world.services)

    assert done[0] == "deleted 30 old runs from the ledger"
    assert world.runs() == before[30:]
    assert all(run.requested_at >= world.clock.now() - MONTH for run in world.runs())


def test_what_is_due_is_the_same_after_runs_were_forgotten(world: ManagerWorld) -> None:
    world.engine.poisoned = {PartitionSpec.of({"ds": f"{world.clock.now():%Y-%m-%d}"})}
    tick_days(world, 50)
    before, known = world.show("EXPLAIN REFRESH daily"), world.table()

    forget_old_runs(world.services)

    assert len(world.runs()) < 100
    assert world.show("EXPLAIN REFRESH daily") == before
    assert world.table() == known
    world.engine.poisoned = set()
    tick_days(world, 1)
    assert world.table().covered_until == world.latest_point()


def test_the_newest_runs_of_a_table_stay_whatever_their_age(world: ManagerWorld) -> None:
    world.pass_days(400)

    forget_old_runs(world.services)

    assert len(world.runs()) == NEWEST_RETAINED
    assert world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["last refresh"] is not None


def test_a_run_stays_as_long_as_one_that_it_covers(world: ManagerWorld) -> None:
    for _ in range(NEWEST_RETAINED + 5):
        last = world.sql("ALTER MATERIALIZED TABLE daily REFRESH").wait_for
    world.work()
    assert last is not None
    before = world.run(last)
    world.pass_days(400)

    forget_old_runs(world.services)

    assert world.run(last) == before
    assert before.status in DONE


def test_runs_that_have_not_ended_and_those_of_other_tables_stay(world: ManagerWorld) -> None:
    world.sql(WHOLE_TABLE)
    waiting = world.sql("ALTER MATERIALIZED TABLE daily REFRESH").wait_for
    first = world.runs("totals")
    world.pass_days(400)

    forget_old_runs(world.services)

    assert waiting in [run.run_id for run in world.runs()]
    assert world.runs("totals") == first


def test_all_old_runs_of_a_dropped_table_are_forgotten(world: ManagerWorld) -> None:
    table_id = world.table().table_id
    world.sql("DROP MATERIALIZED TABLE daily")
    world.pass_days(31)

    forget_old_runs(world.services)

    assert in_transaction(world.registry, lambda tx: list(tx.runs.newest(table_id=table_id))) == []


def test_a_partition_that_fails_for_months_leaves_one_span_and_claims_read_no_runs(
    world: ManagerWorld,
) -> None:
    world.engine.poisoned = {PartitionSpec.of({"ds": f"{world.clock.now():%Y-%m-%d}"})}

    tick_days(world, 100)

    table = world.table()
    assert len(table.covered) == 1
    assert len(table.failing) == 1
    assert table.covered[0][1] == world.latest_point()


def test_show_refreshes_reads_more_than_a_page_and_refuses_to_read_everything(world: ManagerWorld) -> None:
    last = world.runs()[-1]
    days = [last.requested_at + timedelta(days=day) for day in range(1, 501)]
    insert_runs(
        world.registry,
        *(replace(last, run_id=f"run-{day}", request_key=None, requested_at=day) for day in days),
    )

    shown = world.show("SHOW REFRESHES EXTENDED LIMIT 10000")
    refused = world.refused(lambda: world.sql("SHOW REFRESHES EXTENDED LIMIT 999999999"), SqlSyntaxError)

    assert [row["refresh"] for row in shown] == [run.run_id for run in reversed(world.runs())]
    assert "at most 10000 rows" in refused


def test_show_refreshes_of_one_status(world: ManagerWorld) -> None:
    world.engine.failing["write"] = RuntimeError("no executor")
    world.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    world.work()

    (failed,) = world.show("SHOW REFRESHES FOR daily WHERE status = 'failed' EXTENDED LIMIT 5")

    assert (failed["status"], failed["kind"]) == ("FAILED", "MANUAL")
    assert world.show("SHOW REFRESHES WHERE status = 'RUNNING' EXTENDED") == []


def test_a_status_that_does_not_exist_is_refused_with_those_that_do(world: ManagerWorld) -> None:
    text = world.refused(lambda: world.sql("SHOW REFRESHES WHERE status = 'BROKEN' EXTENDED"), SqlSyntaxError)

    assert all(f"'{status}'" in text for status in RunStatus)


def test_hours_of_freshness_older_than_two_weeks_are_forgotten() -> None:
    world = ManagerWorld()
    hours = [
        FreshnessHour(
            table_id="t-1",
            hour=world.clock.now() - timedelta(days=days),
            worst_s=1.0,
            late_s=0.0,
            fault=None,
            batches=1,
            rows=1,
            failed=0,
        )
        for days in (15, 14, 0)
    ]
    with world.registry.transaction() as tx:
        for hour in hours:
            tx.freshness.add(hour)

    maintain(world.services)

    with world.registry.reading() as tx:
        assert list(tx.freshness.of("t-1", hours[0].hour)) == hours[1:]


def test_deletions_older_than_a_day_are_forgotten_except_the_newest() -> None:
    world = ManagerWorld()
    for name in ("first", "second"):
        world.sql(WHOLE_TABLE.replace("totals", name))
    tables = [world.table(name).table_id for name in ("first", "second")]
    for name in ("first", "second"):
        world.sql(f"DROP MATERIALIZED TABLE {name}")
    world.clock.advance(timedelta(days=2))

    maintain(world.services)

    with world.registry.reading() as tx:
        assert not {tables[0]} & set(tx.changes.tables_after(0))
        assert tables[1] in tx.changes.tables_after(tx.changes.newest() - 1)
