"""The reader of DAGs: what Airflow has of many workflows at once, cheaply enough to read all the time."""

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

# At most this many DAGs are read one by one, which shows each as it is at this moment.
FEW = 3
MISSING = WorkflowDescription(state=WorkflowState.MISSING)


class DagReader:
    """Reads DAGs, and describes workflows by them. Thread-safe.

    To read all of a thousand DAGs takes a third of a second and more than a megabyte, so that is rare. Which
    ones are paused, and how many there are, is read each time; if a DAG is not among the last reading's,
    or their number changed, all are read.
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
        """Return the description of each workflow; one that has no definition or no DAG is MISSING."""
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
        # The definition has what the gateway did: a DAG that differs was paused or resumed in Airflow.
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
        """Return those of the DAGs that exist and are in a file;
        the next run of one may be that of the last full reading.
        """
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
                    # The later of the two readings counts.
                    dags |= {dag_id: self._last[dag_id] for dag_id in ours if dag_id in self._last}
                else:
                    active = {dag_id: replace(self._last[dag_id], is_paused=False) for dag_id in ours}
                    dags |= {dag_id: paused.get(dag_id, active[dag_id]) for dag_id in ours}
        return {dag_id: dag for dag_id, dag in dags.items() if not dag.is_stale}
