"""The shipped contract on the Airflow scheduler with a real Airflow, in real time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dags.tests.stub_gateway import TOKEN
from mt_core.testing.scheduler_contract import SchedulerContract
from tests.airflow import contract_lane
from tests.airflow.contract_lane import Lane
from tests.airflow.rest import SOON_S
from tests.airflow.settings import AirflowSettings, OtherGateway
from tests.airflow.stack import AirflowStack, free_port, running_airflow

ROOT = Path(__file__).parents[2]
LANES = 6
LONGEST_S = 840.0


@pytest.fixture
def lanes(tmp_path: Path, postgres_database: str, stack_kind: str) -> Iterator[list[Lane]]:
    """Gateways-to-be that one Airflow serves; on SQLite they would wait for each other."""
    if stack_kind == "compose":
        pytest.skip("an Airflow of this machine is what is tested")
    ports = [free_port() for _ in range(LANES)]
    others = tuple(OtherGateway(url=f"http://127.0.0.1:{port}", prefix=f"lane{n}__") for n, port in enumerate(ports))
    settings = AirflowSettings(
        home=tmp_path,
        port=free_port(),
        gateway_url=others[0].url,
        token=TOKEN,
        database_url=postgres_database,
        others=others,
        more={"AIRFLOW__CORE__PARALLELISM": str(LANES)},
    )
    with running_airflow(settings) as airflow:
        found = [
            Lane(url=airflow.url, port=port, prefix=other.prefix) for port, other in zip(ports, others, strict=True)
        ]
        airflow.rest.wait(lambda: all(_is_served(airflow, lane) for lane in found), SOON_S)
        yield found


@pytest.mark.slow
@pytest.mark.postgres
def test_the_airflow_scheduler_fulfils_the_contract(lanes: list[Lane]) -> None:
    processes = [_start(lane, lanes.index(lane)) for lane in lanes]
    try:
        said = [process.communicate(timeout=LONGEST_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()

    assert [process.returncode for process in processes] == [0] * LANES, "\n".join(said)


def _is_served(airflow: AirflowStack, lane: Lane) -> bool:
    return all(airflow.rest.dag(f"{lane.prefix}shard_{number:02d}") for number in range(16))


def _start(lane: Lane, number: int) -> subprocess.Popen[str]:
    """Begin with every so many-th test of the contract."""
    names = [name for name in dir(SchedulerContract) if name.startswith("test_")][number::LANES]
    tests = [
        f"tests/airflow/contract_lane.py::{contract_lane.TestAirflowSchedulerForReal.__name__}::{name}"
        for name in names
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "--durations=0", *tests],
        cwd=ROOT,
        env=os.environ | lane.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
