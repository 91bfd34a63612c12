"""Refreshes that a real Airflow asks for: by schedule, by hand, for the past;
and what becomes of those that are ended.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dags.tests.stub_gateway import StubGateway, StubRun, definition, refusal
from tests.airflow.rest import SOON_S
from tests.airflow.stack import AirflowStack
from tests.airflow.test_dags import now, publish

BERLIN = ZoneInfo("Europe/Berlin")
# A task is waited for by its own process for that long before it is deferred.
GRACE_S = 15


def table(airflow: AirflowStack, gateway: StubGateway, name: str, *, since: str = "") -> str:
    """Publish a daily table and return its DAG's id."""
    publish(airflow, gateway, definition(f"lake.{name}", since=since or now()))
    dag = airflow.rest.wait(lambda: airflow.rest.dag(f"mt__lake.{name}"), SOON_S)
    return str(dag["dag_id"])


def asked(gateway: StubGateway, count: int = 1) -> list[StubRun]:
    """Return the runs that were asked for, as soon as there are so many."""
    gateway.wait_for(lambda: len(gateway.runs) >= count, SOON_S)
    return gateway.runs


def test_a_tick_is_asked_for_with_its_point_in_the_tables_zone(
    airflow: AirflowStack, gateway: StubGateway
) -> None:
    made = datetime.now(UTC) - timedelta(days=2)
    today = datetime.now(BERLIN).strftime("%Y-%m-%d 00:00:00")

    dag_id = table(airflow, gateway, "ticked", since=made.isoformat(timespec="seconds"))

    (run,) = asked(gateway)
    assert (run.table, run.body["isPeriodic"], run.body["scheduleTime"]) == ("lake.ticked", True, today)
    gateway.end(run)
    (dag_run,) = airflow.rest.runs(dag_id)
    assert dag_run["run_type"] == "scheduled"
    airflow.rest.wait(lambda: airflow.rest.run(dag_id, dag_run["dag_run_id"])["state"] == "success", SOON_S)
    assert len(gateway.runs) == 1


def test_a_manual_run_refreshes_and_its_log_and_result_say_how(
    airflow: AirflowStack, gateway: StubGateway
) -> None:
    dag_id = table(airflow, gateway, "by_hand")

    run_id = airflow.rest.trigger(dag_id, logical_date="2026-10-05T22:00:00Z")
    (run,) = asked(gateway)
    gateway.wait_for(lambda: run.looked > 1, SOON_S)
    gateway.end(run)

    airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] == "success", SOON_S)
    log = airflow.rest.task_log(dag_id, run_id)
    assert run.body["scheduleTime"] == "2026-10-06 00:00:00"
    assert "Refresh of lake.by_hand: RUNNING, 1 of 200 Spark tasks, stage 1 of 2" in log
    final = "Refresh of lake.by_hand FINISHED: decision refresh (lake.sales.orders changed), "
    assert f"{final}partition ds=2026-11-19, 42 rows, snapshot 7171." in log
    assert "the period that ends then" in log
    assert [event["extra"]["rows"] for event in airflow.rest.asset_events(dag_id)] == [42]
    assert "7171" in str(airflow.rest.result(dag_id, run_id))
    assert airflow.rest.links(dag_id, run_id) == {
        "Refresh run": f"{definition('lake.by_hand')['details_url']}?run={run.handle}"
    }


def test_a_forced_run_says_so_to_the_gateway_and_a_skipped_one_is_no_event_of_the_asset(
    airflow: AirflowStack, gateway: StubGateway
) -> None:
    gateway.looks, gateway.decision = 1, "skip"
    dag_id = table(airflow, gateway, "skipped")

    run_id = airflow.rest.trigger(dag_id, conf={"force": True})

    airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] == "success", SOON_S)
    (call,) = gateway.asked("POST", "/refresh")
    assert {name.lower(): value for name, value in call.headers.items()}["freshtable-force"] == "true"
    assert "decision skip" in airflow.rest.task_log(dag_id, run_id)
    assert airflow.rest.asset_events(dag_id) == []


def test_marking_a_task_failed_cancels_its_refresh(airflow: AirflowStack, gateway: StubGateway) -> None:
    dag_id = table(airflow, gateway, "marked")
    run_id = airflow.rest.trigger(dag_id)
    (run,) = asked(gateway)
    airflow.rest.wait(lambda: airflow.rest.task(dag_id, run_id)["state"] in ("running", "deferred"), SOON_S)

    airflow.rest.mark_task(dag_id, run_id, "failed")

    gateway.wait_for(lambda: run.status == "CANCELED", SOON_S)
    assert len(gateway.runs) == 1


