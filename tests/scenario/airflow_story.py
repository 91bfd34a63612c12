"""A manager whose scheduler is a fake Airflow, or the memory scheduler on the same registry."""

from __future__ import annotations

from mt_core.tables.workflows.handover import take_over_tables
from mt_core.testing.fake_clock import FakeClock
from mt_core.workflow.scheduler import SchedulerContext, WorkflowScheduler
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from scheduler_plugins.memory.scheduler import MemoryScheduler
from tests.support.fake_airflow import FakeAirflow
from tests.support.fake_airflow_server import FakeAirflowServer
from tests.support.hasty_clock import HastyClock
from tests.support.manager_world import START, ManagerWorld
from tests.support.memory_registry import MemoryRegistry


class AirflowStory(ManagerWorld):
    """A manager with the Airflow scheduler over a fake Airflow; `change_to` restarts it with another one."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        clock = clock or HastyClock(START)
        super().__init__(registry=MemoryRegistry(clock))
        self.clock = clock
        self.server = FakeAirflowServer(FakeAirflow(clock, self.registry.definitions))
        self.airflow = self.server.airflow
        self.server.start()
        self.change_to(AirflowScheduler())

    def change_to(self, scheduler: WorkflowScheduler) -> list[str]:
        """Restart with *scheduler*, and return what was done to the tables, in words."""
        self.scheduler.close()
        self.scheduler = scheduler
        self.restart()
        done = take_over_tables(self.services)
        login = {"endpoint": self.server.url, "user-name": "svc", "password": "s3cret-svc"}
        options = {option.key: option.default or "" for option in scheduler.options}
        scheduler.open(
            SchedulerContext(
                options=options | login,
                definitions=self.registry.definitions,
                clock=self.clock,
                gateway_url="http://127.0.0.1:1",
            )
        )
        return done

    def to_airflow(self) -> list[str]:
        return self.change_to(AirflowScheduler())

    def to_memory(self) -> list[str]:
        return self.change_to(MemoryScheduler())

    def close(self) -> None:
        self.scheduler.close()
        self.server.stop()

    def facts(self, name: str = "daily") -> dict[object, object]:
        return {row["name"]: row["type"] for row in self.show(f"DESCRIBE EXTENDED {name}")}
