"""The shipped contract on the Airflow scheduler with a real Airflow, in real time:
one lane of `test_scheduler_contract`.

Most of it is waiting for the clock, so that a process runs each lane (`lanes.py`),
which shares the session's Airflow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from dags.tests.stub_gateway import TOKEN
from mt_core.clock import Clock, SystemClock
from mt_core.model.freshness import Freshness, grid_of
from mt_core.testing.fake_gateway import FakeGateway, ReceivedTick
from mt_core.testing.scheduler_contract import SchedulerContract
from mt_core.testing.scheduler_workbench import OTHER, TABLE
from mt_core.workflow.definitions import shard_of
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import DeleteRefreshWorkflow
from mt_core.workflow.scheduler import WorkflowScheduler
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from tests.airflow.lanes import Lane
from tests.airflow.rest import SOON_S, AirflowRest
from tests.airflow.settings import PASSWORD, SERVICE_PASSWORD, SERVICE_USER, USER

TICK_S = 120.0


@pytest.fixture(scope="module")
def lane() -> Lane:
    """The lane of this process, as soon as Airflow serves its gateway:
    it parses the files of all lanes when it starts.
    """
    lane = Lane.of_environment()
    anchors = [f"{lane.prefix}shard_{shard_of(table):02d}" for table in (TABLE, OTHER)]
    with closing(AirflowRest(lane.url, USER, PASSWORD)) as rest:
        rest.wait(lambda: all(rest.dag(anchor) for anchor in anchors), SOON_S)
    return lane


class OftenAirflowScheduler(AirflowScheduler):
    """Takes a freshness of seconds too, so that the contract is done within the hour."""

    shortest = timedelta(seconds=1)


@pytest.mark.timeout(600)
class TestAirflowSchedulerForReal(SchedulerContract):
    period = Freshness(30, "SECOND")
    jumps = False
    token = TOKEN

    @pytest.fixture
    def scheduler_class(self) -> type[WorkflowScheduler]:
        return OftenAirflowScheduler

    @pytest.fixture
    def options(self, lane: Lane) -> dict[str, str]:
        login = {"user-name": SERVICE_USER, "password": SERVICE_PASSWORD}
        return {"endpoint": lane.url, "dag-id-prefix": lane.prefix, **login}

    @pytest.fixture
    def fake_gateway(self, lane: Lane) -> Iterator[FakeGateway]:
        gateway = FakeGateway(lane.port)
        gateway.start()
        yield gateway
        gateway.stop()

    @pytest.fixture
    def start_clock(self) -> Clock:
        clock = SystemClock()
        half = timedelta(seconds=self.period.seconds) / 2
        begin = grid_of(self.period, "UTC").after(clock.now() + half) - half
        clock.wait_until(begin, threading.Event())
        self.passed = timedelta(0)
        return clock

    def prepare(self) -> None:
        self.gateway.definitions = self.definitions

    def move_clock(self, delta: timedelta) -> None:
        self.passed += delta
        self.clock.wait_until(self.start + self.passed, threading.Event())

    def wait_for_ticks(self, count: int) -> list[ReceivedTick]:
        return self.gateway.wait_for_ticks(count, TICK_S)

    def clean_up(self) -> None:
        self.scheduler.open(self.context)
        for definition in self.definitions.all():
            handler = RefreshHandler(
                scheduler=AirflowScheduler.identifier, workflow_id=definition.workflow_id
            )
            self.scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=handler))
