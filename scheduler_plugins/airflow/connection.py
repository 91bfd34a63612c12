"""The connection of an open scheduler to its Airflow: what operations work with,
and the effects they are made of.
"""

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

# How long a resume waits for the DAG's file to be parsed, and how long a drop waits before it tries
# to delete once more.
PARSE_TIMEOUT_S = 10.0
DELETE_AGAIN_S = 0.5
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One Airflow, and the store of definitions that it reads from.

    Thread-safe; callers keep operations on one DAG apart.
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
        """Return a connection with all its parts; it sends nothing yet."""
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
        """Return the stored definition; raises WorkflowError if it is missing,
        or newer than the operation.
        """
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
        """Create the DAG of *definition*, in place of that of *over* (None: there is none);
        a failure undoes what was done.
        """
        # Before anything changes: does Airflow answer, and does it have our bundle?
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
                # The definition is stored or deleted; the caller, whose CREATE fails,
                # deletes the workflow in either case.
                facts = {"action": "dag_left", "dag": definition.name}
                log.warning("DAG %s is left: %s", definition.name, error, extra=facts)
            raise

    def change(self, definition: WorkflowDefinition, *, over: WorkflowDefinition) -> None:
        """Have Airflow work by *definition* instead of *over*, which remains stored if that fails."""
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
        """Have Airflow plan the DAG's next run from now: it has one from before the pause,
        and would run that first.

        A DAG processor that does not answer is no reason not to resume:
        at worst there is one run more than needed.
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
        """Pause or resume the DAG as *definition* says; raises WorkflowError if there is none."""
        if not self.dags.pause(definition.name, paused=definition.paused):
            raise WorkflowError(
                f"Airflow at {self.client.endpoint} has no DAG {definition.name} ({definition.identifier}) "
                "any more; RESUME the table to recreate it."
            )

    def drop(self, dag_id: str, workflow_id: str) -> None:
        """Pause the DAG, delete its definition, wait until Airflow has noticed, end its runs, delete the DAG.

        In any other order Airflow recreates it, unpaused, or its scheduler begins a run of it while
        it is being deleted.
        """
        self.dags.pause(dag_id, paused=True)
        self.definitions.delete(workflow_id)
        # Without our bundle nothing recreates the DAG. With it, a parse may be about to create one
        # that is not there yet.
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
                    "its tasks are still running; end them there."
                )
            self.client.pause(DELETE_AGAIN_S)