@pytest.mark.slow
def test_a_long_refresh_waits_without_a_worker_and_shows_its_progress(
    airflow: AirflowStack, gateway: StubGateway
) -> None:
    dag_id = table(airflow, gateway, "long")
    run_id = airflow.rest.trigger(dag_id)
    (run,) = asked(gateway)
    airflow.rest.wait(lambda: airflow.rest.task(dag_id, run_id)["state"] == "deferred", GRACE_S + SOON_S)
    seen = run.looked

    gateway.wait_for(lambda: run.looked > seen + 2, SOON_S)
    airflow.rest.wait(lambda: f"RUNNING, {seen + 1} of 200" in airflow.rest.task_log(dag_id, run_id), SOON_S)
    gateway.end(run)

    airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] == "success", SOON_S)
    assert "decision refresh" in airflow.rest.task_log(dag_id, run_id)
    assert airflow.rest.task(dag_id, run_id)["try_number"] == 1


@pytest.mark.slow
def test_ending_a_waiting_task_by_hand_cancels_its_refresh(
    airflow: AirflowStack, gateway: StubGateway
) -> None:
    names = ("failed_task", "cleared_task", "failed_run")
    publish(airflow, gateway, *(definition(f"lake.{name}", since=now()) for name in names))
    failed_task, cleared_task, failed_run = ids = [
        (f"mt__lake.{name}", airflow.rest.trigger(f"mt__lake.{name}")) for name in names
    ]
    begun = {run.table: run for run in asked(gateway, len(names))}
    for each in ids:
        airflow.rest.wait(lambda each=each: airflow.rest.task(*each)["state"] == "deferred", GRACE_S + SOON_S)
    seen = {table: run.looked for table, run in begun.items()}
    gateway.wait_for(lambda: all(run.looked > seen[table] + 1 for table, run in begun.items()), SOON_S)

    airflow.rest.mark_task(*failed_task, "failed")
    airflow.rest.clear_task(*cleared_task)
    airflow.rest.mark_run(*failed_run, "failed")

    gateway.wait_for(lambda: [run.status for run in begun.values()] == ["CANCELED"] * len(names), SOON_S)
    *_, anew = asked(gateway, len(names) + 1)
    assert anew.table == "lake.cleared_task"
    gateway.end(anew)
    airflow.rest.wait(lambda: airflow.rest.run(*cleared_task)["state"] == "success", SOON_S)


@pytest.mark.kills
def test_a_killed_triggerer_goes_on_with_the_same_refresh(
    breakable_airflow: AirflowStack, gateway: StubGateway
) -> None:
    airflow = breakable_airflow
    dag_id = table(airflow, gateway, "orphaned")
    run_id = airflow.rest.trigger(dag_id)
    (run,) = asked(gateway)
    airflow.rest.wait(lambda: airflow.rest.task(dag_id, run_id)["state"] == "deferred", GRACE_S + SOON_S)

    airflow.kill("triggerer")
    seen = run.looked
    airflow.start("triggerer")
    gateway.wait_for(lambda: run.looked > seen + 1, 2 * SOON_S)
    gateway.end(run)

    airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] == "success", SOON_S)
    assert len(gateway.runs) == 1


@pytest.mark.kills
def test_a_killed_task_finds_its_refresh_again(airflow: AirflowStack, gateway: StubGateway) -> None:
    dag_id = table(airflow, gateway, "killed")
    run_id = airflow.rest.trigger(dag_id)
    (run,) = asked(gateway)

    airflow.kill_task(airflow.rest.task(dag_id, run_id)["id"])
    gateway.wait_for(lambda: run.attempt == 2, 2 * SOON_S)
    gateway.end(run)

    airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] == "success", SOON_S)
    assert len(gateway.runs) == 1


@pytest.mark.kills
def test_a_gateway_that_is_away_at_the_tick_is_asked_again(
    airflow: AirflowStack, gateway: StubGateway
) -> None:
    dag_id = table(airflow, gateway, "away")
    gateway.down = True
    run_id = airflow.rest.trigger(dag_id)
    airflow.rest.wait(lambda: airflow.rest.task(dag_id, run_id)["state"] == "up_for_retry", SOON_S)

    gateway.down = False

    (run,) = asked(gateway)
    gateway.end(run)
    airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] == "success", SOON_S)
    assert run.attempt == 2


@pytest.mark.slow
def test_a_table_dropped_meanwhile_fails_the_task_at_once(
    airflow: AirflowStack, gateway: StubGateway
) -> None:
    dag_id = table(airflow, gateway, "dropped")
    gateway.refusals = [refusal(410, "TABLE_GONE", "Materialized table lake.dropped was dropped.")]

    run_id = airflow.rest.trigger(dag_id)

    airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] == "failed", SOON_S)
    assert airflow.rest.task(dag_id, run_id)["try_number"] == 1
    assert "the table was dropped, or re-created" in airflow.rest.task_log(dag_id, run_id)
