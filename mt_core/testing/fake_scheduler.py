"""FakeScheduler: keeps workflows and never ticks; for tests of what the manager asks of a scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mt_core.errors import WorkflowError
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflow,
    ModifyRefreshWorkflowSchedule,
    ResumeRefreshWorkflow,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import SchedulerContext, WorkflowDescription, WorkflowScheduler, WorkflowState


class FakeScheduler(WorkflowScheduler):
    """`workflows` is what a scheduler's own users could change behind our back.

    `failing` operations raise once, inside a WorkflowError; a BaseException as it is.
    """

    identifier = "fake"

    def __init__(self) -> None:
        self.workflows: dict[str, CreatePeriodicRefreshWorkflow] = {}
        self.failing: dict[str, BaseException] = {}

    def open(self, context: SchedulerContext) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing to release."""

    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        self._check("create")
        self.workflows[workflow.workflow_id] = workflow
        return RefreshHandler(scheduler=self.identifier, workflow_id=workflow.workflow_id)

    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        self._check("modify")
        known = self.workflows.get(workflow.handler.workflow_id)
        if known is None:
            raise WorkflowError(
                f"Workflow {workflow.handler.workflow_id} is not here; RESUME the table to make it again."
            )
        if workflow.token < known.token:
            raise WorkflowError(f"Operation {workflow.token} on {known.identifier} is outdated by {known.token}.")
        self.workflows[known.workflow_id] = replace(_modified(known, workflow), token=workflow.token)

    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        self._check("delete")
        self.workflows.pop(workflow.handler.workflow_id, None)

    def describe_refresh_workflows(self, handlers: Iterable[RefreshHandler]) -> Mapping[str, WorkflowDescription]:
        self._check("describe")
        return {handler.workflow_id: self._describe(handler.workflow_id) for handler in handlers}

    def _describe(self, workflow_id: str) -> WorkflowDescription:
        known = self.workflows.get(workflow_id)
        if known is None:
            return WorkflowDescription(state=WorkflowState.MISSING)
        state = WorkflowState.PAUSED if known.paused else WorkflowState.ACTIVE
        return WorkflowDescription(state=state, schedule=known.schedule)

    def _check(self, operation: str) -> None:
        planned = self.failing.pop(operation, None)
        if planned is not None and not isinstance(planned, Exception):
            raise planned
        if planned is not None:
            raise WorkflowError(f"The scheduler failed to {operation}: {planned}") from planned


def _modified(known: CreatePeriodicRefreshWorkflow, workflow: ModifyRefreshWorkflow) -> CreatePeriodicRefreshWorkflow:
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
