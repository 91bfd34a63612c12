"""What open() says of an Airflow that is not as the gateway needs it."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from mt_core.app.settings import scheduler_options
from mt_core.config import load_config
from mt_core.errors import WorkflowError
from mt_core.workflow.definitions import shard_of
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from scheduler_plugins.airflow.settings import read_settings
from tests.unit.airflow.airflow_world import AirflowWorld

OPTIONS = {option.key: option.default or "" for option in AirflowScheduler.options} | {
    "user-name": "svc",
    "password": "x",
}

OPTIONS = {option.key: option.default or "" for option in AirflowScheduler.options} | {
    "user-name": "svc",
    "password": "x",
}


def test_an_airflow_that_has_everything_is_opened_without_a_word(
    world: AirflowWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.open()
    world.open()

    assert caplog.records == []
    assert world.airflow.logins == 1


def test_an_airflow_that_is_away_does_not_keep_the_gateway_from_starting(
    world: AirflowWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.stop()
    before = world.clock.now()

    with caplog.at_level(logging.WARNING):
        world.open()
    waited = world.clock.now() - before
    error = world.refused(world.create)
    world.server.start()
    world.create()

    [record] = caplog.records
    assert (
        "cannot be reached (Failed to establish a new connection: [Errno 111] Connection refused); make sure"
        in record.getMessage()
    )
    assert waited.total_seconds() < 5
    assert world.server.url in str(error)
    assert not world.dag.is_paused


@pytest.mark.parametrize(
    "part", ["POST /auth/token", "GET /api/v2/version", "GET /api/v2/dags", "GET /api/v2/monitor/health"]
)
def test_an_airflow_that_answers_500_does_not_keep_the_gateway_from_starting(
    world: AirflowWorld, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    world.airflow.fail(part, 500, {"detail": "Internal Server Error"}, times=1000)
    before = world.clock.now()

    with caplog.at_level(logging.WARNING):
        world.open()

    [record] = caplog.records
    assert "with 500" in record.getMessage()
    assert "api-server" in record.getMessage()
    assert (world.clock.now() - before).total_seconds() < 5


@pytest.mark.parametrize("version", ["2.11.2", "3.2.1"])
def test_an_airflow_that_is_too_old_is_refused(world: AirflowWorld, version: str) -> None:
    world.airflow.version = version

    assert f"is of version {version}; 3.3 or newer is needed" in world.refused_open()


def test_something_else_than_airflow_three_is_refused(world: AirflowWorld) -> None:
    world.airflow.fail("GET /api/v2/version", 404, {"detail": "Not Found"})

    assert "is of version without /api/v2" in world.refused_open()


def test_a_wrong_password_is_refused_at_once(world: AirflowWorld) -> None:
    said = world.refused_open(password="wrong")

    assert "rejects user 'svc': Invalid credentials" in said
    assert "wrong" not in said


def test_a_package_that_is_not_installed_is_told_from_a_bundle_that_is_not_configured(
    world: AirflowWorld,
) -> None:
    world.airflow.definitions = None
    without_bundle = world.refused_open()
    world.airflow.packages.remove("freshtable-airflow")
    without_package = world.refused_open()

    assert "has the package freshtable-airflow, but not the DAG mt__shard_00 of its bundle" in without_bundle
    assert '"classpath": "freshtable_airflow.bundle.GatewayDagBundle"' in without_bundle
    assert "does not have the package freshtable-airflow" in without_package
    assert "pip install --no-deps ./dags" in without_package


def test_a_bundle_with_another_prefix_is_not_found(world: AirflowWorld) -> None:
    assert "workflow-scheduler.airflow.dag-id-prefix ('team_')" in world.refused_open(dag_id_prefix="team_")


def test_an_api_server_without_the_plug_in_is_refused(world: AirflowWorld) -> None:
    world.airflow.plugin_loaded = False

    assert "its api-server lacks the plug-in freshtable" in world.refused_open()


@pytest.mark.parametrize("component", ["triggerer", "scheduler", "dag_processor"])
def test_a_component_that_never_ran_is_named(world: AirflowWorld, component: str) -> None:
    world.airflow.health[component] = None
    name = component.replace("_", "-")

    assert f"runs no {name}; start one with `airflow {name}`" in world.refused_open()


def test_a_component_that_is_ill_is_a_warning(world: AirflowWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.airflow.health["triggerer"] = "unhealthy"

    with caplog.at_level(logging.WARNING):
        world.open()

    assert (
        "runs without a healthy triggerer: DAGs and refreshes may be late; "
        "make sure that `airflow triggerer` runs" in caplog.text
    )


def test_an_airflow_that_is_starting_is_waited_for(world: AirflowWorld) -> None:
    world.airflow.fail("GET /api/v2/dags/mt__shard_00", 404, {"detail": "not found"}, times=5)

    world.open()

    assert world.airflow.asked("mt__shard_00") == 6


def test_after_a_start_files_are_read_again_a_few_at_a_time(world: AirflowWorld) -> None:
    world.open()
    handlers = [
        world.create(workflow_id=f"w{number}", identifier=f"lake.sales.t{number}") for number in range(6)
    ]
    world.scheduler.close()
    world.scheduler = AirflowScheduler()
    world.open()
    world.clock.advance(timedelta(seconds=35))
    world.airflow.requests.clear()

    asked = []
    for seconds in (0, 0, 10, 10, 10):
        world.clock.advance(timedelta(seconds=seconds))
        world.describe(handlers[0])
        asked.append(world.airflow.asked("PUT /api/v2/parseDagFile"))

    assert len({shard_of(handler.workflow_id) for handler in handlers}) == 6
    assert asked == [2, 2, 4, 6, 6]


def test_the_lines_of_flip_448_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "flink-conf.yaml"
    file.write_text(
        "workflow-scheduler.type: airflow\n"
        "workflow-scheduler.airflow.endpoint: localhost:8085\n"
        "workflow-scheduler.airflow.user-name: admin\n"
        "workflow-scheduler.airflow.password: 123456\n"
    )

    settings = read_settings(scheduler_options(load_config(file), AirflowScheduler))

    assert (settings.endpoint, settings.user_name, settings.password) == (
        "http://localhost:8085",
        "admin",
        "123456",
    )


@pytest.mark.parametrize(
    "endpoint", ["localhost:8080", "https://airflow.example.com", "airflow.example.com/sub"]
)
def test_an_endpoint_may_leave_out_its_scheme(endpoint: str) -> None:
    found = read_settings({**OPTIONS, "endpoint": endpoint}).endpoint

    assert found == (endpoint if "://" in endpoint else f"http://{endpoint}")


@pytest.mark.parametrize("endpoint", ["", "localhost:port", "ftp://airflow", "http://", ":8080"])
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(WorkflowError, match=r"workflow-scheduler\.airflow\.endpoint is "):
        read_settings({**OPTIONS, "endpoint": endpoint})
