"""WorkflowKeeper: a periodic workflow in a scheduler keeps each table fresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mt_core.errors import WorkflowError
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.keeper import KeeperReport, KeeperState
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflowSchedule,
    ResumeRefreshWorkflow,
    Schedule,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import WorkflowDescription, WorkflowScheduler


class WorkflowKeeper:
    """Implements `Keeper`, and makes all calls of the scheduler; the workflow's id is the table's. Thread-safe."""

    def __init__(self, scheduler: WorkflowScheduler) -> None:
        self._scheduler = scheduler

    def objection(self, table: MaterializedTable) -> str:
        try:
            self._scheduler.check_schedule(str(table.identifier), schedule_of(table))
        except WorkflowError as error:
            return str(error)
        return ""

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        identifier, schedule = str(table.identifier), schedule_of(table)
        workflow = CreatePeriodicRefreshWorkflow(
            workflow_id=table.table_id,
            identifier=identifier,
            description=schedule.description(identifier),
            schedule=schedule,
            dynamic_options=table.dynamic_options,
            paused=not active,
            token=table.token,
        )
        return self._scheduler.create_refresh_workflow(workflow).serialize()

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        handler, state = _handler_of(table), self._state(table)
        if state is KeeperState.MISSING:
            self.create(table if options is None else replace(table, dynamic_options=options), active=active)
        elif not active:
            self._scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=table.token))
        elif state is KeeperState.PAUSED or options is not None or table.status is RefreshStatus.SUSPENDED:
            operation = ResumeRefreshWorkflow(handler=handler, dynamic_options=options, token=table.token)
            self._scheduler.modify_refresh_workflow(operation)
        return state

    def reschedule(self, table: MaterializedTable) -> None:
        if self._state(table) is KeeperState.MISSING:
            self.create(table, active=table.status is not RefreshStatus.SUSPENDED)
            return
        handler, schedule = _handler_of(table), schedule_of(table)
        operation = ModifyRefreshWorkflowSchedule(handler=handler, schedule=schedule, token=table.token)
        self._scheduler.modify_refresh_workflow(operation)

    def remove(self, table_id: str, handle: str | None = None) -> None:
        if handle is None:
            handler = RefreshHandler(scheduler=self._scheduler.identifier, workflow_id=table_id)
        else:
            handler = RefreshHandler.deserialize(handle)
        self._scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=handler))

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        by_id = {table.table_id: table for table in tables}
        if not by_id:
            return {}
        described = self._scheduler.describe_refresh_workflows([_handler_of(table) for table in by_id.values()])
        return {table_id: _report(table, described[table_id]) for table_id, table in by_id.items()}

    def handle_of(self, table: MaterializedTable) -> str:
        return _handler_of(table).serialize()

    def owns(self, handle: str) -> bool:
        return RefreshHandler.deserialize(handle).scheduler == self._scheduler.identifier

    def _state(self, table: MaterializedTable) -> KeeperState:
        return self.observe([table])[table.table_id].state


def schedule_of(table: MaterializedTable) -> Schedule:
    """Return when the workflow of *table* ticks."""
    definition = table.definition
    return Schedule(freshness=definition.freshness, zone=definition.zone, since=table.created_at)


def _handler_of(table: MaterializedTable) -> RefreshHandler:
    """Return the handler of *table*, or the one its workflow will have."""
    if table.handler is not None:
        return RefreshHandler.deserialize(table.handler)
    location = {"identifier": str(table.identifier)}
    return RefreshHandler(scheduler=table.scheduler, workflow_id=table.table_id, location=location)


def _report(table: MaterializedTable, workflow: WorkflowDescription) -> KeeperReport:
    schedule, wanted = workflow.schedule, schedule_of(table)
    return KeeperReport(
        state=KeeperState(workflow.state),
        next_run=workflow.next_run,
        changed_by=workflow.changed_by,
        changed_at=workflow.changed_at,
        on_schedule=None
        if schedule is None
        else (schedule.freshness, schedule.zone) == (wanted.freshness, wanted.zone),
    )
