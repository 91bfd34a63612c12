"""The request for a refresh, and the address of the run that the gateway starts for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RefreshRequest:
    """A task instance's request; with partitions, `schedule_time` is "" and the refresh is not periodic.

    With `force` the gateway does not skip the refresh even if the sources are unchanged. `trigger` is
    Airflow's run type, which the gateway shows. The key is the same for all retries of a task, so that they
    find the run of the previous attempt; a cleared task has another key.
    """

    table: str
    key: str
    attempt: int
    schedule_time: str = ""
    workflow_id: str = ""
    partitions: Mapping[str, str] = field(default_factory=dict)
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    execution_config: Mapping[str, str] = field(default_factory=dict)
    force: bool = False
    trigger: str = ""

    @property
    def body(self) -> dict[str, Any]:
        """The body of the request."""
        return {
            "isPeriodic": not self.partitions,
            "scheduleTime": self.schedule_time or None,
            "dynamicOptions": dict(self.dynamic_options),
            "staticPartitions": dict(self.partitions),
            "executionConfig": dict(self.execution_config),
        }

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the request.

        Without a table id, the gateway refreshes the table that currently has this name.
        """
        headers = {"Idempotency-Key": self.key, "Freshtable-Attempt": str(self.attempt)}
        forced = {"Freshtable-Force": "true"} if self.force else {}
        trigger = {"Freshtable-Trigger": self.trigger} if self.trigger else {}
        return (
            headers | forced | trigger | ({"Freshtable-Table": self.workflow_id} if self.workflow_id else {})
        )


@dataclass(frozen=True)
class RunAddress:
    """A run at the gateway, as operator and trigger pass it to each other.

    `partitions` are the partitions of the run as text for a log.
    """

    table: str
    handle: str
    session: str
    attempt: int
    init_config: Mapping[str, str] = field(default_factory=dict)
    partitions: str = ""


def trigger_of(dag_run: Any) -> str:
    """Return the run type of a DAG run, such as scheduled, manual, backfill or asset_triggered."""
    run_type = getattr(dag_run, "run_type", "")
    return str(getattr(run_type, "value", run_type) or "")


def key_of(owner: str, task_instance: Any, dag_run: Any) -> str:
    """Return the idempotency key of a task instance: the same for all retries, a new one once it is cleared.

    *owner* is the table's id, or its identifier if there is no id. The other parameters are untyped, because
    Airflow has no types with these fields.
    """
    return "/".join(
        str(part)
        for part in (
            owner,
            task_instance.dag_id,
            task_instance.run_id,
            task_instance.task_id,
            task_instance.map_index,
            getattr(dag_run, "clear_number", 0),
            getattr(dag_run, "start_date", None),
        )
    )
