"""Runs refresh workflows as DAGs in a team's own Airflow, where people can manage them.

A workflow is stored in two systems: the gateway stores its definition, and Airflow stores its DAG with the
paused state and the next run. A new or changed definition is written first. Then Airflow is asked to parse
it, because freshtable-airflow builds DAGs only from definitions that the gateway serves. If Airflow does not
confirm an operation in time, the previous definition is restored, so that both sides agree again. Each
definition contains the token of the operation that wrote it, and an operation with an older token fails, so a
delayed operation cannot undo a newer one. Airflow owns the paused state, because people change it there. The
definition records what the gateway last did, so a difference means that someone else changed the state.
Operations on one DAG id are serialized by striped locks, because a new table with the same name can reuse the
DAG id while the old one is being dropped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar
from urllib.parse import quote
from zlib import crc32

from mt_core.clock import Clock
from mt_core.errors import MtError, WorkflowError
from mt_core.model.finding import Finding
from mt_core.workflow.definitions import WorkflowDefinition, shard_of
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    CreatePeriodicRefreshWorkflow,
    DeleteRefreshWorkflow,
    ModifyRefreshWorkflow,
    ModifyRefreshWorkflowSchedule,
    ResumeRefreshWorkflow,
    Schedule,
    ScheduleKind,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import (
    SchedulerContext,
    SchedulerHealth,
    SchedulerOption,
    WorkflowDescription,
    WorkflowScheduler,
    workflow_errors,
)
from scheduler_plugins.airflow.connection import Connection
from scheduler_plugins.airflow.dag_reader import MISSING
from scheduler_plugins.airflow.diagnosis import Diagnosis
from scheduler_plugins.airflow.names import DAG_ID, dag_id_in, dag_id_of
from scheduler_plugins.airflow.settings import IDENTIFIER, OPTIONS, read_settings

# The number of locks that serialize operations on DAG ids.
_STRIPES = 64
log = logging.getLogger(__name__)


class AirflowScheduler(WorkflowScheduler):
    """Publishes a definition for each workflow, from which freshtable-airflow builds a DAG.

    Airflow owns the paused state, the next run and the record of who changed them; the definition only sets
    the initial state.
    """

    identifier: ClassVar[str] = IDENTIFIER
    kinds: ClassVar[frozenset[ScheduleKind]] = frozenset(ScheduleKind)
    options: ClassVar[tuple[SchedulerOption, ...]] = OPTIONS
    shortest: ClassVar[timedelta] = timedelta(minutes=1)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]
        self._connection: Connection | None = None

    def open(self, context: SchedulerContext) -> None:
        settings = read_settings(context.options)
        with self._lock:
            if self._connection is not None:
                return
            connection = Connection.of(settings, context)
            try:
                warning = connection.preflight.check()
            except MtError:
                connection.client.close()
                raise
            if warning:
                log.warning("%s", warning, extra={"action": "airflow_not_ready"})
            for definition in context.definitions.all():
                # Airflow's scheduler may not have seen the last changes before a shutdown.
                connection.publisher.follow_up(definition.workflow_id)
            self._connection = connection

    def diagnose(self, options: Mapping[str, str], clock: Clock) -> Sequence[Finding]:
        return Diagnosis.of(read_settings(options), clock).findings()

    def health(self) -> SchedulerHealth:
        return self._require_open().preflight.components()[1]

    def page_url(self, handler: RefreshHandler) -> str | None:
        settings = self._require_open().settings
        if handler.scheduler != IDENTIFIER:
            return None
        dag_id = dag_id_in(handler, None, settings.dag_id_prefix)
        return f"{settings.web_url or settings.endpoint}/dags/{quote(dag_id, safe='')}" if dag_id else None

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.client.close()

    def check_schedule(self, identifier: str, schedule: Schedule) -> None:
        # A cron is due once a minute at most.
        if schedule.freshness is not None and schedule.freshness.seconds < self.shortest.total_seconds():
            raise WorkflowError(
                f"FRESHNESS = {schedule.freshness} is too frequent for Airflow, "
                f"which starts {identifier} at most once a minute: use INTERVAL '1' MINUTE or more, "
                "or set workflow-scheduler.type to memory; for an existing table, run "
                f"ALTER MATERIALIZED TABLE {identifier} SET FRESHNESS = INTERVAL '1' MINUTE."
            )

    def create_refresh_workflow(self, workflow: CreatePeriodicRefreshWorkflow) -> RefreshHandler:
        self.check_schedule(workflow.identifier, workflow.schedule)
        with self._operation("created", workflow.workflow_id) as airflow:
            stored = airflow.definitions.get(workflow.workflow_id)
            newer = stored is not None and stored.name and stored.token >= workflow.token
            name = (stored.name if stored else "") or dag_id_of(
                airflow.settings.dag_id_prefix, workflow.identifier
            )
            definition = (
                stored if stored is not None and newer else WorkflowDefinition.of(workflow, name=name)
            )
            with self._lock_of(name):
                if _belongs_to_another(airflow, name, workflow.workflow_id):
                    raise WorkflowError(
                        f"Refresh workflow {workflow.workflow_id} cannot be created: "
                        f"{name}, the DAG id of {workflow.identifier}, belongs to another workflow; "
                        "DROP that table, or choose another name."
                    )
                airflow.publish(definition, over=stored)
            location = {DAG_ID: name, "endpoint": airflow.client.endpoint}
        return RefreshHandler(scheduler=IDENTIFIER, workflow_id=workflow.workflow_id, location=location)

    def modify_refresh_workflow(self, workflow: ModifyRefreshWorkflow) -> None:
        match workflow:
            case SuspendRefreshWorkflow():
                self._pause(workflow, "suspended", paused=True)
            case ResumeRefreshWorkflow():
                self._pause(workflow, "resumed", paused=False)
            case ModifyRefreshWorkflowSchedule():
                with self._operation("re-scheduled", workflow.handler.workflow_id) as airflow:
                    stored = airflow.current(workflow.handler, "re-scheduled", workflow.token)
                    self.check_schedule(stored.identifier, workflow.schedule)
                    description = workflow.schedule.description(stored.identifier)
                    changed = replace(
                        stored, schedule=workflow.schedule, description=description, token=workflow.token
                    )
                    with self._lock_of(stored.name):
                        airflow.change(changed, over=stored)
            case _:
                raise WorkflowError(
                    f"The Airflow scheduler does not know the operation {type(workflow).__name__}; "
                    "it can suspend, resume and re-schedule a refresh workflow."
                )

    def delete_refresh_workflow(self, workflow: DeleteRefreshWorkflow) -> None:
        workflow_id = workflow.handler.workflow_id
        with self._operation("deleted", workflow_id) as airflow:
            workflow.handler.check_scheduler(IDENTIFIER)
            stored = airflow.definitions.get(workflow_id)
            name = dag_id_in(workflow.handler, stored, airflow.settings.dag_id_prefix)
            if not name:
                # The workflow was never published, so Airflow has no DAG.
                airflow.definitions.delete(workflow_id)
                return
            with self._lock_of(name):
                if _belongs_to_another(airflow, name, workflow_id):
                    airflow.definitions.delete(workflow_id)
                    airflow.publisher.request_parse(shard_of(workflow_id))
                    return
                airflow.drop(name, workflow_id)

    def describe_refresh_workflows(
        self, handlers: Iterable[RefreshHandler]
    ) -> Mapping[str, WorkflowDescription]:
        handlers = list(handlers)
        with workflow_errors("The refresh workflows cannot be read back from Airflow"):
            airflow = self._require_open()
            airflow.publisher.catch_up()
            ours = airflow.reader.describe(
                [handler for handler in handlers if handler.scheduler == IDENTIFIER]
            )
        return {handler.workflow_id: ours.get(handler.workflow_id, MISSING) for handler in handlers}

    def _pause(
        self, workflow: SuspendRefreshWorkflow | ResumeRefreshWorkflow, verb: str, *, paused: bool
    ) -> None:
        with self._operation(verb, workflow.handler.workflow_id) as airflow:
            stored = airflow.current(workflow.handler, verb, workflow.token)
            options = workflow.dynamic_options if isinstance(workflow, ResumeRefreshWorkflow) else None
            changed = replace(stored, paused=paused, token=workflow.token)
            if options is not None:
                changed = replace(changed, dynamic_options=options)
            with self._lock_of(stored.name):
                if changed.dynamic_options != stored.dynamic_options:
                    # The first run after the resume must already have the new options.
                    airflow.change(replace(changed, paused=stored.paused), over=stored)
                elif not paused:
                    airflow.skip_missed(changed)
                airflow.set_paused(changed)
                # Stored so that the DAG can be recreated.
                airflow.definitions.put(changed)

    @contextmanager
    def _operation(self, verb: str, workflow_id: str) -> Iterator[Connection]:
        with workflow_errors(f"Refresh workflow {workflow_id} cannot be {verb}"):
            yield self._require_open()

    def _lock_of(self, name: str) -> threading.Lock:
        return self._stripes[crc32(name.encode()) % _STRIPES]

    def _require_open(self) -> Connection:
        connection = self._connection
        if connection is None:
            raise WorkflowError("The Airflow scheduler is not open; call open() first.")
        return connection


def _belongs_to_another(airflow: Connection, name: str, workflow_id: str) -> bool:
    """Return whether another workflow has this DAG id, such as that of a newer table with the same name."""
    return any(each.name == name and each.workflow_id != workflow_id for each in airflow.definitions.all())
