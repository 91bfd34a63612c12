"""AirflowScheduler: refresh workflows that are DAGs of a team's own Airflow, where people see, pause and backfill them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar
from zlib import crc32

from mt_core.errors import MtError, WorkflowError
from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflow,
    ModifyRefreshWorkflowSchedule,
    ResumeRefreshWorkflow,
    Schedule,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import (
    SchedulerContext,
    SchedulerOption,
    WorkflowDescription,
    WorkflowScheduler,
    workflow_errors,
)
from scheduler_plugins.airflow.describing import MISSING, describe
from scheduler_plugins.airflow.names import dag_id_of
from scheduler_plugins.airflow.opened import Opened, dag_id_in, handler_for
from scheduler_plugins.airflow.settings import IDENTIFIER, OPTIONS, read_settings

# Operations on one DAG id happen one after the other, also when a table was dropped and another has its name now.
_STRIPES = 64
log = logging.getLogger(__name__)


class AirflowScheduler(WorkflowScheduler):
    """Publishes a definition for each workflow, which Airflow's side of the plug-in makes a DAG of.

    The paused state, the next run and who changed them are Airflow's; the definition says how a DAG begins.
    """

    identifier: ClassVar[str] = IDENTIFIER
    options: ClassVar[tuple[SchedulerOption, ...]] = OPTIONS
    shortest: ClassVar[timedelta] = timedelta(minutes=1)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]
        self._opened: Opened | None = None

    def open(self, context: SchedulerContext) -> None:
        settings = read_settings(context.options)
        with self._lock:
            if self._opened is not None:
                return
            opened = Opened.connect(settings, context)
            try:
                warning = opened.opening.check()
            except MtError:
                opened.client.close()
                raise
            if warning:
                log.warning("%s", warning, extra={"action": "airflow_not_ready"})
            for definition in context.definitions.all():
                # What was changed just before the gateway stopped may not have reached Airflow's scheduler.
                opened.publisher.follow_up(definition.workflow_id)
            self._opened = opened

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.client.close()

    def check_schedule(self, identifier: str, schedule: Schedule) -> None:
        if schedule.freshness.seconds < self.shortest.total_seconds():
            raise WorkflowError(
                f"FRESHNESS = {schedule.freshness} is too often for Airflow, which begins {identifier} once a minute at most: "
                "use INTERVAL '1' MINUTE or more, or set workflow-scheduler.type to memory; a table that exists is mended by "
                f"ALTER MATERIALIZED TABLE {identifier} SET FRESHNESS = INTERVAL '1' MINUTE."
            )

    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        self.check_schedule(workflow.identifier, workflow.schedule)
        with self._operation("created", workflow.workflow_id) as opened:
            stored = opened.definitions.get(workflow.workflow_id)
            newer = stored is not None and stored.name and stored.token >= workflow.token
            name = (stored.name if stored else "") or dag_id_of(opened.settings.dag_id_prefix, workflow.identifier)
            definition = stored if stored is not None and newer else WorkflowDefinition.of(workflow, name=name)
            with self._alone(name):
                if _belongs_to_another(opened, name, workflow.workflow_id):
                    raise WorkflowError(
                        f"Refresh workflow {workflow.workflow_id} cannot be created: {name}, the id of the DAG of "
                        f"{workflow.identifier}, is that of another workflow; DROP that table, or choose another name."
                    )
                opened.publish(definition, over=stored)
        return handler_for(definition, opened.client.endpoint)

    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        match workflow:
            case SuspendRefreshWorkflow():
                self._pause(workflow, "suspended", paused=True)
            case ResumeRefreshWorkflow():
                self._pause(workflow, "resumed", paused=False)
            case ModifyRefreshWorkflowSchedule():
                self._reschedule(workflow)
            case _:
                raise WorkflowError(
                    f"The Airflow scheduler does not know the operation {type(workflow).__name__}; it can suspend, "
                    "resume and re-schedule a refresh workflow."
                )

    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        workflow_id = workflow.handler.workflow_id
        with self._operation("deleted", workflow_id) as opened:
            workflow.handler.check_scheduler(IDENTIFIER)
            stored = opened.definitions.get(workflow_id)
            name = dag_id_in(workflow.handler, stored, opened.settings.dag_id_prefix)
            if not name:
                # It was never published: nothing in Airflow can know of it.
                opened.definitions.delete(workflow_id)
                return
            with self._alone(name):
                if _belongs_to_another(opened, name, workflow_id):
                    opened.definitions.delete(workflow_id)
                    opened.publisher.nudge(workflow_id)
                    return
                opened.dropper.drop(name, workflow_id, lambda: opened.definitions.delete(workflow_id))

    def describe_refresh_workflows(self, handlers: Iterable[RefreshHandler]) -> Mapping[str, WorkflowDescription]:
        asked = list(handlers)
        with workflow_errors("The refresh workflows cannot be read back from Airflow"):
            opened = self._require_open()
            opened.publisher.catch_up()
            return describe(opened, [handler for handler in asked if handler.scheduler == IDENTIFIER]) | {
                handler.workflow_id: MISSING for handler in asked if handler.scheduler != IDENTIFIER
            }

    def _pause(self, workflow: SuspendRefreshWorkflow | ResumeRefreshWorkflow, verb: str, *, paused: bool) -> None:
        with self._operation(verb, workflow.handler.workflow_id) as opened:
            stored = opened.current(workflow.handler, verb, workflow.token)
            options = workflow.dynamic_options if isinstance(workflow, ResumeRefreshWorkflow) else None
            changed = replace(stored, paused=paused, token=workflow.token)
            if options is not None:
                changed = replace(changed, dynamic_options=options)
            with self._alone(stored.name):
                if changed.dynamic_options != stored.dynamic_options:
                    # The first tick must have the new options already.
                    opened.change(replace(changed, paused=stored.paused), over=stored)
                elif not paused:
                    opened.forget_missed(changed)
                opened.set_paused(changed)

    def _reschedule(self, workflow: ModifyRefreshWorkflowSchedule) -> None:
        with self._operation("re-scheduled", workflow.handler.workflow_id) as opened:
            stored = opened.current(workflow.handler, "re-scheduled", workflow.token)
            self.check_schedule(stored.identifier, workflow.schedule)
            changed = replace(
                stored, schedule=workflow.schedule, description=workflow.schedule.description(stored.identifier)
            )
            with self._alone(stored.name):
                opened.change(replace(changed, token=workflow.token), over=stored)

    @contextmanager
    def _operation(self, verb: str, workflow_id: str) -> Iterator[Opened]:
        with workflow_errors(f"Refresh workflow {workflow_id} cannot be {verb}"):
            yield self._require_open()

    def _alone(self, name: str) -> threading.Lock:
        return self._stripes[crc32(name.encode()) % _STRIPES]

    def _require_open(self) -> Opened:
        opened = self._opened
        if opened is None:
            raise WorkflowError("The Airflow scheduler is not open; call open() first.")
        return opened


def _belongs_to_another(opened: Opened, name: str, workflow_id: str) -> bool:
    """Whether the DAG is that of another table, such as a newer one of the same name."""
    return any(found.name == name and found.workflow_id != workflow_id for found in opened.definitions.all())
