"""Served workflow definitions: the JSON from which a scheduler outside the gateway reads its workflows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from mt_core.base.secrets import is_secret
from mt_core.model.freshness import FIRST_MONDAY, cron_of
from mt_core.workflow.definitions import SHARDS, WorkflowDefinition
from mt_core.workflow.operations import Schedule

PUBLISHED_VERSION = 1
SCHEDULE_VERSION, CRON_SCHEDULE_VERSION = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedShard:
    """A shard as it is served, with an ETag that changes with every byte of it."""

    etag: str
    body: dict[str, Any]


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """Return the schedule as it is served.

    A cron schedule has version 3. A freshness schedule has its grid, and a cron expression as a label if the
    interval has one.
    """
    if schedule.cron is not None:
        return {
            "version": CRON_SCHEDULE_VERSION,
            "cron": schedule.cron.expression,
            "zone": schedule.zone,
        }
    freshness, cron = schedule.interval, cron_of(schedule.interval)
    return {
        "version": SCHEDULE_VERSION,
        "amount": freshness.amount,
        "unit": str(freshness.unit),
        "anchor": FIRST_MONDAY.isoformat(),
        "zone": schedule.zone,
        **({} if cron is None else {"cron": cron}),
    }


def workflow_json(definition: WorkflowDefinition, *, text: str = "", details_url: str = "") -> dict[str, Any]:
    """Return one workflow as it is served.

    *text* is the table's CREATE statement without secrets, *details_url* the URL of its table's page.
    """
    body = definition.to_json()
    return {
        "name": definition.name,
        "workflow_id": definition.workflow_id,
        "identifier": definition.identifier,
        "description": definition.description,
        "schedule": schedule_json(definition.schedule),
        **{key: body[key] for key in ("freshness", "zone", "since", "paused")},
        # A refresh reads its table's secret options from the registry, so schedulers do not need them.
        **{
            part: {key: value for key, value in body[part].items() if not is_secret(key)}
            for part in ("init_config", "execution_config", "dynamic_options")
        },
        "definition": text,
        "details_url": details_url,
    }


def published_shard(
    scheduler: str, number: int, workflows: Sequence[dict[str, Any]], *, state: str
) -> PublishedShard:
    """Return shard *number* of *scheduler* with these workflows.

    *state* is the ETag that the store computes for the shard.
    """
    body = {
        "version": PUBLISHED_VERSION,
        "scheduler": scheduler,
        "shard": number,
        "shards": SHARDS,
        "state": state,
        "workflows": list(workflows),
    }
    text = json.dumps(body, sort_keys=True)
    return PublishedShard(etag=sha256(text.encode()).hexdigest()[:32], body=body)
