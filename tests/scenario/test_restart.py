from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tests.support.gateway.whole import DAILY, EVERY_10_S, NOTHING, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

ORDERS = "lake.default.orders"
NEW_ROWS = [{"ds": "2026-03-01", "amount": 7}]
SHOWN = [("2026-03-01", 7)]
STEPS = ["decide", "write", "staged", "publish: commit", "published", "end"]


def test_a_run_that_was_accepted_but_not_begun_is_carried_out_after_a_kill(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, NEW_ROWS)
    whole.engine.away = True
    handle = whole.refresh("lake.default.daily").json()["operationHandle"]
    whole.kill()
    whole.engine.away = False

    whole.start()

    assert whole.page(handle).run is not None
    assert whole.show("refresh", "status", "attempt")[1:] == [(handle, "SUCCEEDED", 1)]
    assert whole.amounts() == SHOWN


@pytest.mark.parametrize("step", STEPS)
def test_a_run_whose_process_is_killed_at_any_step_is_published_once(whole: WholeGateway, step: str) -> None:
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, NEW_ROWS)
    frozen = whole.freeze_before(step)
    handle = whole.refresh("lake.default.daily").json()["operationHandle"]
    frozen.wait_entered()
    whole.kill()

    whole.start()
    whole.wait_quiet()
    after_restart, branches = whole.ledger_and_main(), whole.branches()
    frozen.release()
    whole.bury_zombies()

    assert branches == []
    assert whole.ledger_and_main() == after_restart
    assert whole.show("refresh", "status", "attempt")[1:] == [(handle, "SUCCEEDED", 2)]
    assert (whole.client.status(handle), whole.published(handle)) == ("FINISHED", 1)
    assert whole.amounts() == SHOWN


def test_a_write_that_a_killed_process_finishes_after_the_restart_changes_nothing(
    whole: WholeGateway,
) -> None:
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, NEW_ROWS)
    hold = whole.hold_write("daily")
    handle = whole.refresh("lake.default.daily").json()["operationHandle"]
    hold.wait_entered()
    whole.kill()
    whole.start()
    whole.wait_quiet()
    before = whole.ledger_and_main()

    hold.release()
    whole.bury_zombies()

    assert whole.ledger_and_main() == before
    assert whole.show("refresh", "status", "attempt")[1:] == [(handle, "SUCCEEDED", 2)]
    assert whole.published(handle) == 1
    assert whole.amounts() == SHOWN


def test_a_run_that_loses_its_process_three_times_fails_and_the_table_stays_usable(
    whole: WholeGateway,
) -> None:
    whole.sql(DAILY)
    handle = ""
    for attempt in range(3):
        frozen = whole.freeze_before("write")
        if attempt == 0:
            handle = whole.refresh("lake.default.daily").json()["operationHandle"]
        else:
            whole.start()
        frozen.wait_entered()
        whole.kill()

    whole.start()
    whole.wait_quiet()

    error = "Refresh of lake.default.daily lost its process 3 times."
    assert whole.show("refresh", "status", "error")[1:] == [(handle, "FAILED", error)]
    assert error in whole.error_of(lambda: whole.rows(handle))
    assert whole.amounts() == [("2026-02-28", 1), ("2026-03-01", 2)]
    whole.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    assert whole.show("status")[-1] == "SUCCEEDED"


def test_a_stop_lets_the_refresh_under_way_finish(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, NEW_ROWS)
    hold = whole.hold_write("daily")
    handle = whole.refresh("lake.default.daily").json()["operationHandle"]
    hold.wait_entered()
    stopping = threading.Thread(target=whole.stop)
    stopping.start()

    hold.release()
    stopping.join()

    whole.start()
    assert whole.show("refresh", "status", "attempt")[1:] == [(handle, "SUCCEEDED", 1)]


def test_the_schedule_goes_on_by_itself_and_makes_up_one_tick(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.pass_time(seconds=10)
    whole.kill()
    whole.clock.advance(timedelta(seconds=35))

    whole.start()
    whole.wait_quiet()
    whole.pass_time(seconds=5)

    assert whole.show("schedule time", "requested at", name="often")[1:] == [
        ("2026-03-01 12:00:10", "2026-03-01 12:00:10"),
        ("2026-03-01 12:00:40", "2026-03-01 12:00:45"),
        ("2026-03-01 12:00:50", "2026-03-01 12:00:50"),
    ]


def test_a_tick_that_the_ledger_has_is_not_sent_again_after_a_restart(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.pass_time(seconds=10)

    whole.restart()
    whole.wait_quiet()

    assert whole.show("schedule time", name="often") == [None, "2026-03-01 12:00:10"]


def test_a_suspended_table_stays_suspended(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.sql("ALTER MATERIALIZED TABLE often SUSPEND")

    whole.restart()
    whole.pass_time(minutes=1)

    assert whole.show("kind", name="often") == ["INITIAL"]
    facts = whole.facts("often")
    assert facts["status"] == "SUSPENDED, by SQL at 2026-03-01 12:00:00"
    assert facts["workflow"] == "PAUSED in memory"


def test_a_half_made_create_leaves_nothing(whole: WholeGateway) -> None:
    whole.engine.failing["create_storage"] = SystemExit()
    whole.client.execute(DAILY)
    whole.wait_until(lambda: not whole.engine.failing)
    assert whole.sql("SHOW MATERIALIZED TABLES")[0]["status"] == "INITIALIZING"
    whole.kill()

    whole.start()

    assert whole.state() == NOTHING
    assert whole.sql(DAILY) == [{"result": "OK"}]


def test_a_create_whose_first_refresh_is_killed_has_its_table_and_rows_after_the_restart(
    whole: WholeGateway,
) -> None:
    frozen = whole.freeze_before("staged")
    whole.client.execute(DAILY)
    frozen.wait_entered()
    whole.kill()

    whole.start()
    whole.wait_quiet()

    assert whole.show("kind", "status", "attempt") == [("INITIAL", "SUCCEEDED", 2)]
    assert whole.amounts() == [("2026-02-28", 1), ("2026-03-01", 2)]
    assert whole.facts()["next run"] == "2026-03-02 00:00:00"


def test_what_a_drop_could_not_remove_is_gone_after_the_restart(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.engine.failing["drop_storage"] = OSError("the disk is away")
    page = whole.page(whole.client.execute("DROP MATERIALIZED TABLE daily"))
    left = list(whole.engine.storages)

    whole.restart()

    assert [str(identifier) for identifier in left] == ["lake.default.daily"]
    assert page.warnings == (
        "lake.default.daily is dropped; its leftovers are removed as soon as possible "
        "(drop_storage failed: the disk is away)",
    )
    assert {**whole.state(), "runs": []} == NOTHING


def test_a_handle_of_before_the_restart_still_shows_the_result_of_its_run(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    handle = whole.refresh("lake.default.daily").json()["operationHandle"]
    before = whole.page(handle)

    whole.restart()

    assert whole.client.status(handle) == "FINISHED"
    assert whole.page(handle) == before
