"""What goes wrong between a real Airflow, a real gateway and a real Spark, and what comes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mt_core.errors import GatewayError
from tests.airflow.lake import Lake
from tests.airflow.rest import SOON_S
from tests.airflow.stack import AirflowStack
from tests.airflow.test_real_gateway import PASS_S
from tests.support.gateway.own_process import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

# Shorter than the operator waits with its task, and longer, so that the task waits in the triggerer.
SHORT_S, LONG_S = 8.0, 28.0
# Longer than Airflow takes on a busy machine to end a task by hand.
UNTIL_ENDED_S = 60.0
# A refresh that is cancelled before it ends, on any machine.
ENDLESS_S = 2 * SOON_S
Ids = tuple[str, str]


def succeeded(airflow: AirflowStack, dag_id: str, run_id: str) -> None:
    airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] in ("success", "failed"), 2 * SOON_S)
    assert airflow.rest.run(dag_id, run_id)["state"] == "success"


def begin(airflow: AirflowStack, lake: Lake, name: str, lasts_s: float) -> Ids:
    """Make a table and have Airflow begin a refresh that lasts that long;
    return the ids of its DAG and of the run.
    """
    dag_id = lake.paced(name)
    lake.pace(name, lasts_s)
    run_id = airflow.rest.trigger(dag_id)
    lake.running(name)
    return dag_id, run_id


def watched(airflow: AirflowStack, dag_id: str, run_id: str) -> None:
    """Wait until the triggerer watches a refresh: before that, Airflow tells nobody of a task
    that is ended by hand.
    """
    airflow.rest.wait(
        lambda: re.search(r"\(ID \d+\) starting", airflow.rest.task_log(dag_id, run_id)), SOON_S
    )


def published_once(lake: Lake, name: str) -> None:
    """Check that one run is in the ledger, and that it published once what the table is to have."""
    (run,) = lake.refreshes(name)
    assert (run["status"], run["error"]) == ("SUCCEEDED", None)
    assert lake.published(name, run["refresh"]) == 1
    assert lake.count(name) == 2


def test_a_task_failed_by_hand_cancels_its_spark_job_and_a_cleared_one_refreshes_anew(
    airflow: AirflowStack, lake: Lake
) -> None:
    dag_id, run_id = begin(airflow, lake, "ended_by_hand", UNTIL_ENDED_S)

    airflow.rest.mark_task(dag_id, run_id, "failed")
    wait_until(
        lambda: statuses(lake, "ended_by_hand") == ["CANCELED"], "the refresh was not cancelled", SOON_S
    )
    jobs, count = lake.running_jobs(), lake.count("ended_by_hand")
    lake.hasten("ended_by_hand")
    airflow.rest.clear_task(dag_id, run_id)

    succeeded(airflow, dag_id, run_id)
    assert statuses(lake, "ended_by_hand") == ["CANCELED", "SUCCEEDED"]
    assert (jobs, count, lake.count("ended_by_hand")) == ([], 1, 2)


@pytest.fixture(scope="module")
def survivors(airflow: AirflowStack, session_lake: Lake) -> dict[str, Ids]:
    """Runs of three tables that go on: one's task was killed, then the gateway under the second's,
    at a tick of the third.

    Airflow tries again half a minute later: the other tests go on meanwhile.
    """
    lake = session_lake
    dag_ids = {name: lake.paced(name) for name in ("killed_task", "killed_gateway", "missed")}
    for name in dag_ids:
        lake.pace(name, SHORT_S)
    found = {"killed_task": (dag_ids["killed_task"], airflow.rest.trigger(dag_ids["killed_task"]))}
    lake.running("killed_task")
    airflow.kill_task(airflow.rest.task(*found["killed_task"])["id"])
    found["killed_gateway"] = (dag_ids["killed_gateway"], airflow.rest.trigger(dag_ids["killed_gateway"]))
    lake.running("killed_gateway")
    lake.kill()
    run_id = airflow.rest.trigger(dag_ids["missed"], logical_date="2026-10-05T22:00:00Z")
    found["missed"] = (dag_ids["missed"], run_id)
    airflow.rest.wait(lambda: airflow.rest.task(*found["missed"])["state"] == "up_for_retry", SOON_S)
    lake.start()
    return found


@pytest.mark.usefixtures("survivors")
def test_clearing_a_task_in_mid_refresh_ends_that_and_begins_another(
    airflow: AirflowStack, lake: Lake
) -> None:
    dag_id, run_id = begin(airflow, lake, "cleared", UNTIL_ENDED_S)

    airflow.rest.clear_task(dag_id, run_id)
    wait_until(lambda: statuses(lake, "cleared")[:1] == ["CANCELED"], "the refresh was not cancelled", SOON_S)
    lake.hasten("cleared")

    wait_until(lambda: len(lake.refreshes("cleared")) == 2, "it is not refreshed anew", SOON_S)
    succeeded(airflow, dag_id, run_id)
    assert statuses(lake, "cleared") == ["CANCELED", "SUCCEEDED"]
    assert lake.count("cleared") == 2


def test_a_run_failed_by_hand_cancels_the_refresh_that_its_task_waits_for(
    airflow: AirflowStack, lake: Lake
) -> None:
    dag_id, run_id = begin(airflow, lake, "failed_run", ENDLESS_S)
    watched(airflow, dag_id, run_id)

    airflow.rest.mark_run(dag_id, run_id, "failed")

    wait_until(lambda: statuses(lake, "failed_run") == ["CANCELED"], "the refresh was not cancelled", SOON_S)
    assert lake.count("failed_run") == 1


def test_another_freshness_lets_the_run_go_on(airflow: AirflowStack, lake: Lake) -> None:
    dag_id, run_id = begin(airflow, lake, "rescheduled", SHORT_S)

    lake.sql("ALTER MATERIALIZED TABLE lake.default.rescheduled SET FRESHNESS = INTERVAL '90' MINUTE")

    assert airflow.rest.dag(dag_id)["timetable_summary"].startswith("every 90 MINUTE")
    succeeded(airflow, dag_id, run_id)
    published_once(lake, "rescheduled")


def test_a_table_dropped_in_mid_refresh_can_be_made_again_at_once(airflow: AirflowStack, lake: Lake) -> None:
    dag_id, _ = begin(airflow, lake, "renewed", SHORT_S)

    lake.drop("renewed")
    dag = airflow.rest.dag(dag_id)
    lake.sql("DROP TABLE lake.default.renewed_source")
    lake.paced("renewed")
    lake.pace("renewed", 0)
    run_id = airflow.rest.trigger(dag_id)

    succeeded(airflow, dag_id, run_id)
    assert dag == {}
    assert len(airflow.rest.runs(dag_id)) == 1
    published_once(lake, "renewed")


def test_a_task_killed_in_mid_refresh_finds_its_run_again(
    airflow: AirflowStack, lake: Lake, survivors: dict[str, Ids]
) -> None:
    succeeded(airflow, *survivors["killed_task"])
    published_once(lake, "killed_task")
    assert airflow.rest.task(*survivors["killed_task"])["try_number"] >= 2


def test_a_gateway_killed_in_mid_refresh_goes_on_with_the_run_and_the_task_with_it(
    airflow: AirflowStack, lake: Lake, survivors: dict[str, Ids]
) -> None:
    succeeded(airflow, *survivors["killed_gateway"])
    published_once(lake, "killed_gateway")
    assert airflow.rest.task(*survivors["killed_gateway"])["try_number"] == 1
    assert lake.refreshes("killed_gateway")[0]["attempt"] == 2


def test_a_gateway_that_is_down_at_a_tick_loses_none(
    airflow: AirflowStack, lake: Lake, survivors: dict[str, Ids]
) -> None:
    succeeded(airflow, *survivors["missed"])
    published_once(lake, "missed")
    assert airflow.rest.task(*survivors["missed"])["try_number"] >= 2
    assert lake.refreshes("missed")[0]["schedule time"] == "2026-10-06 00:00:00"


def test_a_triggerer_killed_in_mid_refresh_goes_on_watching(
    breakable_airflow: AirflowStack, lake: Lake
) -> None:
    airflow = breakable_airflow
    dag_id, run_id = begin(airflow, lake, "killed_triggerer", LONG_S)
    watched(airflow, dag_id, run_id)

    airflow.kill("triggerer")
    airflow.start("triggerer")

    succeeded(airflow, dag_id, run_id)
    published_once(lake, "killed_triggerer")
    assert airflow.rest.task(dag_id, run_id)["try_number"] == 1


def test_with_airflow_away_nothing_is_half_made_and_drop_is_finished_later(
    breakable_airflow: AirflowStack, lake: Lake
) -> None:
    airflow = breakable_airflow
    suspended, active, dropped = (
        lake.create(name, query="SELECT 1 AS n") for name in ("away_s", "away_a", "away_d")
    )
    lake.sql("ALTER MATERIALIZED TABLE lake.default.away_s SUSPEND")

    with away(airflow, "api-server"):
        create = refused(
            lake,
            "CREATE MATERIALIZED TABLE lake.default.away_c FRESHNESS = INTERVAL '1' DAY AS SELECT 1 AS n",
        )
        suspend = refused(lake, "ALTER MATERIALIZED TABLE lake.default.away_a SUSPEND")
        resume = refused(lake, "ALTER MATERIALIZED TABLE lake.default.away_s RESUME")
        stored = [lake.stored_status(name) for name in ("away_s", "away_a")]
        left = lake.exists("away_c")
        warnings = warned(lake, "DROP MATERIALIZED TABLE lake.default.away_d")
        exists = lake.exists("away_d")

    assert "nothing was left behind" in create
    assert all("Airflow at" in text and "cannot be reached" in text for text in (create, suspend, resume))
    assert (stored, left, exists) == (["SUSPENDED", "ACTIVATED"], False, False)
    assert "removed as soon as possible" in warnings
    airflow.rest.wait(lambda: airflow.rest.dag(dropped) == {}, 2 * PASS_S)
    assert [airflow.rest.dag(dag_id)["is_paused"] for dag_id in (suspended, active)] == [True, False]
    lake.sql("ALTER MATERIALIZED TABLE lake.default.away_s RESUME")
    lake.sql("ALTER MATERIALIZED TABLE lake.default.away_a SUSPEND")
    assert [airflow.rest.dag(dag_id)["is_paused"] for dag_id in (suspended, active)] == [False, True]


@contextmanager
def away(airflow: AirflowStack, name: str) -> Iterator[None]:
    airflow.stop(name)
    try:
        yield
    finally:
        airflow.start(name)


def statuses(lake: Lake, name: str) -> list[str]:
    return [run["status"] for run in lake.refreshes(name)]


def refused(lake: Lake, statement: str) -> str:
    with pytest.raises(GatewayError) as refusal:
        lake.sql(statement)
    return str(refusal.value)


def warned(lake: Lake, statement: str) -> str:
    """Return the warnings with which a statement succeeds."""
    with lake.client() as client:
        return " ".join(text for page in client.pages(client.execute(statement)) for text in page.warnings)
