from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from mt_core.testing.memory_definitions import MemoryDefinitionStore
from tests.support.fake_airflow import FakeAirflow
from tests.support.fake_airflow_server import FakeAirflowServer
from tests.support.hasty_clock import HastyClock
from tests.unit.airflow.airflow_world import AirflowWorld


@pytest.fixture
def world() -> Iterator[AirflowWorld]:
    """A scheduler that is not open yet, over a fake Airflow on which waiting takes no time."""
    clock, definitions = HastyClock(datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)), MemoryDefinitionStore()
    server = FakeAirflowServer(FakeAirflow(clock, definitions))
    server.start()
    made = AirflowWorld(clock, definitions, server)
    yield made
    made.scheduler.close()
    server.stop()


@pytest.fixture
def opened(world: AirflowWorld) -> AirflowWorld:
    world.open()
    world.airflow.requests.clear()
    return world
