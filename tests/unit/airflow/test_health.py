"""Whether an Airflow begins refreshes, as the gateway asks it while it runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.errors import WorkflowError
from mt_core.workflow.scheduler import SchedulerHealth
from tests.unit.airflow.airflow_world import AirflowWorld


def test_an_airflow_whose_components_are_healthy_is_asked_once(opened: AirflowWorld) -> None:
    assert opened.scheduler.health() == SchedulerHealth()
    assert opened.airflow.requests == ["GET /api/v2/monitor/health"]


@pytest.mark.parametrize("component", ["scheduler", "dag_processor", "triggerer"])
def test_a_component_that_died_is_named_with_its_last_heartbeat(opened: AirflowWorld, component: str) -> None:
    died = opened.clock.now() - timedelta(hours=2)
    opened.airflow.health[component] = "unhealthy"
    opened.airflow.heartbeats[component] = died

    health, name = opened.scheduler.health(), component.replace("_", "-")

    assert health.since == died
    assert health.trouble == (
        f"Airflow at {opened.server.url} runs without a healthy {name}: DAGs and refreshes may be late; "
        f"make sure that `airflow {name}` runs"
    )


def test_of_two_components_that_died_the_first_one_says_since_when(opened: AirflowWorld) -> None:
    now = opened.clock.now()
    for component, hours in (("scheduler", 1), ("dag_processor", 2)):
        opened.airflow.health[component] = "unhealthy"
        opened.airflow.heartbeats[component] = now - timedelta(hours=hours)

    health = opened.scheduler.health()

    assert health.since == now - timedelta(hours=2)
    assert "a healthy scheduler and dag-processor: " in health.trouble
    assert health.trouble.endswith("make sure that `airflow scheduler` and `airflow dag-processor` runs")


def test_a_component_that_never_ran_is_trouble(opened: AirflowWorld) -> None:
    opened.airflow.health["triggerer"] = None

    assert opened.scheduler.health().trouble.endswith("runs no triggerer; start one with `airflow triggerer`")


def test_an_airflow_that_is_away_or_answers_500_is_an_error_with_the_way_out(opened: AirflowWorld) -> None:
    opened.airflow.fail("GET /api/v2/monitor/health", 500, {"detail": "Internal Server Error"}, times=1000)
    with pytest.raises(WorkflowError) as ill:
        opened.scheduler.health()
    opened.server.stop()
    with pytest.raises(WorkflowError) as away:
        opened.scheduler.health()
    opened.server.start()

    assert "answered GET /api/v2/monitor/health with 500" in str(ill.value)
    assert "See the log of its api-server" in str(ill.value)
    assert f"Airflow at {opened.server.url} cannot be reached" in str(away.value)
