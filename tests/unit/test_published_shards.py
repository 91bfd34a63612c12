"""The served JSON of workflows, byte for byte."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mt_core.model.cron import Cron
from mt_core.model.freshness import Freshness
from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.operations import Schedule
from mt_core.workflow.publishing import published_shard, workflow_json

GOLDEN = Path(__file__).parents[1] / "golden"
SINCE = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


def workflow(name: str, amount: int, unit: str, *, paused: bool = False) -> dict[str, Any]:
    identifier = f"lake.sales.{name}"
    schedule = Schedule(freshness=Freshness(amount, unit), zone="Europe/Berlin", since=SINCE)
    definition = WorkflowDefinition(
        workflow_id=f"00000000-0000-0000-0000-00000000000{len(name)}",
        identifier=identifier,
        description=schedule.description(identifier),
        schedule=schedule,
        name=f"mt__{identifier}",
        init_config={"table.local-time-zone": "Europe/Berlin"},
        dynamic_options={"write.format.default": "orc"},
        paused=paused,
        token=3,
    )
    url = f"http://gateway/ui/tables/{definition.workflow_id}"
    return workflow_json(
        definition, text=f"CREATE MATERIALIZED TABLE {identifier} AS SELECT 1", details_url=url
    )


def shard() -> dict[str, Any]:
    workflows = [
        workflow("daily", 1, "DAY"),
        workflow("hourly", 24, "HOUR", paused=True),
        workflow("quarterly", 15, "MINUTE"),
        workflow("weekly_a", 1, "WEEK"),
        workflow("odd", 90, "MINUTE"),
    ]
    return published_shard("airflow", 3, workflows, state="5f0c1d2e3f4a5b6c").body


def test_a_served_shard_is_golden() -> None:
    assert shard() == json.loads((GOLDEN / "shard_schedules_v2.json").read_text())


def test_a_cron_is_served_as_version_3_which_older_packages_refuse_by_its_number() -> None:
    schedule = Schedule(cron=Cron("0 6 * * MON-FRI"), zone="Europe/Berlin", since=SINCE)
    definition = WorkflowDefinition(
        workflow_id="w",
        identifier="lake.sales.daily",
        description="",
        schedule=schedule,
        name="mt__lake.sales.daily",
    )

    body = workflow_json(definition)

    assert body["schedule"] == {
        "version": 3,
        "cron": "0 6 * * MON-FRI",
        "zone": "Europe/Berlin",
    }
    # Packages that read a freshness find that there is none, and go on to the version.
    assert (body["freshness"], body["since"]) == (None, SINCE.isoformat())
    assert WorkflowDefinition.from_json(definition.to_json()) == definition
