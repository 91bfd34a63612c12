"""The responses with facts: JSON with a version and UTC instants, 304, and 404 for what does not exist."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from mt_core.errors import OperationNotFound, TableNotFound
from mt_core.gateway.http.answers import JsonAnswer, not_modified
from mt_core.gateway.http.endpoints import DirectRoute, Handler
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.services import FactServices

BODY_VERSION = 1


class FactsRoute(DirectRoute):
    """An endpoint that answers 404 if what it is to show does not exist."""

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except (OperationNotFound, TableNotFound) as error:
                return error_answer(error, error.http_status, doing="There is nothing to show.")

        return answer


def facts_router(prefix: str = "") -> APIRouter:
    """Return a router whose endpoints are `FactsRoute` objects."""
    return APIRouter(prefix=prefix, route_class=FactsRoute)


def unknown_table(table_id: str) -> TableNotFound:
    return TableNotFound(
        f"Materialized table {table_id} does not exist; GET /freshtable/v1/tables lists all with their ids."
    )


class FactsAnswer(JsonAnswer):
    """A response with *facts*. Instants are text in ISO 8601, in UTC with a Z."""

    def __init__(self, facts: Mapping[str, Any], headers: dict[str, str] | None = None) -> None:
        super().__init__({"version": BODY_VERSION, **facts}, headers=headers)

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content, option=orjson.OPT_UTC_Z)


def overview_answer(
    request: Request, facts: FactServices, body: Callable[[datetime], Mapping[str, Any]]
) -> Response:
    """Return the response with *body* at this instant, or 304 if the client has one that is still right.

    It is still right as long as nothing has changed but ages, such as by how much a table is late.
    """
    now = up_to_date(facts)
    version = (
        f"{facts.overview.version(now)} {facts.overview.progress} {request.url.path}?{request.url.query}"
    )
    etag = f'W/"{hashlib.sha256(version.encode()).hexdigest()[:32]}"'
    unchanged = not_modified(etag, request.headers.get("if-none-match"))
    return unchanged or FactsAnswer(body(now), headers={"ETag": etag})


def up_to_date(facts: FactServices) -> datetime:
    """Let the overview catch up with the registry, and return the instant for which to read it.

    While the overview is being built, which may take seconds, the answer shows how far it is.
    """
    overview = facts.overview
    if overview.progress.read >= overview.progress.total:
        overview.catch_up()
    return overview.now()
