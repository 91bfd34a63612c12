"""Session endpoints: open a session, show its properties, keep it alive, close it."""

from __future__ import annotations

from fastapi import APIRouter

from mt_core.base.secrets import masked
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.blocking import short
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.requests import JsonBody, SessionHandle
from mt_core.gateway.http.schemas import (
    NOTHING,
    OPEN_SESSION,
    SESSION,
    SESSION_CLOSED,
    SESSION_OPENED,
    described,
)
from mt_core.gateway.http.security import Caller
from mt_core.gateway.http.versions import ApiVersion
from mt_core.gateway.services import GatewayServices
from mt_core.jobs.installed import HOOKS_KEY


def sessions_router(services: GatewayServices, version: ApiVersion) -> APIRouter:
    """Return the endpoints of sessions.

    In the version of the draft, another router contains the endpoint that opens sessions.
    """
    router = direct_router("/sessions")

    @router.get("/{session_handle}", **described("Properties of a session", SESSION))
    async def get_session(session: SessionHandle) -> JsonAnswer:
        return JsonAnswer({"properties": masked(services.sessions.get(session).view().properties)})

    @router.delete("/{session_handle}", **described("Close a session", SESSION_CLOSED))
    def close_session(session: SessionHandle) -> JsonAnswer:
        services.sessions.close(session)
        return JsonAnswer({"status": "CLOSED"})

    @router.post("/{session_handle}/heartbeat", **described("Keep a session alive", NOTHING, body=NOTHING))
    async def heartbeat(session: SessionHandle) -> JsonAnswer:
        services.sessions.get(session)
        return JsonAnswer({})

    if version.draft:
        return router

    @router.post("", **described("Open a session", SESSION_OPENED, body=OPEN_SESSION))
    async def open_session(body: JsonBody, caller: Caller) -> JsonAnswer:
        name, properties = body.text("sessionName"), body.texts("properties")
        if HOOKS_KEY in properties:
            # The check may import a plug-in.
            await short(lambda: services.hooks.check(properties))
        session = services.sessions.open(name, properties, owner=caller)
        return JsonAnswer({"sessionHandle": session.handle})

    return router
