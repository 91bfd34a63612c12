"""A third party's scheduler: it keeps what it is asked, and ticks never."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflow,
)
from mt_core.workflow.scheduler import (
    SchedulerContext,
    SchedulerOption,
    WorkflowDescription,
    WorkflowScheduler,
    WorkflowState,
    hookimpl,
)


class SundialScheduler(WorkflowScheduler):
    identifier: ClassVar[str] = "sundial"
    options: ClassVar[tuple[SchedulerOption, ...]] = (
        SchedulerOption(key="latitude", help="Where it stands."),
    )

    def __init__(self) -> None:
        self.workflows: set[str] = set()

    def open(self, context: SchedulerContext) -> None:
        pass

    def close(self) -> None:
        pass

    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        self.workflows.add(workflow.workflow_id)
        return RefreshHandler(scheduler=self.identifier, workflow_id=workflow.workflow_id)

    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        pass

    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        self.workflows.discard(workflow.handler.workflow_id)

    def describe_refresh_workflows(
        self, handlers: Iterable[RefreshHandler]
    ) -> Mapping[str, WorkflowDescription]:
        states = {True: WorkflowState.ACTIVE, False: WorkflowState.MISSING}
        return {
            handler.workflow_id: WorkflowDescription(state=states[handler.workflow_id in self.workflows])
            for handler in handlers
        }


@hookimpl
def mt_workflow_schedulers() -> list[type[WorkflowScheduler]]:
    return [SundialScheduler]
