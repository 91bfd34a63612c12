"""Dropping: a DAG goes with its runs and never comes back, whatever the scheduler is doing with it at that moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from mt_core.clock import Clock
from mt_core.errors import WorkflowError
from scheduler_plugins.airflow.dags import Dags
from scheduler_plugins.airflow.publishing import Publisher
from scheduler_plugins.airflow.settings import AirflowSettings

AGAIN_S = 0.5


class Dropper:
    """Takes DAGs out of Airflow."""

    def __init__(self, dags: Dags, publisher: Publisher, settings: AirflowSettings, clock: Clock) -> None:
        self._dags, self._publisher, self._settings, self._clock = dags, publisher, settings, clock

    def drop(self, dag_id: str, workflow_id: str, unpublish: Callable[[], None]) -> None:
        """Pause the DAG, take its definition back with *unpublish*, have Airflow notice, end its runs, delete it.

        In any other order it is made again, unpaused, or the scheduler begins a run of it while it is being deleted.
        """
        self._dags.pause(dag_id, paused=True)
        unpublish()
        # Without our bundle nothing makes the DAG again. With it, a parse may be about to make one that is not there yet.
        if self._publisher.is_installed(workflow_id):
            self._publisher.read_again(workflow_id)
        began = self._clock.now()
        while True:
            self._dags.fail_active_runs(dag_id)
            if self._dags.delete(dag_id):
                return
            if self._clock.now() - began >= timedelta(seconds=self._settings.publish_timeout_s):
                raise WorkflowError(
                    f"Airflow at {self._dags.client.endpoint} does not delete DAG {dag_id}: its tasks are still running; end "
                    "them there."
                )
            self._dags.client.pause(AGAIN_S)
