"""Airflows set up in other ways: on PostgreSQL, and without a bundle of ours."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dags.tests.stub_gateway import TOKEN, StubGateway, definition
from tests.airflow.rest import SOON_S
from tests.airflow.settings import AirflowSettings
from tests.airflow.stack import free_port, running_airflow
from tests.airflow.test_dags import now, publish

pytestmark = [pytest.mark.slow, pytest.mark.airflow]


@pytest.mark.postgres
def test_on_postgresql_ticks_backfills_and_cancels_work_as_well(
    tmp_path: Path, postgres_database: str, stack_kind: str
) -> None:
    if stack_kind == "compose":
        pytest.skip("an Airflow of this machine is what is tested")
    database = postgres_database.replace("postgresql://", "postgresql+psycopg2://")
    with StubGateway(looks=1) as gateway:
        settings = AirflowSettings(
            home=tmp_path, port=free_port(), gateway_url=gateway.url, token=TOKEN, database_url=database
        )
        with running_airflow(settings) as airflow:
            made = (datetime.now(UTC) - timedelta(days=2)).isoformat(timespec="seconds")
            publish(airflow, gateway, definition("lake.ticked", since=made), definition("lake.filled", since=now()))
            gateway.wait_for(lambda: [run for run in gateway.runs if run.table == "lake.ticked"], SOON_S)
            airflow.rest.wait(lambda: airflow.rest.dag("mt__lake.filled"), SOON_S)

            airflow.rest.backfill("mt__lake.filled", "2026-09-01T00:00:00Z", "2026-09-03T23:00:00Z")
            airflow.rest.wait(
                lambda: [run["state"] for run in airflow.rest.runs("mt__lake.filled")] == ["success"] * 3, 2 * SOON_S
            )
            gateway.looks = None
            run_id = airflow.rest.trigger("mt__lake.filled")
            gateway.wait_for(lambda: len(gateway.runs) == 5, SOON_S)
            airflow.rest.mark_task("mt__lake.filled", run_id, "failed")

            gateway.wait_for(lambda: gateway.runs[-1].status == "CANCELED", SOON_S)


def test_two_lines_in_the_dags_folder_do_without_a_bundle(tmp_path: Path, stack_kind: str) -> None:
    if stack_kind == "compose":
        pytest.skip("an Airflow of this machine is what is tested")
    local = {"name": "dags", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}}
    more = {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([local])}
    with StubGateway(looks=1) as gateway:
        settings = AirflowSettings(home=tmp_path, port=free_port(), gateway_url=gateway.url, token=TOKEN, more=more)
        (tmp_path / "dags").mkdir()
        (tmp_path / "dags" / "materialized_tables.py").write_text(
            "# a DAG file of Airflow\n"
            "from freshtable_airflow.loader import load\n"
            f"load(globals(), gateway={gateway.url!r})\n"
        )
        with running_airflow(settings) as airflow:
            publish(airflow, gateway, definition("lake.loaded", since=now()))
            airflow.rest.wait(lambda: airflow.rest.dag("mt__lake.loaded"), SOON_S)

            run_id = airflow.rest.trigger("mt__lake.loaded")

            airflow.rest.wait(lambda: airflow.rest.run("mt__lake.loaded", run_id)["state"] == "success", SOON_S)
            assert [run.table for run in gateway.runs] == ["lake.loaded"]
