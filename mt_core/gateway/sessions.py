"""Sessions: open, show, keep alive, close."""

from __future__ import annotations

from fastapi import APIRouter

from mt_core.gateway.answers import JsonAnswer
from mt_core.gateway.requests import JsonBody, SessionHandle
from mt_core.gateway.services import GatewayServices
from mt_core.sessions.secrets import masked


def sessions_router(services: GatewayServices) -> APIRouter:
    """Return the endpoints of sessions."""
    router = APIRouter(prefix="/sessions")
    sessions = services.sessions

    @router.post("")
    def open_session(body: JsonBody) -> JsonAnswer:
        session = sessions.open(body.text("sessionName"), body.texts("properties"))
        return JsonAnswer({"sessionHandle": session.handle})

    @router.get("/{session_handle}")
    def get_session(session: SessionHandle) -> JsonAnswer:
        return JsonAnswer({"properties": masked(sessions.get(session).properties)})

    @router.delete("/{session_handle}")
    def close_session(session: SessionHandle) -> JsonAnswer:
        sessions.close(session)
        return JsonAnswer({"status": "CLOSED"})

    @router.post("/{session_handle}/heartbeat")
    def heartbeat(session: SessionHandle) -> JsonAnswer:
        sessions.get(session)
        return JsonAnswer({})

    return router
