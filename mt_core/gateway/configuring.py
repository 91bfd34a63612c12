"""Setting a session up without an operation, and completing what a user types."""

from __future__ import annotations

from fastapi import APIRouter

from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.blocking import Holds
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.requests import JsonBody, SessionHandle
from mt_core.gateway.http.schemas import CANDIDATES, COMPLETE, CONFIGURE, NOTHING, described
from mt_core.gateway.http.security import Caller
from mt_core.gateway.services import GatewayServices


def configuring_router(services: GatewayServices, holds: Holds) -> APIRouter:
    """Return configure-session and complete-statement."""
    router = direct_router("/sessions/{session_handle}")

    @router.post("/configure-session", **described("Set a session up", NOTHING, body=CONFIGURE))
    async def configure_session(session: SessionHandle, body: JsonBody, caller: Caller) -> JsonAnswer:
        statement, timeout_ms = body.statement(), body.milliseconds("executionTimeout")
        opened = services.sessions.get(session)
        await holds.hold(lambda: services.executor.configure(opened, statement, timeout_ms=timeout_ms, caller=caller))
        return JsonAnswer({})

    @router.get("/complete-statement", **described("Complete a statement", CANDIDATES, body=COMPLETE))
    async def complete_statement(session: SessionHandle, body: JsonBody) -> JsonAnswer:
        statement, position = body.statement(), body.integer("position")
        opened = services.sessions.get(session)
        found = await holds.hold(lambda: services.executor.complete(opened, statement, position))
        return JsonAnswer({"candidates": found})

    return router
