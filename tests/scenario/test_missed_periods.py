from __future__ import annotations

from datetime import timedelta

from mt_core.model.partition import PartitionSpec
from tests.support.gateway.whole import DAILY, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

ORDERS = "lake.default.orders"


def days(first: int, last: int) -> list[tuple[str, int]]:
    """Return one order for each day of March from *first* to *last*, as readers of a table see them."""
    return [(f"2026-03-{day:02}", day) for day in range(first, last + 1)]


def orders(last: int) -> list[dict[str, object]]:
    """Return the orders of March up to *last*, as rows of the source."""
    return [{"ds": ds, "amount": amount} for ds, amount in days(1, last)]


def test_a_tick_refreshes_the_partition_of_the_day_that_ended(whole: WholeGateway) -> None:
    whole.engine.commit(ORDERS, orders(1))
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 100}, {"ds": "2026-03-02", "amount": 200}])

    whole.pass_time(hours=12)

    assert whole.show("kind", "schedule time", "partitions", "status")[1:] == [
        ("PERIODIC", "2026-03-02 00:00:00", "ds=2026-03-01", "SUCCEEDED")
    ]
    assert whole.amounts() == [("2026-03-01", 100)]


def test_a_gateway_that_was_down_over_three_daily_ticks_misses_no_partition(whole: WholeGateway) -> None:
    whole.engine.commit(ORDERS, orders(1))
    whole.sql(DAILY)
    whole.stop()
    whole.clock.advance(timedelta(days=3))
    whole.engine.commit(ORDERS, orders(4))

    whole.start()
    whole.wait_quiet()

    assert whole.show("kind", "schedule time", "partitions", "status")[1:] == [
        ("PERIODIC", "2026-03-04 00:00:00", "ds=2026-03-01, ds=2026-03-02, ds=2026-03-03", "SUCCEEDED")
    ]
    assert whole.amounts() == days(1, 3)


def test_a_table_that_was_suspended_for_a_week_misses_no_partition_after_resume(whole: WholeGateway) -> None:
    whole.engine.commit(ORDERS, orders(1))
    whole.sql(DAILY)
    whole.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    whole.pass_time(days=7)
    whole.engine.commit(ORDERS, orders(8))

    whole.sql("ALTER MATERIALIZED TABLE daily RESUME")
    whole.wait_quiet()

    assert whole.show("kind", "schedule time", "status")[1:] == [
        ("PERIODIC", "2026-03-08 00:00:00", "SUCCEEDED")
    ]
    assert whole.amounts() == days(1, 7)


def test_a_week_that_was_suspended_over_a_restart_is_made_up_too(whole: WholeGateway) -> None:
    whole.engine.commit(ORDERS, orders(1))
    whole.sql(DAILY)
    whole.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    whole.stop()
    whole.clock.advance(timedelta(days=7))
    whole.engine.commit(ORDERS, orders(8))
    whole.start()

    whole.sql("ALTER MATERIALIZED TABLE daily RESUME")
    whole.wait_quiet()

    assert whole.amounts() == days(1, 7)


def test_resume_without_catch_up_leaves_the_missed_days_to_whoever_asks_for_them(whole: WholeGateway) -> None:
    whole.engine.commit(ORDERS, orders(1))
    whole.sql(DAILY)
    whole.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    whole.pass_time(days=7)
    whole.engine.commit(ORDERS, orders(9))

    whole.sql("ALTER MATERIALIZED TABLE daily RESUME WITH ('catch-up' = 'none')")
    whole.wait_quiet()
    whole.pass_time(days=1)

    # The scheduler sends the latest missed tick, which then stands for its own day alone.
    assert whole.amounts() == [("2026-03-01", 1), *days(7, 8)]
    whole.sql("ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds = '2026-03-05')")
    assert whole.amounts() == [("2026-03-01", 1), *days(5, 5), *days(7, 8)]


def test_a_day_whose_query_fails_does_not_hold_up_the_others_and_heals_once_it_is_cured(
    whole: WholeGateway,
) -> None:
    whole.engine.commit(ORDERS, orders(1))
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, orders(9))
    whole.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-02"}))

    whole.pass_time(hours=12)
    whole.pass_time(days=1)
    whole.pass_time(days=1)
    while_poisoned = whole.amounts()
    whole.engine.poisoned.clear()
    whole.pass_time(days=1)

    assert while_poisoned == [("2026-03-01", 1), ("2026-03-03", 3)]
    assert whole.amounts() == days(1, 4)
    assert whole.show("schedule time", "partitions", "status")[1:] == [
        ("2026-03-02 00:00:00", "ds=2026-03-01", "SUCCEEDED"),
        ("2026-03-03 00:00:00", "ds=2026-03-02", "FAILED"),
        ("2026-03-04 00:00:00", "ds=2026-03-02, ds=2026-03-03", "FAILED"),
        ("2026-03-04 00:00:00", "ds=2026-03-03", "SUCCEEDED"),
        ("2026-03-03 00:00:00", "ds=2026-03-02", "FAILED"),
        ("2026-03-05 00:00:00", "ds=2026-03-04", "SUCCEEDED"),
        ("2026-03-03 00:00:00", "ds=2026-03-02", "SUCCEEDED"),
    ]
    assert "division by zero in ds=2026-03-02" in whole.show("error")[2]


def test_a_day_that_was_not_computed_because_the_engine_was_away_is_computed_when_it_is_back(
    whole: WholeGateway,
) -> None:
    whole.engine.commit(ORDERS, orders(1))
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, orders(4))
    whole.engine.away = True
    whole.tick(days=1)
    whole.tick(days=1)
    whole.engine.away = False

    whole.wait_quiet()

    assert whole.amounts() == days(1, 2)


def test_a_backfill_by_somebody_else_s_scheduler_refreshes_the_partition_of_its_schedule_time(
    whole: WholeGateway,
) -> None:
    whole.engine.commit(ORDERS, orders(1))
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, [{"ds": "2026-01-31", "amount": 31}, {"ds": "2026-03-01", "amount": 100}])

    answer = whole.refresh("lake.default.daily", {"isPeriodic": True, "scheduleTime": "2026-02-01 00:00:00"})

    run = whole.page(answer.json()["operationHandle"]).run
    assert run is not None
    assert run["scheduleTime"] == "2026-02-01T00:00:00+00:00"
    assert whole.show("partitions", "status")[1:] == [("ds=2026-01-31", "SUCCEEDED")]
    assert whole.amounts() == [("2026-01-31", 31), ("2026-03-01", 1)]


def test_a_partition_whose_source_rows_all_went_away_becomes_empty(whole: WholeGateway) -> None:
    whole.engine.commit(ORDERS, orders(1))
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, [])

    whole.pass_time(hours=12)

    assert whole.show("status", "rows")[1:] == [("SUCCEEDED", 0)]
    assert whole.amounts() == []
