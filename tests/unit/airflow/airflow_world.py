"""The Airflow scheduler over a fake Airflow, and short ways to use both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mt_core.errors import WorkflowError
from mt_core.model.freshness import Freshness
from mt_core.testing.fake_clock import FakeClock
from mt_core.testing.memory_definitions import MemoryDefinitionStore
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflowSchedule,
    ResumeRefreshWorkflow,
    Schedule,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import SchedulerContext, WorkflowDescription
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from tests.support.fake_airflow import FakeDag
from tests.support.fake_airflow_server import FakeAirflowServer

TABLE = "0aa5c1a4-7a3b-4c50-9d0e-6f1f3c1f0001"
DAG = "mt__lake.sales.daily"


class AirflowWorld:
    """One table, `lake.sales.daily`, unless a test says otherwise."""

    def __init__(
        self, clock: FakeClock, definitions: MemoryDefinitionStore, server: FakeAirflowServer
    ) -> None:
        self.clock, self.definitions, self.server, self.airflow = clock, definitions, server, server.airflow
        self.scheduler = AirflowScheduler()
        self._tokens = iter(range(1, 1000))

    def open(self, **options: str) -> None:
        defaults = {
            option.key: option.default for option in AirflowScheduler.options if option.default is not None
        }
        login = {"endpoint": self.server.url, "user-name": "svc", "password": "s3cret-svc"}
        given = {key.replace("_", "-"): value for key, value in options.items()}
        context = SchedulerContext(
            options={**defaults, **login, **given},
            definitions=self.definitions,
            clock=self.clock,
            gateway_url="http://127.0.0.1:1",
        )
        self.scheduler.open(context)

    def refused_open(self, **options: str) -> str:
        with pytest.raises(WorkflowError) as caught:
            self.open(**options)
        return str(caught.value)

    def create(self, **facts: Any) -> RefreshHandler:
        return self.scheduler.create_refresh_workflow(self.workflow(**facts))

    def workflow(self, **facts: Any) -> CreatePeriodicRefreshWorkflow:
        identifier = facts.get("identifier", "lake.sales.daily")
        usual = CreatePeriodicRefreshWorkflow(
            workflow_id=TABLE,
            identifier=identifier,
            description=f"Refresh materialized table {identifier} every 1 day",
            schedule=self.every(1, "DAY"),
            token=next(self._tokens),
        )
        return replace(usual, **facts)

    def every(self, amount: int, unit: str) -> Schedule:
        return Schedule(freshness=Freshness(amount, unit), zone="Europe/Berlin", since=self.clock.now())

    def suspend(self, handler: RefreshHandler) -> None:
        self.scheduler.modify_refresh_workflow(
            SuspendRefreshWorkflow(handler=handler, token=next(self._tokens))
        )

    def resume(self, handler: RefreshHandler, options: dict[str, str] | None = None) -> None:
        operation = ResumeRefreshWorkflow(handler=handler, dynamic_options=options, token=next(self._tokens))
        self.scheduler.modify_refresh_workflow(operation)

    def reschedule(self, handler: RefreshHandler, schedule: Schedule) -> None:
        operation = ModifyRefreshWorkflowSchedule(
            handler=handler, schedule=schedule, token=next(self._tokens)
        )
        self.scheduler.modify_refresh_workflow(operation)

    def delete(self, handler: RefreshHandler) -> None:
        self.scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=handler))

    def describe(self, *handlers: RefreshHandler) -> list[WorkflowDescription]:
        found = self.scheduler.describe_refresh_workflows(handlers)
        return [found[handler.workflow_id] for handler in handlers]

    @property
    def dag(self) -> FakeDag:
        return self.airflow.dags[DAG]

    def refused(self, work: Any, *arguments: Any, **more: Any) -> WorkflowError:
        """Return the error that *work* must raise."""
        with pytest.raises(WorkflowError) as caught:
            work(*arguments, **more)
        return caught.value
