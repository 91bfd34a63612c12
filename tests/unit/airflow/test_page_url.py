"""The URL of a workflow in Airflow's web interface, which has the path `/dags/<DAG id>` in Airflow 3."""

from __future__ import annotations

import pytest

from mt_core.errors import WorkflowError
from mt_core.workflow.handlers import RefreshHandler
from tests.unit.airflow.airflow_world import DAG, TABLE, AirflowWorld


def test_a_workflow_is_at_its_dag_in_airflow(opened: AirflowWorld) -> None:
    handler = opened.create()
    asked = opened.airflow.asked("")

    url = opened.scheduler.page_url(handler)

    assert url == f"{opened.server.url}/dags/{DAG}"
    assert opened.airflow.asked("") == asked


def test_browsers_may_reach_airflow_at_another_address_than_the_gateway(world: AirflowWorld) -> None:
    world.open(web_url="https://data.example.com/airflow/")

    url = world.scheduler.page_url(world.create())

    assert url == f"https://data.example.com/airflow/dags/{DAG}"


def test_a_dag_id_is_one_part_of_the_path(opened: AirflowWorld) -> None:
    handler = RefreshHandler(scheduler="airflow", workflow_id=TABLE, location={"dag_id": "a/b?c#d"})

    assert opened.scheduler.page_url(handler) == f"{opened.server.url}/dags/a%2Fb%3Fc%23d"


def test_a_table_that_is_being_created_has_the_url_that_its_dag_will_have(opened: AirflowWorld) -> None:
    location = {"identifier": "lake.sales.daily"}
    handler = RefreshHandler(scheduler="airflow", workflow_id=TABLE, location=location)

    assert opened.scheduler.page_url(handler) == f"{opened.server.url}/dags/{DAG}"


def test_a_workflow_without_a_known_dag_id_has_no_url(opened: AirflowWorld) -> None:
    handler = RefreshHandler(scheduler="airflow", workflow_id=TABLE)

    assert opened.scheduler.page_url(handler) is None


def test_a_scheduler_that_is_not_open_has_no_urls(world: AirflowWorld) -> None:
    handler = RefreshHandler(scheduler="airflow", workflow_id=TABLE, location={"dag_id": DAG})

    with pytest.raises(WorkflowError, match="is not open"):
        world.scheduler.page_url(handler)
