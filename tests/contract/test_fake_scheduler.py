"""The public scheduler contract on the fake scheduler of the manager tests."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mt_core.testing.fake_gateway import ReceivedTick
from mt_core.testing.scheduler_contract import SchedulerContract
from mt_core.workflow.scheduler import WorkflowScheduler
from tests.support.fake_scheduler import FakeScheduler


class TestFakeScheduler(SchedulerContract):
    @pytest.fixture
    def scheduler_class(self) -> type[WorkflowScheduler]:
        return FakeScheduler

    @property
    def fake(self) -> FakeScheduler:
        assert isinstance(self.scheduler, FakeScheduler)
        return self.scheduler

    def break_service(self) -> None:
        self.fake.down = True

    def move_clock(self, delta: timedelta) -> None:
        super().move_clock(delta)
        self.fake.run_due()

    def wait_for_ticks(self, count: int) -> list[ReceivedTick]:
        self.fake.run_due()
        return super().wait_for_ticks(count)
