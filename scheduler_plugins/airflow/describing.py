"""Describing: workflows in the words of the seam, from their DAGs and from Airflow's event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.scheduler import WorkflowDescription, WorkflowState
from scheduler_plugins.airflow.dags import Dag, PauseEvent
from scheduler_plugins.airflow.opened import Opened, dag_id_in

MISSING = WorkflowDescription(state=WorkflowState.MISSING)


def describe(opened: Opened, handlers: Sequence[RefreshHandler]) -> dict[str, WorkflowDescription]:
    """Return the description of each workflow; one whose definition or DAG is not there is MISSING."""
    definitions = _definitions(opened, handlers)
    prefix = opened.settings.dag_id_prefix
    names = {
        handler.workflow_id: dag_id_in(handler, definitions[handler.workflow_id], prefix)
        for handler in handlers
        if handler.workflow_id in definitions
    }
    dags = opened.read_back.look_up(set(names.values()))
    differing = [name for workflow_id, name in names.items() if _differs(dags.get(name), definitions[workflow_id])]
    events = _events(opened, differing)
    return {
        handler.workflow_id: _description(definitions[handler.workflow_id], dags.get(name), events.get(name))
        if (name := names.get(handler.workflow_id)) is not None
        else MISSING
        for handler in handlers
    }


def _definitions(opened: Opened, handlers: Sequence[RefreshHandler]) -> Mapping[str, WorkflowDefinition]:
    if len(handlers) == 1:
        found = opened.definitions.get(handlers[0].workflow_id)
        return {found.workflow_id: found} if found is not None and found.name else {}
    return {found.workflow_id: found for found in opened.definitions.all() if found.name} if handlers else {}


def _differs(dag: Dag | None, definition: WorkflowDefinition) -> bool:
    """Whether somebody paused or resumed the DAG in Airflow: its definition has what we did ourselves."""
    return dag is not None and dag.is_paused is not definition.paused


def _events(opened: Opened, names: Sequence[str]) -> Mapping[str, PauseEvent]:
    """Return by whom and when each DAG was paused or resumed last, as far as that was not us."""
    found = opened.dags.latest_pauses(names)
    ours = opened.settings.user_name
    return {name: event for name, event in found.items() if event.owner != ours}


def _description(definition: WorkflowDefinition, dag: Dag | None, event: PauseEvent | None) -> WorkflowDescription:
    if dag is None:
        return MISSING
    told = event if event is not None and event.paused is dag.is_paused else None
    return WorkflowDescription(
        state=WorkflowState.PAUSED if dag.is_paused else WorkflowState.ACTIVE,
        next_run=None if dag.is_paused else dag.next_run,
        changed_by=told.owner or None if told is not None else None,
        changed_at=told.when if told is not None else None,
        schedule=definition.schedule,
    )
