"""The plug-in `airflow`: refresh workflows as Airflow DAGs, controlled through Airflow's public REST API."""

from __future__ import annotations

from mt_core.workflow.scheduler import WorkflowScheduler, hookimpl
from scheduler_plugins.airflow.scheduler import AirflowScheduler


@hookimpl
def mt_workflow_schedulers() -> list[type[WorkflowScheduler]]:
    return [AirflowScheduler]
