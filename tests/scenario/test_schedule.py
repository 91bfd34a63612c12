from __future__ import annotations

from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

ORDERS = "lake.default.orders"
UNCHANGED = ("SKIPPED", "skip", "sources unchanged")
CHANGED = (
    "SUCCEEDED",
    "refresh",
    f"{ORDERS} changed; recomputed: 100% of the sources changed",
)


def test_a_table_is_refreshed_every_ten_seconds_when_its_source_has_changed(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))

    for second in range(10, 60, 10):
        if second == 30:
            whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 30}])
        whole.pass_time(seconds=10)

    outcomes = [UNCHANGED, UNCHANGED, CHANGED, UNCHANGED, UNCHANGED]
    assert whole.show("kind", "schedule time", "status", "decision", "reason", name="often")[1:] == [
        ("PERIODIC", f"2026-03-01 12:00:{second}", *outcome)
        for second, outcome in zip(range(10, 60, 10), outcomes, strict=True)
    ]
    assert whole.amounts("often") == [("2026-03-01", 30)]


def test_a_tick_carries_its_grid_point_and_not_the_time_at_which_it_was_sent(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))

    whole.pass_time(seconds=17)

    assert whole.show("schedule time", "requested at", name="often")[1:] == [
        ("2026-03-01 12:00:10", "2026-03-01 12:00:17")
    ]


def test_schedule_times_are_shown_in_the_zone_of_the_table(whole: WholeGateway) -> None:
    whole.sql("SET 'table.local-time-zone' = 'Europe/Rome'")
    whole.sql(EVERY_10_S.format("often", "orders"))

    whole.pass_time(seconds=10)

    assert whole.show("schedule time", "status", name="often")[1:] == [("2026-03-01 13:00:10", "SKIPPED")]
    assert whole.facts("often")["next run"] == "2026-03-01 13:00:20"


def test_each_table_follows_its_own_source(whole: WholeGateway) -> None:
    whole.engine.create_source("lake.default.other", [{"ds": "2026-03-01", "amount": 1}])
    whole.sql(EVERY_10_S.format("first", "orders"))
    whole.sql(EVERY_10_S.format("second", "other"))
    whole.engine.commit("lake.default.other", [{"ds": "2026-03-01", "amount": 2}])

    whole.pass_time(seconds=10)

    assert whole.show("status", name="first")[1:] == ["SKIPPED"]
    assert whole.show("status", name="second")[1:] == ["SUCCEEDED"]
    assert whole.amounts("second") == [("2026-03-01", 2)]


def test_a_slow_run_does_not_delay_the_ticks_of_another_table(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("slow", "orders"))
    whole.sql(EVERY_10_S.format("quick", "orders"))
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 7}])
    hold = whole.hold_write("slow")
    whole.tick(seconds=10)
    hold.wait_entered()
    whole.wait_until(lambda: whole.show("status", name="quick")[1:] == ["SUCCEEDED"])

    # Each run has ended when the next tick comes: else they would become one.
    whole.tick(seconds=10)
    whole.wait_until(lambda: whole.show("status", name="quick")[1:] == ["SUCCEEDED", "SKIPPED"])
    whole.tick(seconds=10)
    whole.wait_until(lambda: whole.show("status", name="quick")[1:] == ["SUCCEEDED", "SKIPPED", "SKIPPED"])

    assert whole.show("status", name="quick")[1:] == ["SUCCEEDED", "SKIPPED", "SKIPPED"]
    assert whole.amounts("quick") == [("2026-03-01", 7)]
    assert whole.show("status", name="slow")[1:] == ["RUNNING", "QUEUED", "COALESCED"]
    hold.release()
    whole.wait_quiet()
    assert whole.show("status", name="slow")[1:] == ["SUCCEEDED", "SKIPPED", "COALESCED"]


def test_ticks_that_come_during_a_slow_run_become_one_run_whose_result_they_all_show(
    whole: WholeGateway,
) -> None:
    whole.sql(EVERY_10_S.format("slow", "orders"))
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 7}])
    hold = whole.hold_write("slow")
    whole.tick(seconds=10)
    hold.wait_entered()
    whole.tick(seconds=10)
    whole.tick(seconds=10)
    whole.tick(seconds=10)
    _, _, host, *covered = whole.show("refresh", name="slow")
    waiting = [whole.client.status(handle) for handle in (host, *covered)]
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 8}])

    hold.release()
    whole.wait_quiet()

    assert waiting == ["PENDING"] * 3
    assert whole.show("schedule time", "status", "reason", name="slow")[1:] == [
        (
            "2026-03-01 12:00:10",
            "SUCCEEDED",
            f"{ORDERS} changed; recomputed: 100% of the sources changed",
        ),
        (
            "2026-03-01 12:00:40",
            "SUCCEEDED",
            f"{ORDERS} changed; rows are added and deleted",
        ),
        ("2026-03-01 12:00:30", "COALESCED", f"covered by {host}"),
        ("2026-03-01 12:00:40", "COALESCED", f"covered by {host}"),
    ]
    assert [whole.client.status(handle) for handle in (host, *covered)] == ["FINISHED"] * 3
    results = [(whole.page(handle).rows, whole.page(handle).run) for handle in (host, *covered)]
    assert results == [results[0]] * 3
    assert whole.amounts("slow") == [("2026-03-01", 8)]


