"""An Airflow set up in another way: on SQLite, and without a bundle of ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dags.tests.stub_gateway import TOKEN, StubGateway, definition
from mt_core.demo.free_ports import free_port
from tests.airflow.rest import SOON_S
from tests.airflow.settings import AirflowSettings
from tests.airflow.stack import running_airflow
from tests.airflow.test_dags import now, publish

pytestmark = [pytest.mark.slow, pytest.mark.airflow]


def test_two_lines_in_the_dags_folder_do_without_a_bundle(tmp_path: Path, stack_kind: str) -> None:
    if stack_kind == "compose":
        pytest.skip("an Airflow of this machine is what is tested")
    local = {"name": "dags", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}}
    more = {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([local])}
    with StubGateway(looks=1) as gateway:
        settings = AirflowSettings(
            home=tmp_path, port=free_port(), gateway_url=gateway.url, token=TOKEN, more=more
        )
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

            airflow.rest.wait(
                lambda: airflow.rest.run("mt__lake.loaded", run_id)["state"] == "success", SOON_S
            )
            assert [run.table for run in gateway.runs] == ["lake.loaded"]
