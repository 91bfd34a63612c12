"""GET /sessions: the open sessions, without the handles that give access to them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from mt_core.gateway.facts import schemas
from mt_core.gateway.facts.answers import FactsAnswer, facts_router
from mt_core.gateway.facts.json_form import session_json
from mt_core.gateway.facts.query import Query
from mt_core.gateway.http.schemas import described
from mt_core.gateway.services import GatewayServices


def open_sessions_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint of open sessions."""
    router = facts_router()

    @router.get("/sessions", **described("Open sessions, oldest first", schemas.SESSIONS))
    def get_sessions(request: Request) -> Response:
        Query.of(request)
        return FactsAnswer({"sessions": [session_json(each) for each in services.sessions.views()]})

    return router
