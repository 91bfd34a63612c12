"""A scheduler with a fake clock and a fake gateway, and tools to test it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from mt_core.clock import Clock
from mt_core.errors import RegistryError
from mt_core.model.formatter import show_schedule_time
from mt_core.model.freshness import Freshness, grid_of
from mt_core.testing.fake_clock import FakeClock
from mt_core.testing.fake_gateway import FakeGateway, ReceivedTick
from mt_core.testing.memory_definitions import MemoryDefinitionStore
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import CreatePeriodicRefreshWorkflow, Schedule
from mt_core.workflow.scheduler import SchedulerContext, WorkflowDescription, WorkflowScheduler

START = datetime(2024, 1, 3, 10, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TABLE = "0aa5c1a4-7a3b-4c50-9d0e-6f1f3c1f0001"
OTHER = "0aa5c1a4-7a3b-4c50-9d0e-6f1f3c1f0002"
ABSENT = "0aa5c1a4-7a3b-4c50-9d0e-6f1f3c1f0003"


class SchedulerWorkbench:
    """An open scheduler and helper methods. Time starts half a period before a point of the grid.

    Workflows tick once per period in UTC, unless a test specifies otherwise. A scheduler whose service has a
    clock of its own overrides `move_clock`, and may use shorter periods. If its time cannot be skipped, it
    sets `jumps` to False, which skips the tests that need it.
    """

    period: ClassVar[Freshness] = Freshness(1, "MINUTE")
    often: ClassVar[Freshness] = Freshness(10, "SECOND")
    jumps: ClassVar[bool] = True
    token: ClassVar[str] = "s3cret"
    start: datetime
    scheduler: WorkflowScheduler
    context: SchedulerContext
    clock: Clock
    gateway: FakeGateway
    definitions: MemoryDefinitionStore

    @pytest.fixture
    def scheduler_class(self) -> type[WorkflowScheduler]:
        """Return the scheduler class under test."""
        raise NotImplementedError("Give the contract a fixture scheduler_class.")

    @pytest.fixture
    def options(self) -> dict[str, str]:
        """Return the scheduler's options `workflow-scheduler.<type>.*`. All others have their defaults."""
        return {}

    @pytest.fixture
    def start_clock(self) -> Clock:
        """Return the clock of the scheduler, half a period before a point of the grid."""
        return FakeClock(START)

    def move_clock(self, delta: timedelta) -> None:
        """Advance the clock by *delta* in one jump, for a scheduler that uses the given clock."""
        assert isinstance(self.clock, FakeClock), "Override move_clock for a clock of another kind."
        self.clock.advance(delta)

    def need_jumps(self) -> None:
        """Skip the test if time cannot be skipped."""
        if not self.jumps:
            pytest.skip("the service has its own clock, which cannot skip time")

    def point(self, number: int, freshness: Freshness | None = None, zone: str = "UTC") -> str:
        """Return the schedule time of point *number* after the start, counted from 1."""
        grid = grid_of(freshness or self.period, zone)
        point = self.start
        for _ in range(number):
            point = grid.after(point)
        return show_schedule_time(point, zone)

    def every(self, freshness: Freshness, zone: str = "UTC") -> Schedule:
        """Return a schedule with *freshness*, beginning at the start."""
        return Schedule(freshness=freshness, zone=zone, since=self.start)

    def workflow(self, **facts: Any) -> CreatePeriodicRefreshWorkflow:
        """Return a workflow to create. *facts* override the defaults."""
        return workflow(**{"schedule": self.every(self.period), **facts})

    @property
    def length(self) -> timedelta:
        """The length of a period."""
        return timedelta(seconds=self.period.seconds)

    def prepare(self) -> None:
        """Prepare the service to read `definitions` and reach `gateway`, before the scheduler is opened."""

    def clean_up(self) -> None:
        """Clean up the service before the scheduler is closed."""

    def settle(self) -> None:
        """Wait until the scheduler has sent all due ticks. Does nothing unless overridden."""

    def break_service(self) -> None:
        """Make the next operations fail; by default, with an error of the definition store."""
        self.definitions.failure = RegistryError("The registry cannot be reached.")

    def wait_for_ticks(self, count: int) -> list[ReceivedTick]:
        """Wait for *count* ticks and for all due ticks to be sent. Return all received ticks."""
        self.gateway.wait_for_ticks(count)
        self.settle()
        return self.gateway.ticks

    @pytest.fixture
    def fake_gateway(self) -> Iterator[FakeGateway]:
        gateway = FakeGateway()
        gateway.start()
        yield gateway
        gateway.stop()

    @pytest.fixture(autouse=True)
    def opened(
        self,
        scheduler_class: type[WorkflowScheduler],
        options: dict[str, str],
        start_clock: Clock,
        fake_gateway: FakeGateway,
    ) -> Iterator[None]:
        self.clock, self.gateway, self.definitions = start_clock, fake_gateway, MemoryDefinitionStore()
        defaults = {
            option.key: option.default for option in scheduler_class.options if option.default is not None
        }
        self.start = start_clock.now()
        self.context = SchedulerContext(
            options=defaults | options,
            definitions=self.definitions,
            clock=start_clock,
            gateway_url=fake_gateway.url,
            token=self.token,
        )
        self.prepare()
        self.scheduler = scheduler_class()
        self.scheduler.open(self.context)
        yield
        self.definitions.failure = None
        self.clean_up()
        self.scheduler.close()

    def create(self, **facts: Any) -> RefreshHandler:
        return self.scheduler.create_refresh_workflow(self.workflow(**facts))

    def describe(self, handler: RefreshHandler) -> WorkflowDescription:
        return self.scheduler.describe_refresh_workflows([handler])[handler.workflow_id]

    def ticks_of(self, workflow_id: str) -> list[ReceivedTick]:
        return [tick for tick in self.gateway.ticks if tick.table_id == workflow_id]

    def pass_a_period_with_a_witness(self) -> None:
        """Pass a point at which another workflow ticks. A tick that has not arrived by then never will."""
        self.create(workflow_id=OTHER)
        self.move_clock(self.length)
        self.wait_for_ticks(1)


def every(amount: int, unit: str) -> Schedule:
    """Return a schedule with the freshness *amount* *unit* in UTC, beginning at `START`."""
    return Schedule(freshness=Freshness(amount, unit), zone="UTC", since=START)


def workflow(**facts: Any) -> CreatePeriodicRefreshWorkflow:
    """Return a workflow to create. *facts* override the defaults; the table name depends on the id."""
    identifier = "lake.sales.daily" if facts.get("workflow_id", TABLE) == TABLE else "lake.sales.other"
    usual = CreatePeriodicRefreshWorkflow(
        workflow_id=TABLE,
        identifier=identifier,
        description=f"refreshes {identifier}",
        schedule=every(1, "MINUTE"),
    )
    return replace(usual, **facts)