def test_a_refresh_by_hand_waits_for_the_run_under_way(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("slow", "orders"))
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 7}])
    hold = whole.hold_write("slow")
    whole.tick(seconds=10)
    hold.wait_entered()
    refresh = whole.client.execute("ALTER MATERIALIZED TABLE slow REFRESH")
    whole.wait_until(lambda: len(whole.show("status", name="slow")) == 3)

    hold.release()

    [row] = whole.rows(refresh)
    assert row["cluster info"] == {"execution.target": "fake"}
    assert len(row["job id"]) == 32
    assert whole.show("kind", "status", name="slow")[1:] == [
        ("PERIODIC", "SUCCEEDED"),
        ("MANUAL", "SUCCEEDED"),
    ]


def test_the_schedule_goes_on_when_the_scheduler_s_session_has_expired(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.pass_time(seconds=10)
    whole.expire_sessions()

    whole.pass_time(seconds=10)

    assert whole.show("schedule time", name="often")[1:] == [
        "2026-03-01 12:00:10",
        "2026-03-01 12:20:10",
        "2026-03-01 12:20:20",
    ]


def test_ticks_wait_in_the_ledger_while_the_engine_is_away(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 7}])
    whole.engine.away = True
    whole.tick(seconds=10)
    whole.tick(seconds=10)
    waiting = whole.show("status", name="often")[1:]

    whole.engine.away = False
    whole.wait_quiet()

    assert waiting == ["QUEUED", "COALESCED"]
    assert whole.show("status", "attempt", name="often")[1:] == [("SUCCEEDED", 1), ("COALESCED", 1)]
    assert whole.amounts("often") == [("2026-03-01", 7)]


def test_a_failed_tick_leaves_the_old_rows_and_the_next_one_heals(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    before = whole.amounts("often")
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 7}])
    whole.engine.failing["write"] = ZeroDivisionError("division by zero")
    whole.pass_time(seconds=10)
    failed, after = whole.show("status", "error", name="often")[-1], whole.amounts("often")

    whole.pass_time(seconds=10)

    assert (failed, after) == (("FAILED", "write failed: division by zero"), before)
    assert whole.show("status", name="often")[1:] == ["FAILED", "SUCCEEDED"]
    assert whole.amounts("often") == [("2026-03-01", 7)]


def test_a_schedule_by_cron_ticks_at_its_times_and_takes_the_days_of_the_weekend(whole: WholeGateway) -> None:
    days = [f"2026-03-{day:02}" for day in range(1, 10)]
    whole.sql(
        "CREATE MATERIALIZED TABLE weekdays PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' "
        "= 'yyyy-MM-dd') SCHEDULE CRON '0 6 * * MON-FRI' AT TIME ZONE 'Europe/Rome' AS SELECT * FROM orders"
    )

    # From Sunday noon to the Saturday after it, and over the weekend, to Monday.
    next_runs = [whole.facts("weekdays")["next run"]]
    for hours in (24, 4 * 24, 3 * 24):
        whole.engine.commit(ORDERS, [{"ds": day, "amount": hours} for day in days])
        whole.pass_time(seconds=hours * 3_600)
        next_runs.append(whole.facts("weekdays")["next run"])

    assert next_runs == [f"2026-03-{day:02} 06:00:00" for day in (2, 3, 9, 10)]
    shown = whole.show("schedule time", "partitions", "status", name="weekdays")[1:]
    assert shown[0][:2] == (
        "2026-03-02 06:00:00",
        "ds=2026-02-27, ds=2026-02-28, ds=2026-03-01, ds=2026-03-02",
    )
    assert shown[-1][0] == "2026-03-09 06:00:00"
    # Earlier days come with it as late rows.
    assert str(shown[-1][1]).endswith("ds=2026-03-06, ds=2026-03-07, ds=2026-03-08, ds=2026-03-09")
    assert {status for *_, status in shown} <= {"SUCCEEDED", "COALESCED"}
