"""A scheduler's tick: a session, and the refresh request in it."""

from __future__ import annotations

from datetime import datetime

import httpx

from mt_core.model.formatter import show_schedule_time
from mt_core.workflow.definitions import WorkflowDefinition


def send_tick(gateway: httpx.Client, definition: WorkflowDefinition, point: datetime, key: str) -> None:
    """Request the refresh of *point* in a new session. *key* makes a repetition harmless."""
    properties = dict(definition.init_config)
    session = gateway.post("/v3/sessions", json={"sessionName": "scheduler", "properties": properties}).json()
    gateway.post(
        f"/v3/sessions/{session['sessionHandle']}/materialized-tables/{definition.identifier}/refresh",
        json={
            "isPeriodic": True,
            "scheduleTime": show_schedule_time(point, definition.schedule.zone),
            "dynamicOptions": dict(definition.dynamic_options),
            "staticPartitions": {},
            "executionConfig": dict(definition.execution_config),
        },
        headers={
            "Idempotency-Key": key,
            "Freshtable-Table": definition.workflow_id,
            "Freshtable-Attempt": "1",
        },
    )


def gateway_client(url: str, token: str) -> httpx.Client:
    """Return a client of the gateway at *url* that sends *token*."""
    return httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60
    )
