"""An open Airflow scheduler: what its operations work with, and the effects they are made of."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from mt_core.clock import Clock
from mt_core.errors import WorkflowError
from mt_core.workflow.definitions import DefinitionStore, WorkflowDefinition
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.scheduler import SchedulerContext
from scheduler_plugins.airflow.client import AirflowClient
from scheduler_plugins.airflow.dags import Dags
from scheduler_plugins.airflow.dropping import Dropper
from scheduler_plugins.airflow.names import dag_id_of
from scheduler_plugins.airflow.opening import Opening
from scheduler_plugins.airflow.publishing import Publisher
from scheduler_plugins.airflow.settings import IDENTIFIER, AirflowSettings
from scheduler_plugins.airflow.states import ReadBack

DAG_ID = "dag_id"
TABLE = "identifier"
FORGET_S = 10.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One Airflow, and the store of definitions that it reads from."""

    settings: AirflowSettings
    definitions: DefinitionStore
    client: AirflowClient
    dags: Dags
    opening: Opening
    publisher: Publisher
    dropper: Dropper
    read_back: ReadBack

    @classmethod
    def connect(cls, settings: AirflowSettings, context: SchedulerContext) -> Opened:
        """Return all parts, wired; nothing is sent yet."""
        clock: Clock = context.clock
        client = AirflowClient(settings, clock)
        dags = Dags(client)
        publisher = Publisher(dags, context.definitions, settings, clock)
        return cls(
            settings=settings,
            definitions=context.definitions,
            client=client,
            dags=dags,
            opening=Opening(client, settings, clock),
            publisher=publisher,
            dropper=Dropper(dags, publisher, settings, clock),
            read_back=ReadBack(dags, settings, clock),
        )

    def current(self, handler: RefreshHandler, verb: str, token: int) -> WorkflowDefinition:
        """Return the stored definition; raises WorkflowError when it is missing, or newer than the operation."""
        handler.check_scheduler(IDENTIFIER)
        stored = self.definitions.get(handler.workflow_id)
        if stored is None or not stored.name:
            raise WorkflowError(
                f"Refresh workflow {handler.workflow_id} cannot be {verb}: it is not published for Airflow; create it again."
            )
        stored.check_token(token, verb)
        return stored

    def publish(self, definition: WorkflowDefinition, *, over: WorkflowDefinition | None) -> None:
        """Make the DAG of *definition*, in place of what *over* says (None: nothing); a failure leaves things as they were."""
        # An Airflow that is away, or lacks our bundle, is noticed before anything is changed.
        self.publisher.anchor(definition.workflow_id)
        if definition != over:
            self.definitions.put(definition)
        try:
            dag = self.publisher.show(definition)
            if dag.is_paused is not definition.paused:
                self._patch(definition)
        except WorkflowError:
            self._unpublish(definition, over)
            raise

    def change(self, definition: WorkflowDefinition, *, over: WorkflowDefinition) -> None:
        """Have Airflow work by *definition* instead of *over*, which stays when that fails."""
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

    def forget_missed(self, definition: WorkflowDefinition) -> None:
        """Have Airflow look for the next run of a DAG anew: it remembers one from before a pause, and would run that first.

        A DAG processor that is away is no reason not to resume: one run more than needed is then the worst of it.
        """
        try:
            self.publisher.read_again(definition.workflow_id, within_s=FORGET_S)
        except WorkflowError as error:
            log.info(
                "resumed without a new parse: %s", error, extra={"action": "dag_not_parsed", "dag": definition.name}
            )

    def set_paused(self, definition: WorkflowDefinition) -> None:
        """Pause or resume the DAG as *definition* says, then store that, for the day when the DAG has to be made again."""
        self._patch(definition)
        self.definitions.put(definition)

    def _patch(self, definition: WorkflowDefinition) -> None:
        if not self.dags.pause(definition.name, paused=definition.paused):
            raise WorkflowError(
                f"Airflow at {self.client.endpoint} has no DAG {definition.name} ({definition.identifier}) any more; RESUME the "
                "table to make it again."
            )

    def _unpublish(self, definition: WorkflowDefinition, over: WorkflowDefinition | None) -> None:
        """Take back what a publish that failed has left."""
        workflow_id = definition.workflow_id
        if over is not None:
            self.definitions.put(over)
            return
        try:
            self.dropper.drop(definition.name, workflow_id, lambda: self.definitions.delete(workflow_id))
        except WorkflowError as left:
            # The definition is still in the store, or gone: in either case whoever asked for the workflow deletes it now.
            log.warning(
                "DAG %s is left: %s", definition.name, left, extra={"action": "dag_left", "dag": definition.name}
            )


def handler_for(definition: WorkflowDefinition, endpoint: str) -> RefreshHandler:
    """Return how the workflow of *definition* is found again."""
    return RefreshHandler(
        scheduler=IDENTIFIER,
        workflow_id=definition.workflow_id,
        location={DAG_ID: definition.name, "endpoint": endpoint},
    )


def dag_id_in(handler: RefreshHandler, stored: WorkflowDefinition | None, prefix: str) -> str:
    """Return the DAG's id: that of the handler, of the definition, or of the table it names; empty when nothing says."""
    known = handler.location.get(DAG_ID) or (stored.name if stored is not None else "")
    if known or TABLE not in handler.location:
        return known
    return dag_id_of(prefix, handler.location[TABLE])
