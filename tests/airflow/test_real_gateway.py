"""A real Airflow, a real gateway and a real Spark: from CREATE in SQL to a DAG, its runs, and DROP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.airflow.lake import DAILY, Lake, dag_id_of
from tests.airflow.rest import SOON_S
from tests.airflow.settings import SERVICE_USER
from tests.airflow.stack import AirflowStack
from tests.support.gateway.own_process import Row, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

# A tick of a table that is to be fresh to a minute comes within that, and its task a little later.
TICK_S = 60 + SOON_S
# A pass of the gateway's reconciler begins every 30 s, and takes a moment; a busy machine misses one.
PASS_S = 120
EACH_MINUTE = "FRESHNESS = INTERVAL '1' MINUTE"
DAILY_PARTITIONS = "PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')"


@pytest.fixture(scope="module")
def begun(airflow: AirflowStack, session_lake: Lake) -> None:
    """What takes a tick of Airflow or a pass of the gateway's reconciler is begun at once,
    as tests that come later look at it.

    `ticked`, `upper` and `lower` refresh each minute; five schedule times of `broken` are asked for since
    a column of its query is gone; `paused_too` is paused in Airflow, and the DAGs of `gone_suspended` and
    `gone_active` are deleted there.
    """
    lake = session_lake
    lake.sql("CREATE TABLE lake.default.broken_source (city STRING, z INT) USING iceberg")
    broken = lake.create("broken", query="SELECT max(z) AS z FROM lake.default.broken_source", when=DAILY)
    lake.sql("ALTER TABLE lake.default.broken_source DROP COLUMN z")
    airflow.rest.backfill(broken, "2026-09-01T12:00:00Z", "2026-09-06T12:00:00Z")
    airflow.rest.pause(lake.create("paused_too", query="SELECT 1 AS n"), True)
    gone = [lake.create(name, query="SELECT 1 AS n") for name in ("gone_suspended", "gone_active")]
    lake.sql("ALTER MATERIALIZED TABLE lake.default.gone_suspended SUSPEND")
    for dag_id in gone:
        assert airflow.rest.ask("DELETE", f"/dags/{dag_id}").is_success
    lake.paced("ticked", when=EACH_MINUTE)
    lake.paced("upper", when=EACH_MINUTE)
    lake.create("lower", query="SELECT n FROM lake.default.upper", when=EACH_MINUTE)
    lake.pace("ticked", 0)
    # Longer than the tick of one DAG comes after that of another, and shorter than half the freshness,
    # after which none waits.
    lake.pace("upper", 15)


def test_a_table_waits_for_the_run_of_the_same_schedule_time_of_the_one_that_it_reads(
    airflow: AirflowStack, lake: Lake, begun: None
) -> None:
    waited: dict[str, Row] = {}

    def met() -> tuple[Row, Row, Row] | None:
        """A refresh of the lower table as it waited and as it ended, and that of the upper one
        for which it waited.

        A tick of one DAG can come so late after that of the other that nothing is left to wait for;
        then the next ones meet.
        """
        of_lower = lake.refreshes("lower")
        waited.update({str(run["refresh"]): run for run in of_lower if "waits for" in str(run["reason"])})
        of_upper = {
            run["schedule time"]: run for run in lake.refreshes("upper") if run["status"] == "SUCCEEDED"
        }
        ended = [run for run in of_lower if run["refresh"] in waited and run["status"] == "SUCCEEDED"]
        both = [(waited[str(run["refresh"])], run, of_upper.get(run["schedule time"])) for run in ended]
        return next(((first, last, upper) for first, last, upper in both if upper), None)

    wait, lower, upper = airflow.rest.wait(met, 3 * TICK_S)
    shown = lake.values("SELECT n FROM lake.default.lower")
    for name in ("lower", "upper"):
        lake.drop(name)
    assert wait["reason"] == f"waits for lake.default.upper at {lower['schedule time']}"
    assert str(lower["started at"]) >= str(upper["finished at"])
    assert shown == [(2,)]


def test_a_tick_refreshes_and_its_task_log_ends_with_what_it_came_to(
    airflow: AirflowStack, lake: Lake, begun: None
) -> None:
    dag_id = dag_id_of("ticked")
    dag = airflow.rest.dag(dag_id)
    airflow.rest.wait(lambda: lake.count("ticked") == 2, TICK_S)
    # Each tick refreshes it: the query is not deterministic.
    run = next(run for run in lake.refreshes("ticked") if run["status"] == "SUCCEEDED")
    last = (
        f"FINISHED: decision refresh ({run['reason']}), the whole table, 1 row, snapshot {run['snapshot']}."
    )

    def told() -> list[dict[str, Any]]:
        return [
            each
            for each in airflow.rest.runs(dag_id)
            if f"Refresh of lake.default.ticked {last}" in airflow.rest.task_log(dag_id, each["dag_run_id"])
        ]

    (in_airflow,) = airflow.rest.wait(told, SOON_S)
    airflow.rest.wait(
        lambda: airflow.rest.run(dag_id, in_airflow["dag_run_id"])["state"] == "success", SOON_S
    )
    lake.drop("ticked")
    assert dag["timetable_summary"].startswith("* * * * * (Europe/Berlin) since ")
    assert (in_airflow["run_type"], run["kind"], run["attempt"]) == ("scheduled", "PERIODIC", 1)


def test_a_run_by_hand_refreshes_and_one_with_nothing_new_says_so(airflow: AirflowStack, lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.default.by_hand_source (id BIGINT) USING iceberg")
    lake.sql("INSERT INTO lake.default.by_hand_source VALUES (1)")
    dag_id = lake.create("by_hand", query="SELECT count(*) AS n FROM lake.default.by_hand_source")
    lake.sql("INSERT INTO lake.default.by_hand_source VALUES (2)")

    first = airflow.rest.trigger(dag_id)
    airflow.rest.wait(lambda: airflow.rest.run(dag_id, first)["state"] == "success", SOON_S)
    second = airflow.rest.trigger(dag_id)
    airflow.rest.wait(lambda: airflow.rest.run(dag_id, second)["state"] == "success", SOON_S)

    assert lake.count("by_hand") == 2
    assert [run["status"] for run in lake.refreshes("by_hand")] == ["SUCCEEDED", "SKIPPED"]
    assert "FINISHED: decision skip" in airflow.rest.task_log(dag_id, second)


def test_a_backfill_refreshes_the_partitions_of_three_past_days_and_no_others(
    airflow: AirflowStack, lake: Lake
) -> None:
    lake.sql("CREATE TABLE lake.default.daily_source (ds STRING, amount BIGINT) USING iceberg")
    days = ", ".join(f"('2026-09-{day:02d}', 1)" for day in range(1, 8))
    lake.sql(f"INSERT INTO lake.default.daily_source VALUES {days}")
    query = "SELECT ds, sum(amount) AS amount FROM lake.default.daily_source GROUP BY ds"
    dag_id = lake.create("daily", query=query, when=DAILY, with_=DAILY_PARTITIONS)
    lake.sql("INSERT INTO lake.default.daily_source SELECT ds, 1000 FROM lake.default.daily_source")

    # Their schedule times are the midnights at which the days of the 2nd to the 4th were over.
    airflow.rest.backfill(dag_id, "2026-09-02T12:00:00Z", "2026-09-05T12:00:00Z")
    airflow.rest.wait(
        lambda: [run["state"] for run in airflow.rest.runs(dag_id)] == ["success"] * 3, 2 * SOON_S
    )

    found = dict(lake.values("SELECT ds, amount FROM lake.default.daily"))
    assert sorted(ds for ds, amount in found.items() if amount == 1001) == [
        "2026-09-02",
        "2026-09-03",
        "2026-09-04",
    ]
    assert sorted(found.values()) == [1] * 4 + [1001] * 3
    times = sorted(run["schedule time"] for run in lake.refreshes("daily"))
    assert times == ["2026-09-03 00:00:00", "2026-09-04 00:00:00", "2026-09-05 00:00:00"]
    assert {run["kind"] for run in lake.refreshes("daily")} == {"BACKFILL"}


def test_a_pause_in_the_ui_is_seen_in_sql_at_once_and_in_the_registry_soon(
    airflow: AirflowStack, lake: Lake, begun: None
) -> None:
    dag_id = lake.create("paused", query="SELECT 1 AS n")

    airflow.rest.pause(dag_id, True)
    paused, shown = lake.facts("paused"), lake.listed("paused")
    airflow.rest.pause(dag_id, False)
    resumed, shown_again = lake.facts("paused"), lake.listed("paused")

    assert paused["status"].startswith(f"SUSPENDED, by {airflow.user} at 20")
    assert (shown["status"], shown["status by"]) == ("SUSPENDED", airflow.user)
    assert resumed["status"].startswith(f"ACTIVATED, by {airflow.user} at 20")
    assert (shown_again["status"], shown_again["status by"]) == ("ACTIVATED", airflow.user)
    wait_until(lambda: lake.stored_status("paused_too") == "SUSPENDED", "the pause was not read back", PASS_S)


def test_a_resume_in_sql_is_never_undone_by_a_late_look_at_airflow(airflow: AirflowStack, lake: Lake) -> None:
    dag_id = lake.create("contended", query="SELECT 1 AS n")

    found = []
    for _ in range(8):
        airflow.rest.pause(dag_id, True)
        lake.sql("ALTER MATERIALIZED TABLE lake.default.contended RESUME")
        found.append((lake.stored_status("contended"), airflow.rest.dag(dag_id)["is_paused"]))
        found.append(
            (lake.facts("contended")["status"].partition(",")[0], airflow.rest.dag(dag_id)["is_paused"])
        )

    assert set(found) == {("ACTIVATED", False)}
    assert SERVICE_USER not in lake.facts("contended")["status"]


def test_a_dag_deleted_by_hand_comes_back_as_the_table_is(
    airflow: AirflowStack, lake: Lake, begun: None
) -> None:
    suspended, active = dag_id_of("gone_suspended"), dag_id_of("gone_active")

    airflow.rest.wait(lambda: airflow.rest.dag(suspended) and airflow.rest.dag(active), PASS_S)
    assert [airflow.rest.dag(dag_id)["is_paused"] for dag_id in (suspended, active)] == [True, False]
    assert [lake.stored_status(name) for name in ("gone_suspended", "gone_active")] == [
        "SUSPENDED",
        "ACTIVATED",
    ]


def test_a_table_in_continuous_mode_has_no_dag_until_its_mode_is_full(
    airflow: AirflowStack, lake: Lake
) -> None:
    lake.sql("CREATE TABLE lake.default.followed_source (id BIGINT) USING iceberg")
    query = "SELECT count(*) AS n FROM lake.default.followed_source"
    lake.sql(f"CREATE MATERIALIZED TABLE lake.default.followed REFRESH_MODE = CONTINUOUS AS {query}")
    set_mode = "ALTER MATERIALIZED TABLE lake.default.followed SET REFRESH_MODE = {}"

    followed = airflow.rest.ask("GET", f"/dags/{dag_id_of('followed')}").status_code
    lake.sql("INSERT INTO lake.default.followed_source VALUES (1)")
    wait_until(lambda: lake.count("followed") == 1, "the table does not follow its source", SOON_S)
    lake.sql(set_mode.format("FULL"))
    full = airflow.rest.dag(dag_id_of("followed"))["is_paused"]
    lake.sql(set_mode.format("CONTINUOUS"))
    lake.sql("INSERT INTO lake.default.followed_source VALUES (2)")
    wait_until(lambda: lake.count("followed") == 2, "the table does not follow its source", SOON_S)

    assert (followed, full) == (httpx.codes.NOT_FOUND, False)
    wait_until(lambda: _is_gone(airflow, dag_id_of("followed")), "the DAG stays", PASS_S)
    lake.drop("followed")


def _is_gone(airflow: AirflowStack, dag_id: str) -> bool:
    answer = airflow.rest.ask("GET", f"/dags/{dag_id}")
    return answer.status_code == httpx.codes.NOT_FOUND or bool(answer.json()["is_stale"])


def test_a_table_that_fails_at_five_schedule_times_in_a_row_is_suspended_and_its_dag_paused(
    airflow: AirflowStack, lake: Lake, begun: None
) -> None:
    wait_until(lambda: lake.stored_status("broken") == "SUSPENDED", "it goes on", TICK_S)

    failed = [run for run in lake.refreshes("broken") if run["status"] == "FAILED"]
    status, paused = lake.facts("broken")["status"], airflow.rest.dag(dag_id_of("broken"))["is_paused"]
    lake.drop("broken")
    assert len({run["schedule time"] for run in failed}) >= 5
    assert status.startswith("SUSPENDED, by 5 failed schedule times in a row at ")
    assert status.endswith(str(failed[-1]["error"]))
    assert paused is True
