from __future__ import annotations

from contextlib import closing
from pathlib import Path

from mt_core.workflow.operations import ModifyRefreshWorkflow
from scheduler_plugins.memory.scheduler import MemoryScheduler
from tests.support.gateway.whole import DAILY, EVERY_10_S, NOTHING, WholeGateway, root_cause
from tests.support.gateway.whole import whole_gateway as whole_gateway

HASTE_S = 0.2


class HastyScheduler(MemoryScheduler):
    """Has the tick of a RESUME answered before RESUME continues, if the gateway allows it."""

    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        super().modify_refresh_workflow(workflow)
        self.wait_idle(HASTE_S)


def test_a_created_table_is_there_with_its_first_rows_when_create_ends(whole: WholeGateway) -> None:
    answer = whole.sql(DAILY)

    assert answer == [{"result": "OK"}]
    assert whole.amounts() == [("2026-02-28", 1), ("2026-03-01", 2)]
    assert whole.show("kind", "status", "partitions", "attempt", "rows") == [
        ("INITIAL", "SUCCEEDED", "whole table", 1, 2)
    ]
    assert whole.sql("SHOW MATERIALIZED TABLES EXTENDED") == [
        {
            "materialized table": "daily",
            "namespace": "lake.default",
            "refresh mode": "FULL",
            "freshness": "INTERVAL '1' DAY",
            "status": "ACTIVATED",
            "last refresh": "2026-03-01 12:00:00",
            "stale for": "0 s",
            "health": "OK",
            "last result": "SUCCEEDED",
            "last error": None,
            "status by": "CREATE",
            "status at": "2026-03-01 12:00:00",
            "as of": None,
            "late by": None,
            "next run": "2026-03-02 00:00:00",
        }
    ]


def test_describe_tells_columns_and_the_life_of_a_table(whole: WholeGateway) -> None:
    whole.sql(DAILY)

    columns, facts = whole.sql("DESCRIBE daily"), whole.facts()

    assert [(row["name"], row["type"], row["extras"]) for row in columns] == [
        ("ds", "STRING", "PARTITION KEY"),
        ("amount", "INT", None),
    ]
    assert {
        key: facts[key] for key in ("identifier", "status", "schedule", "next run", "workflow", "decision")
    } == {
        "identifier": "lake.default.daily",
        "status": "ACTIVATED, by CREATE at 2026-03-01 12:00:00",
        "schedule": "every 1 day in UTC",
        "next run": "2026-03-02 00:00:00",
        "workflow": "ACTIVE in memory",
        "decision": "refresh: never refreshed before",
    }


