"""Reads the state of many DAGs with few requests, so that polling often is cheap."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from mt_core.clock import Clock
from mt_core.workflow.definitions import DefinitionStore
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.scheduler import WorkflowDescription, WorkflowState
from scheduler_plugins.airflow.dags import Dag, Dags
from scheduler_plugins.airflow.names import dag_id_in
from scheduler_plugins.airflow.settings import AirflowSettings

# Up to this many DAGs are read one by one, which returns their current state.
FEW = 3
MISSING = WorkflowDescription(state=WorkflowState.MISSING)


class DagReader:
    """Reads DAGs and describes workflows. Thread-safe.

    Reading all of 1,000 DAGs takes 0.3 s and transfers more than 1 MB, so this is done rarely. Each call
    reads only the paused DAGs and the number of all DAGs. All DAGs are read again if one is unknown, if their
    number has changed, or after the full-read interval.
    """

    def __init__(
        self, dags: Dags, definitions: DefinitionStore, settings: AirflowSettings, clock: Clock
    ) -> None:
        self._dags, self._definitions, self._settings, self._clock = dags, definitions, settings, clock
        self._lock = threading.Lock()
        self._last: Mapping[str, Dag] = {}
        self._count = -1
        self._read_at: timedelta | None = None

    def describe(self, handlers: Sequence[RefreshHandler]) -> dict[str, WorkflowDescription]:
        """Return the description of each workflow; a workflow without a definition or a DAG is MISSING."""
        if len(handlers) == 1:
            single = self._definitions.get(handlers[0].workflow_id)
            stored = [single] if single is not None else []
        else:
            stored = self._definitions.all() if handlers else []
        definitions = {definition.workflow_id: definition for definition in stored if definition.name}
        names = {
            handler.workflow_id: dag_id_in(
                handler, definitions[handler.workflow_id], self._settings.dag_id_prefix
            )
            for handler in handlers
            if handler.workflow_id in definitions
        }
        dags = self.look_up(set(names.values()))
        # The definition records the gateway's own changes, so a DAG that differs was changed in Airflow.
        changed = [
            name
            for key, name in names.items()
            if name in dags and dags[name].is_paused is not definitions[key].paused
        ]
        events = self._dags.latest_pauses(changed)
        descriptions = {handler.workflow_id: MISSING for handler in handlers}
        for workflow_id, name in names.items():
            dag, event = dags.get(name), events.get(name)
            if dag is None:
                continue
            if event is not None and (
                event.owner == self._settings.user_name or event.paused is not dag.is_paused
            ):
                event = None
            descriptions[workflow_id] = WorkflowDescription(
                state=WorkflowState.PAUSED if dag.is_paused else WorkflowState.ACTIVE,
                next_run=None if dag.is_paused else dag.next_run,
                changed_by=event.owner or None if event is not None else None,
                changed_at=event.when if event is not None else None,
                schedule=definitions[workflow_id].schedule,
            )
        return descriptions

    def look_up(self, dag_ids: Collection[str]) -> dict[str, Dag]:
        """Return the DAGs that exist and are in a file; next runs may be as old as the last full read."""
        prefix = self._settings.dag_id_prefix
        ours = [dag_id for dag_id in dag_ids if dag_id.startswith(prefix)]
        few = set(dag_ids) if len(dag_ids) <= FEW else set(dag_ids) - set(ours)
        dags = {dag_id: dag for dag_id in few if (dag := self._dags.get(dag_id)) is not None}
        if len(dag_ids) > FEW:
            with self._lock:
                paused = {dag.dag_id: dag for dag in self._dags.search(prefix, paused=True)}
                count, now = self._dags.count(prefix), self._clock.elapsed()
                longest = timedelta(seconds=self._settings.full_read_interval_s)
                is_old = self._read_at is None or now - self._read_at >= longest
                if is_old or count != self._count or any(dag_id not in self._last for dag_id in ours):
                    self._last = {dag.dag_id: dag for dag in self._dags.search(prefix)}
                    self._count, self._read_at = count, self._clock.elapsed()
                    # The full read is newer than the list of paused DAGs.
                    dags |= {dag_id: self._last[dag_id] for dag_id in ours if dag_id in self._last}
                else:
                    active = {dag_id: replace(self._last[dag_id], is_paused=False) for dag_id in ours}
                    dags |= {dag_id: paused.get(dag_id, active[dag_id]) for dag_id in ours}
        return {dag_id: dag for dag_id, dag in dags.items() if not dag.is_stale}
