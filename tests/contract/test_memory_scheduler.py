from __future__ import annotations

import pytest

from mt_core.testing.fake_clock import FakeClock
from mt_core.testing.scheduler_contract import SchedulerContract
from mt_core.workflow.loader import load_scheduler
from mt_core.workflow.scheduler import WorkflowScheduler
from scheduler_plugins.memory.delivery import THREADS
from scheduler_plugins.memory.scheduler import MemoryScheduler


class TestMemoryScheduler(SchedulerContract):
    @pytest.fixture
    def scheduler_class(self) -> type[WorkflowScheduler]:
        return load_scheduler("memory")

    def settle(self) -> None:
        assert isinstance(self.clock, FakeClock)
        assert isinstance(self.scheduler, MemoryScheduler)
        assert self.clock.settle(threads=THREADS)
        assert self.scheduler.wait_idle(5.0)
