"""Read-back: what Airflow has of many DAGs at once, asked for so cheaply that it can be done all the time."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from mt_core.clock import Clock
from scheduler_plugins.airflow.dags import Dag, Dags
from scheduler_plugins.airflow.settings import AirflowSettings

# So many DAGs are asked for one by one, which shows each as it is at this moment.
FEW = 3


class ReadBack:
    """Looks up DAGs. Thread-safe.

    Reading all of a thousand DAGs takes a third of a second and more than a megabyte, so it is done seldom. Which are paused,
    and how many there are, is read each time; when a DAG is not among those known, or their number changed, all are read.
    """

    def __init__(self, dags: Dags, settings: AirflowSettings, clock: Clock) -> None:
        self._dags, self._settings, self._clock = dags, settings, clock
        self._lock = threading.Lock()
        self._known: Mapping[str, Dag] = {}
        self._count = -1
        self._read_at: datetime | None = None

    def look_up(self, dag_ids: Collection[str]) -> dict[str, Dag]:
        """Return those of the DAGs that are there and in a file; the next run of one may be that of the last full reading."""
        prefix = self._settings.dag_id_prefix
        ours = [dag_id for dag_id in dag_ids if dag_id.startswith(prefix)]
        few = set(dag_ids) if len(dag_ids) <= FEW else set(dag_ids) - set(ours)
        found = {dag_id: dag for dag_id in few if (dag := self._dags.get(dag_id)) is not None}
        if len(dag_ids) > FEW:
            with self._lock:
                found |= self._in_bulk(ours)
        return {dag_id: dag for dag_id, dag in found.items() if not dag.is_stale}

    def _in_bulk(self, dag_ids: Collection[str]) -> dict[str, Dag]:
        prefix = self._settings.dag_id_prefix
        paused = {dag.dag_id: dag for dag in self._dags.paused(prefix)}
        count = self._dags.count(prefix)
        if self._is_old() or count != self._count or any(dag_id not in self._known for dag_id in dag_ids):
            self._known = {dag.dag_id: dag for dag in self._dags.all(prefix)}
            self._count, self._read_at = count, self._clock.now()
            # What is read last is what counts.
            return {dag_id: self._known[dag_id] for dag_id in dag_ids if dag_id in self._known}
        return {dag_id: paused.get(dag_id) or _resumed(self._known[dag_id]) for dag_id in dag_ids}

    def _is_old(self) -> bool:
        longest = timedelta(seconds=self._settings.full_read_interval_s)
        return self._read_at is None or self._clock.now() - self._read_at >= longest


def _resumed(dag: Dag) -> Dag:
    """Return *dag*, which is not among the paused ones now, as it must be."""
    return replace(dag, is_paused=False) if dag.is_paused else dag
