"""An Airflow in containers, for tests: made by pytest-docker, and only when it is asked for."""

from __future__ import annotations

import os

import pytest

from tests.airflow.settings import AirflowSettings
from tests.airflow.stack import BOOT_S, AirflowStack

# By this name, which the compose file gives it, containers reach the machine where the tests
# and their gateway run.
CONTAINERS_NAME_FOR_US = "host.docker.internal"


class ComposedAirflow(AirflowStack):
    """An Airflow whose components are not ours to start and to stop."""

    def __init__(self, settings: AirflowSettings, url: str) -> None:
        super().__init__(settings, url=url)

    def start(self, *names: str) -> None:
        pytest.skip("the components of an Airflow in containers are not started one by one")

    stop = kill = start


def composed_airflow(request: pytest.FixtureRequest, settings: AirflowSettings) -> AirflowStack:
    """Return the Airflow of the session's containers, which are up when this returns."""
    # The compose file takes them from the environment of the command that pytest-docker runs.
    os.environ |= settings.gateway_environment()
    ip, services = request.getfixturevalue("docker_ip"), request.getfixturevalue("docker_services")
    stack = ComposedAirflow(settings, f"http://{ip}:{services.port_for('airflow', 8080)}")
    stack.rest.wait(lambda: stack.rest.health().get("dag_processor", {}).get("status") == "healthy", BOOT_S)
    return stack
