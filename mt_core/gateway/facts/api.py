"""The API of facts: its prefix, its endpoints and what its OpenAPI document says about it."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter

from mt_core.gateway.facts.gateway import gateway_router
from mt_core.gateway.facts.graph import graph_router
from mt_core.gateway.facts.jobs import jobs_router
from mt_core.gateway.facts.runs import runs_router
from mt_core.gateway.facts.sessions import open_sessions_router
from mt_core.gateway.facts.tables import tables_router
from mt_core.gateway.services import GatewayServices

PREFIX = "/freshtable/v1"
TITLE = "Freshtable facts, V1"
DESCRIPTION = (
    "What the gateway knows about tables, refreshes, jobs and sessions. Instants are in UTC, durations in "
    "seconds, and a member whose value is unknown or absent is null. Later releases may add members."
)


def facts_routers(services: GatewayServices) -> Iterator[APIRouter]:
    """Return the routers of all endpoints below the prefix."""
    yield tables_router(services)
    yield runs_router(services)
    yield graph_router(services)
    yield jobs_router(services)
    yield open_sessions_router(services)
    yield gateway_router(services)
