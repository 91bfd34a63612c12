"""The public scheduler contract on the Airflow scheduler, with a fake Airflow and a fake clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from mt_core.clock import Clock
from mt_core.testing.fake_gateway import ReceivedTick
from mt_core.testing.scheduler_contract import SchedulerContract
from mt_core.workflow.scheduler import WorkflowScheduler
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from tests.support.fake_airflow import FakeAirflow
from tests.support.fake_airflow_server import FakeAirflowServer


class OftenAirflowScheduler(AirflowScheduler):
    """Also accepts a freshness in seconds, which the contract uses."""

    shortest = timedelta(seconds=1)


class TestAirflowScheduler(SchedulerContract):
    # Airflow schedules one run ahead, and runs that one too after it has missed several.
    jumps = False

    @pytest.fixture
    def scheduler_class(self) -> type[WorkflowScheduler]:
        return OftenAirflowScheduler

    @pytest.fixture
    def airflow_server(self, start_clock: Clock) -> Iterator[FakeAirflowServer]:
        server = FakeAirflowServer(FakeAirflow(start_clock, None))
        server.start()
        yield server
        server.stop()

    @pytest.fixture
    def options(self, airflow_server: FakeAirflowServer) -> dict[str, str]:
        self.airflow = airflow_server.airflow
        return {"endpoint": airflow_server.url, "user-name": "svc", "password": "s3cret-svc"}

    def prepare(self) -> None:
        self.airflow.definitions = self.definitions

    def move_clock(self, delta: timedelta) -> None:
        super().move_clock(delta)
        self.airflow.run_due(self.gateway.url, "s3cret")

    def wait_for_ticks(self, count: int) -> list[ReceivedTick]:
        self.airflow.run_due(self.gateway.url, "s3cret")
        return super().wait_for_ticks(count)
