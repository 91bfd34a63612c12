"""Keeps tables fresh by means of periodic workflows in a scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

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
from mt_core.workflow.scheduler import WorkflowScheduler


@dataclass(frozen=True, slots=True)
class WorkflowKeeper:
    """Implements `Keeper` with a scheduler, which only this class calls. Thread-safe.

    A workflow has the same id as its table.
    """

    scheduler: WorkflowScheduler

    def objection(self, table: MaterializedTable) -> str:
        try:
            self._check(table)
        except WorkflowError as error:
            return str(error)
        return ""

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        self._check(table)
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
        return self.scheduler.create_refresh_workflow(workflow).serialize()

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        handler = RefreshHandler.deserialize(self.handle_of(table))
        state = self.observe([table])[table.table_id].state
        if state is KeeperState.MISSING:
            self.create(table if options is None else replace(table, dynamic_options=options), active=active)
        elif not active:
            self.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=table.token))
        elif state is KeeperState.PAUSED or options is not None or table.status is RefreshStatus.SUSPENDED:
            operation = ResumeRefreshWorkflow(handler=handler, dynamic_options=options, token=table.token)
            self.scheduler.modify_refresh_workflow(operation)
        return state

    def _check(self, table: MaterializedTable) -> None:
        """Raise WorkflowError, with a way to fix it, for a schedule that the scheduler does not support."""
        schedule, identifier = schedule_of(table), table.identifier
        if schedule.kind not in self.scheduler.kinds:
            raise WorkflowError(
                f"The scheduler {self.scheduler.identifier} does not run SCHEDULE {schedule.kind}; write "
                f"FRESHNESS = INTERVAL 'n' unit for {identifier}, or set workflow-scheduler.type to one "
                "that does, such as memory or airflow; fix an existing table with ALTER MATERIALIZED "
                f"TABLE {identifier} SET FRESHNESS = INTERVAL 'n' unit."
            )
        self.scheduler.check_schedule(str(identifier), schedule)

    def reschedule(self, table: MaterializedTable) -> None:
        self._check(table)
        if self.observe([table])[table.table_id].state is KeeperState.MISSING:
            self.create(table, active=table.status is not RefreshStatus.SUSPENDED)
            return
        handler = RefreshHandler.deserialize(self.handle_of(table))
        operation = ModifyRefreshWorkflowSchedule(
            handler=handler, schedule=schedule_of(table), token=table.token
        )
        self.scheduler.modify_refresh_workflow(operation)

    def remove(self, table_id: str, handle: str | None = None) -> None:
        if handle is None:
            handler = RefreshHandler(scheduler=self.scheduler.identifier, workflow_id=table_id)
        else:
            handler = RefreshHandler.deserialize(handle)
        if handler.scheduler != self.scheduler.identifier:
            # The workflow belongs to another scheduler, which this gateway does not use.
            return
        self.scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=handler))

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        by_id = {table.table_id: table for table in tables}
        if not by_id:
            return {}
        handlers = [RefreshHandler.deserialize(self.handle_of(table)) for table in by_id.values()]
        workflows = self.scheduler.describe_refresh_workflows(handlers)
        reports: dict[str, KeeperReport] = {}
        for table_id, table in by_id.items():
            workflow, wanted = workflows[table_id], schedule_of(table)
            ticks = workflow.schedule
            reports[table_id] = KeeperReport(
                state=KeeperState(workflow.state),
                next_run=workflow.next_run,
                changed_by=workflow.changed_by,
                changed_at=workflow.changed_at,
                on_schedule=None if ticks is None else _is_same(ticks, wanted),
            )
        return reports

    def page_url(self, table: MaterializedTable) -> str | None:
        return self.scheduler.page_url(RefreshHandler.deserialize(self.handle_of(table)))

    def handle_of(self, table: MaterializedTable) -> str:
        if table.handler is not None:
            return table.handler
        location = {"identifier": str(table.identifier)}
        return RefreshHandler(
            scheduler=table.scheduler, workflow_id=table.table_id, location=location
        ).serialize()


def _is_same(ticks: Schedule, wanted: Schedule) -> bool:
    """Return whether a workflow has the schedule *wanted* and starts early enough.

    It starts too late if the clock was set back to before the CREATE.
    """
    return (ticks.cadence, ticks.zone) == (wanted.cadence, wanted.zone) and ticks.since <= wanted.since


def schedule_of(table: MaterializedTable) -> Schedule:
    """Return the schedule that the workflow of *table* must have."""
    definition = table.definition
    return Schedule(
        freshness=definition.freshness, cron=definition.cron, zone=definition.zone, since=table.created_at
    )