def test_what_show_create_prints_makes_the_same_table_again(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    [shown] = whole.sql("SHOW CREATE MATERIALIZED TABLE daily")
    whole.sql("DROP MATERIALIZED TABLE daily")

    whole.sql(shown["result"])

    assert whole.sql("SHOW CREATE MATERIALIZED TABLE daily") == [shown]
    assert whole.amounts() == [("2026-02-28", 1), ("2026-03-01", 2)]


def test_a_suspended_table_gets_no_ticks(whole: WholeGateway) -> None:
    whole.sql(DAILY)

    whole.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    whole.pass_time(days=3)

    assert whole.show("kind") == ["INITIAL"]
    facts = whole.facts()
    assert (facts["workflow"], facts["next run"]) == ("PAUSED in memory", "none")
    assert facts["status"] == "SUSPENDED, by SQL at 2026-03-01 12:00:00"


def test_a_tick_that_comes_to_a_suspended_table_all_the_same_is_skipped(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    body = {"isPeriodic": True, "scheduleTime": "2026-03-02 00:00:00"}

    answer = whole.refresh("lake.default.daily", body)

    assert answer.status_code == 200
    page = whole.page(answer.json()["operationHandle"])
    assert page.run is not None
    assert (page.run["decision"], page.run["reason"]) == ("suspended", "lake.default.daily is suspended")
    assert whole.show("kind", "status", "decision")[1:] == [("PERIODIC", "SKIPPED", "suspended")]
    assert whole.amounts() == [("2026-02-28", 1), ("2026-03-01", 2)]


def test_a_suspended_table_can_be_refreshed_by_hand(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    whole.engine.commit(
        "lake.default.orders", [{"ds": "2026-02-28", "amount": 10}, {"ds": "2026-03-01", "amount": 20}]
    )

    whole.sql("ALTER MATERIALIZED TABLE daily REFRESH PARTITION (ds = '2026-02-28')")

    assert whole.amounts() == [("2026-02-28", 10), ("2026-03-01", 2)]
    assert whole.show("kind", "status", "partitions", "reason")[1:] == [
        ("MANUAL", "SUCCEEDED", "ds=2026-02-28", "requested manually")
    ]


def test_resume_makes_up_at_most_the_latest_missed_tick(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.sql("ALTER MATERIALIZED TABLE often SUSPEND")
    whole.pass_time(minutes=5)
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 7}])

    whole.sql("ALTER MATERIALIZED TABLE often RESUME")
    whole.wait_quiet()

    assert whole.show("kind", "status", "schedule time", name="often")[1:] == [
        ("PERIODIC", "SUCCEEDED", "2026-03-01 12:05:00")
    ]
    assert whole.amounts("often") == [("2026-03-01", 7)]


def test_a_missed_tick_that_is_made_up_before_resume_has_ended_is_not_skipped(tmp_path: Path) -> None:
    with closing(WholeGateway(tmp_path, HastyScheduler)) as whole:
        whole.sql(DAILY)
        whole.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
        whole.pass_time(days=1)
        rows = [{"ds": "2026-02-28", "amount": 1}, {"ds": "2026-03-01", "amount": 7}]
        whole.engine.commit("lake.default.orders", rows)

        whole.sql("ALTER MATERIALIZED TABLE daily RESUME")
        whole.wait_quiet()

        assert whole.show("kind", "status", "schedule time")[1:] == [
            ("PERIODIC", "SUCCEEDED", "2026-03-02 00:00:00")
        ]
        assert whole.amounts() == [("2026-02-28", 1), ("2026-03-01", 7)]


def test_resume_without_a_missed_tick_starts_nothing(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.pass_time(seconds=10)
    whole.sql("ALTER MATERIALIZED TABLE often SUSPEND")
    whole.pass_time(seconds=5)

    whole.sql("ALTER MATERIALIZED TABLE often RESUME")
    whole.wait_quiet()

    assert whole.show("schedule time", name="often") == [None, "2026-03-01 12:00:10"]
    assert whole.facts("often")["next run"] == "2026-03-01 12:00:20"


def test_the_options_of_resume_go_with_the_ticks_that_follow(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.sql("ALTER MATERIALIZED TABLE often SUSPEND")

    whole.sql("ALTER MATERIALIZED TABLE often RESUME WITH ('write.format.default' = 'orc')")
    whole.wait_quiet()
    whole.pass_time(seconds=10)

    assert whole.facts("often")["dynamic options"] == '{"write.format.default": "orc"}'
    assert whole.show("kind", "status", "reason", name="often")[1:] == [
        ("PERIODIC", "SKIPPED", "sources unchanged"),
    ]


def test_another_freshness_moves_the_grid(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))

    whole.sql("ALTER MATERIALIZED TABLE often SET FRESHNESS = INTERVAL '1' MINUTE")
    whole.pass_time(seconds=50)
    before = whole.show("kind", name="often")
    whole.pass_time(seconds=10)

    assert before == ["INITIAL"]
    assert whole.show("kind", "schedule time", name="often")[1:] == [("PERIODIC", "2026-03-01 12:01:00")]
    assert whole.sql("SHOW MATERIALIZED TABLES")[0]["freshness"] == "1 minute"


def test_the_rows_of_a_changed_query_are_there_when_alter_says_ok(whole: WholeGateway) -> None:
    whole.engine.create_source("lake.default.more", [{"ds": "2026-03-01", "amount": 5, "city": "Rome"}])
    whole.sql(DAILY)

    whole.sql("ALTER MATERIALIZED TABLE daily AS SELECT * FROM more")

    assert whole.show("kind", "status", "partitions")[1:] == [("REBUILD", "SUCCEEDED", "whole table")]
    assert whole.sql("SELECT * FROM daily") == [{"ds": "2026-03-01", "amount": 5, "city": "Rome"}]
    assert whole.facts()["rebuild due"] == "no"


def test_an_alter_whose_refresh_fails_says_so_and_the_next_tick_makes_up_for_it(whole: WholeGateway) -> None:
    whole.engine.create_source("lake.default.more", [{"ds": "2026-03-01", "amount": 5}])
    whole.sql(DAILY)
    whole.engine.failing["write"] = RuntimeError("no executor")

    text = whole.refused("ALTER MATERIALIZED TABLE daily AS SELECT * FROM more")
    due = whole.facts()["rebuild due"]
    whole.pass_time(days=1)

    assert text.endswith(
        "Materialized table lake.default.daily was altered, but its full refresh failed: "
        "write failed: no executor"
    )
    assert (due, whole.facts()["rebuild due"]) == ("yes", "no")
    assert whole.amounts() == [("2026-03-01", 5)]


def test_an_alter_of_a_suspended_table_waits_for_nothing(whole: WholeGateway) -> None:
    whole.engine.create_source("lake.default.more", [{"ds": "2026-03-01", "amount": 5}])
    whole.sql(DAILY)
    whole.sql("ALTER MATERIALIZED TABLE daily SUSPEND")

    answer = whole.sql("ALTER MATERIALIZED TABLE daily AS SELECT * FROM more")

    assert answer == [{"result": "OK"}]
    assert whole.facts()["rebuild due"] == "yes"


def test_drop_leaves_nothing_anywhere_but_the_ledger(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    runs = whole.state()["runs"]

    answer = whole.sql("DROP MATERIALIZED TABLE daily")
    whole.pass_time(days=2)

    assert answer == [{"result": "OK"}]
    assert whole.state() == {**NOTHING, "runs": runs}
    assert whole.sql("SHOW MATERIALIZED TABLES") == []
    assert "daily does not exist" in whole.refused("DROP MATERIALIZED TABLE daily")
    assert whole.sql("DROP MATERIALIZED TABLE IF EXISTS daily") == [{"result": "OK"}]


def test_a_stale_tick_of_a_dropped_or_created_again_table_is_gone(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    tick = {"isPeriodic": True, "scheduleTime": "2026-03-02 00:00:00"}
    stale = {"Freshtable-Table": whole.facts()["table id"]}
    whole.sql("DROP MATERIALIZED TABLE daily")

    dropped = whole.refresh("lake.default.daily", tick, stale)
    whole.sql(DAILY)
    created_again = whole.refresh("lake.default.daily", tick, stale)

    assert [(a.status_code, a.headers["freshtable-error"]) for a in (dropped, created_again)] == [
        (410, "TABLE_GONE"),
        (410, "TABLE_GONE"),
    ]
    assert "was dropped" in root_cause(dropped)
    assert "was dropped and recreated" in root_cause(created_again)
    assert whole.show("kind") == ["INITIAL"]


def test_a_run_under_way_does_not_outlive_its_table(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 7}])
    hold = whole.hold_write("often")
    whole.tick(seconds=10)
    hold.wait_entered()
    drop = whole.client.execute("DROP MATERIALIZED TABLE often")
    assert whole.process.signal.wait(lambda: whole.state()["tables"] == [], 5)

    hold.release()

    assert whole.rows(drop) == [{"result": "OK"}]
    whole.wait_quiet()
    assert [run["status"] for run in whole.refreshes()] == ["SUCCEEDED", "CANCELED"]
    assert {**whole.state(), "runs": []} == NOTHING
