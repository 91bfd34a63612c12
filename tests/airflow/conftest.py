from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dags.tests.stub_gateway import SHARDS, TOKEN, StubGateway
from mt_core.demo.free_ports import free_port
from tests.airflow.compose import CONTAINERS_NAME_FOR_US, composed_airflow
from tests.airflow.lake import PREFIX, Lake
from tests.airflow.lanes import LANES, Lanes
from tests.airflow.rest import SOON_S
from tests.airflow.settings import AirflowSettings, OtherGateway
from tests.airflow.stack import AirflowStack, running_airflow
from tests.postgres import fresh_database

HERE = Path(__file__).parent
# The first test of a session starts Airflow; a test waits for several things,
# for each of which Airflow gets its time.
TEST_S = 900
# Airflow parses only what changes: the files of all gateways would take it half a minute of a processor
# every five minutes.
NO_FULL_ROUND = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600"}
# In this order: those without one of these fixtures need nothing but an Airflow that runs.
LAST = ("contract", "breakable_airflow")


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.airflow)
    item.add_marker(pytest.mark.timeout(TEST_S))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that break Airflow come last, after the contract, which waits for the clock
    beside all others.
    """
    items.sort(
        key=lambda item: max((LAST.index(name) + 1 for name in LAST if _asks_for(item, name)), default=0)
    )


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
def gateway_host(stack_kind: str) -> str:
    """The address at which a gateway listens so that Airflow reaches it."""
    return "0.0.0.0" if stack_kind == "compose" else "127.0.0.1"


@pytest.fixture(scope="session")
def lake_port() -> int:
    """The port where the session's Airflow looks for the gateway of `lake`."""
    return free_port()


@pytest.fixture(scope="session")
def lanes(stack_kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lanes:
    """The lanes of the contract if a test of the session asks for it; Airflow in containers has none."""
    count = LANES if stack_kind == "local" and _is_asked_for(request, "contract") else 0
    return Lanes(tmp_path_factory.mktemp("lanes"), [free_port() for _ in range(count)])


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    return str(HERE / "compose.yaml")


@pytest.fixture(scope="session")
def airflow(
    stack_kind: str,
    gateway_port: int,
    lake_port: int,
    lanes: Lanes,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AirflowStack]:
    """One Airflow for the session: `url`, `user`, `password`, `rest`;
    the lanes of the contract run beside what uses it.

    There it has PostgreSQL, as in production: on SQLite its components wait for each other,
    and give up when that takes long.
    """
    host = CONTAINERS_NAME_FOR_US if stack_kind == "compose" else "127.0.0.1"
    of_lake = OtherGateway(url=f"http://{host}:{lake_port}", prefix=PREFIX)
    settings = AirflowSettings(
        home=tmp_path_factory.mktemp("airflow"),
        port=free_port(),
        gateway_url=f"http://{host}:{gateway_port}",
        token=TOKEN,
        more=NO_FULL_ROUND,
        others=lanes.gateways + ((of_lake,) if _is_asked_for(request, "lake") else ()),
    )
    if stack_kind == "compose":
        yield composed_airflow(request, settings)
        return
    with (
        fresh_database(request.getfixturevalue("postgres_url"), "airflow") as database,
        running_airflow(replace(settings, database_url=database)) as stack,
        lanes.running(stack.url),
    ):
        yield stack


@pytest.fixture(scope="session")
def contract(airflow: AirflowStack, lanes: Lanes, stack_kind: str) -> Lanes:
    """The lanes of the contract, which run since Airflow does."""
    if stack_kind == "compose":
        pytest.skip("an Airflow of this machine is what is tested")
    return lanes


@pytest.fixture(scope="session")
def breakable_airflow(airflow: AirflowStack, lanes: Lanes) -> AirflowStack:
    """The session's Airflow when nothing else uses it: locally, a test can stop and kill its components
    and tasks.
    """
    lanes.wait()
    return airflow


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a test that fails what Airflow's components said last."""
    report = yield
    stack = getattr(item, "funcargs", {}).get("airflow")
    if report.failed and isinstance(stack, AirflowStack):
        report.sections += [
            (f"last lines of Airflow's {name}", text) for name, text in stack.last_lines().items()
        ]
    return report


@pytest.fixture
def gateway(gateway_port: int, gateway_host: str) -> Iterator[StubGateway]:
    """A stub gateway where Airflow looks for one; runs end when the test says so."""
    with StubGateway(looks=None, host=gateway_host, port=gateway_port) as stub:
        yield stub


@pytest.fixture(scope="session")
def session_lake(
    airflow: AirflowStack, lake_port: int, gateway_host: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    """What `lake` is, for fixtures that live longer than a test."""
    lake = Lake(tmp_path_factory.mktemp("lake"), airflow, host=gateway_host, port=lake_port, token=TOKEN)
    try:
        lake.start()
        airflow.rest.wait(
            lambda: all(airflow.rest.dag(f"{PREFIX}shard_{number:02d}") for number in range(SHARDS)), SOON_S
        )
        yield lake
    finally:
        lake.stop()


@pytest.fixture
def lake(session_lake: Lake) -> Lake:
    """A real gateway with Spark that Airflow serves beside the other one; a test may kill it."""
    if not session_lake.running:
        session_lake.start()
    return session_lake


def _asks_for(item: pytest.Item, fixture: str) -> bool:
    return fixture in getattr(item, "fixturenames", ())


def _is_asked_for(request: pytest.FixtureRequest, fixture: str) -> bool:
    return any(_asks_for(item, fixture) for item in request.session.items)


def _docker_works() -> bool:
    if shutil.which("docker") is None:
        return False
    commands = (["docker", "info"], ["docker", "compose", "version"])
    return all(subprocess.run(each, capture_output=True, check=False).returncode == 0 for each in commands)
