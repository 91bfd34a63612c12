"""The connection of an open scheduler to its Airflow, and the steps of its operations."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

from mt_core.clock import Clock
from mt_core.errors import WorkflowError
from mt_core.workflow.definitions import DefinitionStore, WorkflowDefinition, shard_of
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.scheduler import SchedulerContext
from scheduler_plugins.airflow.client import AirflowClient
from scheduler_plugins.airflow.dag_reader import DagReader
from scheduler_plugins.airflow.dags import Dags
from scheduler_plugins.airflow.preflight import Preflight
from scheduler_plugins.airflow.publishing import Publisher
from scheduler_plugins.airflow.settings import IDENTIFIER, AirflowSettings

# How long a resume waits for the DAG's file to be parsed, and a drop between attempts to delete, in seconds.
PARSE_TIMEOUT_S = 10.0
DELETE_AGAIN_S = 0.5
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One Airflow, and the definition store that it reads.

    Thread-safe, but callers must serialize the operations on one DAG.
    """

    settings: AirflowSettings
    definitions: DefinitionStore
    client: AirflowClient
    clock: Clock
    dags: Dags
    preflight: Preflight
    publisher: Publisher
    reader: DagReader

    @classmethod
    def of(cls, settings: AirflowSettings, context: SchedulerContext) -> Connection:
        """Return a connection with all its parts, without sending any request."""
        client = AirflowClient(settings, context.clock)
        dags = Dags(client)
        return cls(
            settings=settings,
            definitions=context.definitions,
            client=client,
            clock=context.clock,
            dags=dags,
            preflight=Preflight(client, settings, context.clock),
            publisher=Publisher(dags, context.definitions, settings, context.clock),
            reader=DagReader(dags, context.definitions, settings, context.clock),
        )

    def current(self, handler: RefreshHandler, verb: str, token: int) -> WorkflowDefinition:
        """Return the stored definition; raise WorkflowError if it is missing or newer than the operation."""
        handler.check_scheduler(IDENTIFIER)
        stored = self.definitions.get(handler.workflow_id)
        if stored is None or not stored.name:
            raise WorkflowError(
                f"Refresh workflow {handler.workflow_id} cannot be {verb}: "
                "it is not published for Airflow; create it again."
            )
        stored.check_token(token, verb)
        return stored

    def publish(self, definition: WorkflowDefinition, *, over: WorkflowDefinition | None) -> None:
        """Create the DAG of *definition*, replacing that of *over* (None: no DAG exists).

        If a step fails, everything is rolled back.
        """
        # Before changing anything, check that Airflow responds and has our bundle.
        self.publisher.anchor(definition.workflow_id)
        if definition != over:
            self.definitions.put(definition)
        try:
            dag = self.publisher.show(definition)
            if dag.is_paused is not definition.paused:
                self.set_paused(definition)
        except WorkflowError:
            if over is not None:
                self.definitions.put(over)
                raise
            try:
                self.drop(definition.name, definition.workflow_id)
            except WorkflowError as error:
                # Whether or not the definition is still stored, the caller's failed CREATE deletes the
                # workflow.
                facts = {"action": "dag_left", "dag": definition.name}
                log.warning("DAG %s is left: %s", definition.name, error, extra=facts)
            raise

    def change(self, definition: WorkflowDefinition, *, over: WorkflowDefinition) -> None:
        """Replace the definition *over* with *definition* in Airflow; *over* remains stored if this fails."""
        self.publisher.anchor(definition.workflow_id)
        self.definitions.put(definition)
        try:
            if definition.schedule == over.schedule:
                self.publisher.read_again(definition.workflow_id)
            else:
                self.publisher.show(definition)
        except WorkflowError:
            self.definitions.put(over)
            raise
        finally:
            self.publisher.follow_up(definition.workflow_id)

    def skip_missed(self, definition: WorkflowDefinition) -> None:
        """Make Airflow compute the DAG's next run from now on.

        Without this, Airflow would first start the run that was due before the pause. If the DAG processor
        does not respond, the resume continues; the worst result is one unnecessary run.
        """
        try:
            self.publisher.read_again(definition.workflow_id, within_s=PARSE_TIMEOUT_S)
        except WorkflowError as error:
            log.info(
                "resumed without a new parse: %s",
                error,
                extra={"action": "dag_not_parsed", "dag": definition.name},
            )

    def set_paused(self, definition: WorkflowDefinition) -> None:
        """Pause or resume the DAG as *definition* says; raise WorkflowError if there is no DAG."""
        if not self.dags.pause(definition.name, paused=definition.paused):
            raise WorkflowError(
                f"Airflow at {self.client.endpoint} has no DAG {definition.name} ({definition.identifier}); "
                "RESUME the table to recreate it."
            )

    def drop(self, dag_id: str, workflow_id: str) -> None:
        """Delete a workflow and its DAG.

        The DAG is paused, its definition is deleted, Airflow parses the file again, the DAG's runs are
        failed, and then the DAG is deleted. In any other order, Airflow could recreate the DAG unpaused, or
        start a run while it is being deleted. Deletion is repeated until `publish_timeout_s`; then
        WorkflowError is raised.
        """
        self.dags.pause(dag_id, paused=True)
        self.definitions.delete(workflow_id)
        # Without our bundle, nothing recreates the DAG. With it, a parse that is still running may do so.
        if self.publisher.find_anchor(shard_of(workflow_id)) is not None:
            self.publisher.read_again(workflow_id)
        began = self.clock.elapsed()
        while True:
            self.dags.fail_active_runs(dag_id)
            if self.dags.delete(dag_id):
                return
            if self.clock.elapsed() - began >= timedelta(seconds=self.settings.publish_timeout_s):
                raise WorkflowError(
                    f"Airflow at {self.client.endpoint} does not delete DAG {dag_id}: "
                    "its tasks are still running; stop them there."
                )
            self.client.pause(DELETE_AGAIN_S)
