"""The schedule of a workflow: whether it is that of its table, and how it becomes so."""

from __future__ import annotations

from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.services import TableServices, handler_of, schedule_of, workflow_of
from mt_core.workflow.operations import ModifyRefreshWorkflowSchedule
from mt_core.workflow.scheduler import WorkflowDescription, WorkflowState


def is_as_wanted(table: MaterializedTable, workflow: WorkflowDescription) -> bool | None:
    """Return whether *workflow* ticks on the grid of *table*; None if its scheduler cannot tell."""
    if workflow.schedule is None:
        return None
    wanted = schedule_of(table)
    return (workflow.schedule.freshness, workflow.schedule.zone) == (wanted.freshness, wanted.zone)


def reschedule(services: TableServices, table: MaterializedTable) -> None:
    """Let the workflow tick on the grid of *table*; one that is missing is created."""
    handler = handler_of(table)
    state = services.scheduler.describe_refresh_workflows([handler])[handler.workflow_id].state
    if state is WorkflowState.MISSING:
        paused = table.status is RefreshStatus.SUSPENDED
        services.scheduler.create_refresh_workflow(workflow_of(table, paused=paused))
        return
    operation = ModifyRefreshWorkflowSchedule(handler=handler, schedule=schedule_of(table), token=table.token)
    services.scheduler.modify_refresh_workflow(operation)
