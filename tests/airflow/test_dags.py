"""Materialized tables as DAGs of a real Airflow."""

from __future__ import annotations

from datetime import UTC, datetime

from dags.tests.stub_gateway import StubGateway, definition, shard_of
from tests.airflow.rest import SOON_S
from tests.airflow.settings import PREFIX
from tests.airflow.stack import AirflowStack

LOOK_AGAIN_S = 5
BROKEN_ZONE = "Europe/Atlantis"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def publish(airflow: AirflowStack, gateway: StubGateway, *bodies: dict[str, object]) -> None:
    """Serve *bodies* and have Airflow look, as the gateway does:
    until it shows, as Airflow drops what meets a running parse.
    """
    gateway.definitions = list(bodies)
    for body in bodies:
        anchor = f"mt__shard_{shard_of(body):02d}"
        airflow.rest.wait(lambda anchor=anchor: airflow.rest.dag(anchor), SOON_S)
        for _ in range(SOON_S // LOOK_AGAIN_S):
            airflow.rest.parse_file_of(anchor)
            if body["zone"] == BROKEN_ZONE or shown(airflow, body):
                break


def shown(airflow: AirflowStack, body: dict[str, object]) -> bool:
    """Wait a moment for the DAG with this definition's schedule, and say whether it came."""
    schedule = body["schedule"]
    assert isinstance(schedule, dict)
    kind = str(schedule.get("cron") or f"every {schedule.get('amount')} {schedule.get('unit')}")
    wanted = f"{kind} ({body['zone']}) since {body['since']}"
    try:
        return airflow.rest.wait(
            lambda: airflow.rest.dag(str(body["name"])).get("timetable_summary") == wanted, LOOK_AGAIN_S
        )
    except TimeoutError:
        return False


def test_an_anchor_for_every_shard_is_there_from_the_start(airflow: AirflowStack) -> None:
    wanted = {f"mt__shard_{number:02d}" for number in range(32)}

    def anchors() -> set[str]:
        found = airflow.rest.get("/dags", tags="freshtable-shard", dag_id_prefix_pattern=PREFIX, limit=100)
        return {dag["dag_id"] for dag in found.get("dags", [])}

    assert airflow.rest.wait(lambda: anchors() == wanted and anchors(), SOON_S) == wanted
    assert airflow.rest.dag("mt__shard_00")["timetable_summary"] == "never"
    assert airflow.rest.dag("mt__shard_00")["next_dagrun_run_after"] is None


def test_a_definition_becomes_a_dag_with_its_schedule_and_documentation(
    airflow: AirflowStack, gateway: StubGateway
) -> None:
    since = now()
    publish(
        airflow, gateway, definition("lake.shown", every=(90, "MINUTE"), cron="", zone="UTC", since=since)
    )

    dag = airflow.rest.wait(lambda: airflow.rest.dag("mt__lake.shown"), SOON_S)
    details = airflow.rest.get("/dags/mt__lake.shown/details")

    assert dag["dag_display_name"] == "mt__lake.shown"
    assert dag["timetable_summary"] == f"every 90 MINUTE (UTC) since {since}"
    assert dag["is_paused"] is False
    assert dag["next_dagrun_run_after"] > since
    assert {tag["name"] for tag in dag["tags"]} == {"freshtable", "materialized-table"}
    first = airflow.rest.get("/dags", order_by="dag_display_name", dag_id_prefix_pattern=PREFIX, limit=1)[
        "dags"
    ][0]
    assert first["dag_id"].startswith("mt__lake.")
    assert "CREATE MATERIALIZED TABLE lake.shown" in details["doc_md"]
    assert airflow.rest.runs("mt__lake.shown") == []


def test_a_change_of_the_schedule_is_seen_and_a_broken_definition_hides_no_other(
    airflow: AirflowStack, gateway: StubGateway
) -> None:
    since = now()
    publish(airflow, gateway, definition("lake.changed", since=since))
    airflow.rest.wait(lambda: airflow.rest.dag("mt__lake.changed"), SOON_S)
    changed = definition("lake.changed", since=since, every=(6, "HOUR"), cron="0 */6 * * *")
    broken = definition("lake.broken", workflow_id=changed["workflow_id"], zone=BROKEN_ZONE)
    anchor = f"mt__shard_{shard_of(changed):02d}"

    publish(airflow, gateway, changed, broken)

    summary = f"0 */6 * * * (Europe/Berlin) since {since}"
    airflow.rest.wait(lambda: airflow.rest.dag("mt__lake.changed")["timetable_summary"] == summary, SOON_S)
    assert airflow.rest.dag("mt__lake.changed")["has_import_errors"] is False
    assert BROKEN_ZONE in airflow.rest.get(f"/dags/{anchor}/details")["doc_md"]
    assert airflow.rest.dag("mt__lake.broken") == {}
