"""The shipped contract on the Airflow scheduler with a real Airflow, in real time: one lane of `test_scheduler_contract`.

Most of it is waiting for the clock, so that a process runs each lane; the lanes share an Airflow, which serves a gateway of each.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta

import pytest

from dags.tests.stub_gateway import TOKEN
from mt_core.clock import Clock, SystemClock
from mt_core.model.freshness import Freshness, grid_of
from mt_core.testing.fake_gateway import FakeGateway, ReceivedTick
from mt_core.testing.scheduler_contract import SchedulerContract
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import DeleteRefreshWorkflow
from mt_core.workflow.scheduler import WorkflowScheduler
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from tests.airflow.settings import SERVICE_PASSWORD, SERVICE_USER

VARIABLE = "FRESHTABLE_TEST_LANE"
TICK_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """An Airflow, and the port and the prefix of the lane's own gateway there."""

    url: str
    port: int
    prefix: str

    def environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def of_environment(cls) -> Lane:
        return cls(**json.loads(os.environ[VARIABLE]))


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
    def lane(self) -> Lane:
        return Lane.of_environment()

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
            handler = RefreshHandler(scheduler=AirflowScheduler.identifier, workflow_id=definition.workflow_id)
            self.scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=handler))
