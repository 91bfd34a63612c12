"""An Airflow on PostgreSQL whose tokens are soon too old, a real gateway and a real Spark."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dags.tests.stub_gateway import TOKEN
from tests.airflow.lake import Lake
from tests.airflow.rest import SOON_S
from tests.airflow.settings import AirflowSettings
from tests.airflow.stack import free_port, running_airflow

TOKENS_LIVE_S = 5


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.postgres
def test_on_postgresql_and_with_tokens_that_expire_a_table_lives_from_create_to_drop(
    tmp_path: Path, postgres_database: str, stack_kind: str
) -> None:
    if stack_kind == "compose":
        pytest.skip("an Airflow of this machine is what is tested")
    port = free_port()
    settings = AirflowSettings(
        home=tmp_path / "airflow",
        port=free_port(),
        gateway_url=f"http://127.0.0.1:{port}",
        token=TOKEN,
        database_url=postgres_database,
        more={"AIRFLOW__API_AUTH__JWT_EXPIRATION_TIME": str(TOKENS_LIVE_S)},
    )
    with running_airflow(settings) as airflow:
        lake = Lake(tmp_path / "lake", airflow, host="127.0.0.1", port=port, token=TOKEN)
        try:
            lake.start()
            dag_id = lake.paced("told")
            lake.pace("told", 0)
            run_id = airflow.rest.trigger(dag_id)
            airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] == "success", SOON_S)
            time.sleep(TOKENS_LIVE_S)
            airflow.rest.pause(dag_id, True)
            paused = lake.facts("told")["status"]
            time.sleep(TOKENS_LIVE_S)
            lake.sql("ALTER MATERIALIZED TABLE lake.default.told RESUME")
            airflow.rest.backfill(dag_id, "2026-09-02T00:00:00Z", "2026-09-05T12:00:00Z")
            airflow.rest.wait(
                lambda: [run["state"] for run in airflow.rest.runs(dag_id)] == ["success"] * 4, 2 * SOON_S
            )
            count, times = lake.count("told"), {run["schedule time"] for run in lake.refreshes("told")}
            lake.drop("told")

            assert paused.startswith(f"SUSPENDED, by {airflow.user} at ")
            assert count == 2
            assert times >= {"2026-09-03 00:00:00", "2026-09-04 00:00:00", "2026-09-05 00:00:00"}
            assert airflow.rest.dag(dag_id) == {}
        finally:
            lake.stop()
