"""The request for a refresh, and the address of the run that the gateway begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RefreshRequest:
    """The request of one task instance; with partitions, `schedule_time` is "" and the refresh
    is not periodic.

    With `force` the gateway skips nothing for its unchanged sources. `trigger` is what began the DAG's run,
    in Airflow's words; the gateway shows it, and one of an earlier release does not read it.

    The key is the same over the retries of a task, which find the run of the try before;
    a cleared task has another.
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
        """The body of the call."""
        return {
            "isPeriodic": not self.partitions,
            "scheduleTime": self.schedule_time or None,
            "dynamicOptions": dict(self.dynamic_options),
            "staticPartitions": dict(self.partitions),
            "executionConfig": dict(self.execution_config),
        }

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the call; without a table's id the gateway refreshes the table
        that has the name now.
        """
        headers = {"Idempotency-Key": self.key, "Freshtable-Attempt": str(self.attempt)}
        forced = {"Freshtable-Force": "true"} if self.force else {}
        trigger = {"Freshtable-Trigger": self.trigger} if self.trigger else {}
        return (
            headers | forced | trigger | ({"Freshtable-Table": self.workflow_id} if self.workflow_id else {})
        )


@dataclass(frozen=True)
class RunAddress:
    """A run at the gateway as operator and trigger pass it on;
    `session` is replaced if the gateway no longer has it.

    `partitions` are those that it began with, as text for a log; "" if the gateway did not report them.
    """

    table: str
    handle: str
    session: str
    attempt: int
    init_config: Mapping[str, str] = field(default_factory=dict)
    partitions: str = ""


def trigger_of(dag_run: Any) -> str:
    """Return what began a run of a DAG: scheduled, manual, backfill, asset_triggered,
    or another word of Airflow's.
    """
    run_type = getattr(dag_run, "run_type", "")
    return str(getattr(run_type, "value", run_type) or "")


def key_of(owner: str, task_instance: Any, dag_run: Any) -> str:
    """Return the idempotency key of a task instance: the same over its retries, another after it was cleared.

    *owner* is the table's id, or its identifier without one. Airflow has no type with these fields
    for the other two.
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
