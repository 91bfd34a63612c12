"""FakeScheduler: stores workflows, and ticks only when a test requests it.

It is used in tests of the manager's calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from mt_core.errors import WorkflowError
from mt_core.model.cadence import Grid
from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflow,
    ModifyRefreshWorkflowSchedule,
    ResumeRefreshWorkflow,
    ScheduleKind,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import SchedulerContext, WorkflowDescription, WorkflowScheduler, WorkflowState
from tests.support.tick import gateway_client, send_tick


class FakeScheduler(WorkflowScheduler):
    """A scheduler in memory. `workflows` is the state that its users can change themselves.

    Each operation in `failing` raises its error once: a BaseException unchanged, any other error inside a
    WorkflowError. While its service is `down`, every operation fails. Only `run_due` sends ticks, and only
    while the scheduler is open.
    """

    identifier = "fake"
    kinds = frozenset(ScheduleKind)

    def __init__(self) -> None:
        self.workflows: dict[str, CreatePeriodicRefreshWorkflow] = {}
        self.failing: dict[str, BaseException] = {}
        self.down = False
        self._context: SchedulerContext | None = None
        self._done: dict[str, datetime] = {}

    def open(self, context: SchedulerContext) -> None:
        self._context = context

    def close(self) -> None:
        self._context = None

    def run_due(self) -> None:
        """Send each workflow's latest point, if it has passed and was not sent yet."""
        if self._context is None:
            return
        now = self._context.clock.now()
        with gateway_client(self._context.gateway_url, self._context.token) as gateway:
            for workflow in list(self.workflows.values()):
                point = _grid(workflow).at_or_before(now)
                if not workflow.paused and point > self._done.get(
                    workflow.workflow_id, workflow.schedule.since
                ):
                    self._done[workflow.workflow_id] = point
                    key = f"{workflow.workflow_id}/{point.isoformat()}"
                    send_tick(gateway, WorkflowDefinition.of(workflow), point, key)

    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        self._check("create")
        self.workflows[workflow.workflow_id] = workflow
        return RefreshHandler(scheduler=self.identifier, workflow_id=workflow.workflow_id)

    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        self._check("modify")
        known = self.workflows.get(workflow.handler.workflow_id)
        if known is None:
            raise WorkflowError(
                f"Workflow {workflow.handler.workflow_id} is not here; RESUME the table to recreate it."
            )
        if workflow.token < known.token:
            raise WorkflowError(
                f"Operation {workflow.token} on {known.identifier} is outdated by {known.token}."
            )
        self.workflows[known.workflow_id] = replace(_modified(known, workflow), token=workflow.token)
        if isinstance(workflow, ModifyRefreshWorkflowSchedule) and self._context is not None:
            self._done[known.workflow_id] = self._context.clock.now()

    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        self._check("delete")
        self.workflows.pop(workflow.handler.workflow_id, None)

    def describe_refresh_workflows(
        self, handlers: Iterable[RefreshHandler]
    ) -> Mapping[str, WorkflowDescription]:
        self._check("describe")
        return {handler.workflow_id: self._describe(handler.workflow_id) for handler in handlers}

    def _describe(self, workflow_id: str) -> WorkflowDescription:
        known = self.workflows.get(workflow_id)
        if known is None:
            return WorkflowDescription(state=WorkflowState.MISSING)
        if known.paused:
            return WorkflowDescription(state=WorkflowState.PAUSED, schedule=known.schedule)
        next_run = None if self._context is None else _grid(known).after(self._context.clock.now())
        return WorkflowDescription(state=WorkflowState.ACTIVE, schedule=known.schedule, next_run=next_run)

    def _check(self, operation: str) -> None:
        if self.down:
            raise WorkflowError(f"The scheduler cannot be reached to {operation}.")
        planned = self.failing.pop(operation, None)
        if planned is not None and not isinstance(planned, Exception):
            raise planned
        if planned is not None:
            raise WorkflowError(f"The scheduler failed to {operation}: {planned}") from planned


def _modified(
    known: CreatePeriodicRefreshWorkflow, workflow: ModifyRefreshWorkflow
) -> CreatePeriodicRefreshWorkflow:
    match workflow:
        case SuspendRefreshWorkflow():
            return replace(known, paused=True)
        case ResumeRefreshWorkflow(dynamic_options=None):
            return replace(known, paused=False)
        case ResumeRefreshWorkflow(dynamic_options=options):
            return replace(known, paused=False, dynamic_options=options or {})
        case ModifyRefreshWorkflowSchedule(schedule=schedule):
            return replace(known, schedule=schedule)
        case _:
            raise WorkflowError(f"{type(workflow).__name__} is not an operation this scheduler knows.")


def _grid(workflow: CreatePeriodicRefreshWorkflow) -> Grid:
    return workflow.schedule.grid()
