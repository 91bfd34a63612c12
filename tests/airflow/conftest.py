from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dags.tests.stub_gateway import TOKEN, StubGateway
from tests.airflow.compose import CONTAINERS_NAME_FOR_US, composed_airflow
from tests.airflow.lake import Lake
from tests.airflow.settings import AirflowSettings
from tests.airflow.stack import AirflowStack, free_port, running_airflow
from tests.postgres import fresh_database

HERE = Path(__file__).parent
# The first test of a session starts Airflow; a test waits for several things, for each of which Airflow gets its time.
TEST_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.airflow)
            item.add_marker(pytest.mark.timeout(TEST_S))


@pytest.fixture(scope="session")
def stack_kind(pytestconfig: pytest.Config) -> str:
    """Where Airflow runs: compose or local."""
    asked = str(pytestconfig.getoption("--stack"))
    if asked != "auto":
        return asked
    return "compose" if _docker_works() else "local"


@pytest.fixture(scope="session")
def gateway_port() -> int:
    """The port where the session's Airflow looks for its gateway; each test runs one there, real or stub."""
    return free_port()


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    return str(HERE / "compose.yaml")


@pytest.fixture(scope="session")
def airflow(
    stack_kind: str, gateway_port: int, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AirflowStack]:
    """One Airflow for the session: `url`, `user`, `password`, `rest`; locally its components can be stopped and killed.

    There it has PostgreSQL, as in production: on SQLite its components wait for each other, and give up when that takes long.
    """
    host = CONTAINERS_NAME_FOR_US if stack_kind == "compose" else "127.0.0.1"
    settings = AirflowSettings(
        home=tmp_path_factory.mktemp("airflow"),
        port=free_port(),
        gateway_url=f"http://{host}:{gateway_port}",
        token=TOKEN,
    )
    if stack_kind == "compose":
        yield composed_airflow(request, settings)
        return
    with (
        fresh_database(request.getfixturevalue("postgres_url"), "airflow") as database,
        running_airflow(replace(settings, database_url=database)) as stack,
    ):
        yield stack


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a test that fails what Airflow's components said last."""
    report = yield
    stack = getattr(item, "funcargs", {}).get("airflow")
    if report.failed and isinstance(stack, AirflowStack):
        report.sections += [(f"last lines of Airflow's {name}", text) for name, text in stack.last_lines().items()]
    return report


@pytest.fixture
def gateway(gateway_port: int, stack_kind: str) -> Iterator[StubGateway]:
    """A stub gateway where Airflow looks for one; runs end when the test says so."""
    host = "0.0.0.0" if stack_kind == "compose" else "127.0.0.1"
    with StubGateway(looks=None, host=host, port=gateway_port) as stub:
        yield stub


@pytest.fixture(scope="module")
def module_lake(
    airflow: AirflowStack, gateway_port: int, stack_kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    """What `lake` is, for fixtures that live as long."""
    host = "0.0.0.0" if stack_kind == "compose" else "127.0.0.1"
    lake = Lake(tmp_path_factory.mktemp("lake"), airflow, host=host, port=gateway_port, token=TOKEN)
    try:
        lake.start()
        yield lake
    finally:
        lake.stop()


@pytest.fixture
def lake(module_lake: Lake) -> Lake:
    """A real gateway with Spark where Airflow looks for one; a test may kill it."""
    if not module_lake.running:
        module_lake.start()
    return module_lake


def _docker_works() -> bool:
    if shutil.which("docker") is None:
        return False
    commands = (["docker", "info"], ["docker", "compose", "version"])
    return all(subprocess.run(each, capture_output=True, check=False).returncode == 0 for each in commands)
