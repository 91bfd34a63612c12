"""Compiled plans in a session's folder, for programs that share no files with the gateway."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from mt_core.errors import RequestInvalid, Unsupported
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import JsonBody, SessionHandle
from mt_core.gateway.http.schemas import NOTHING, PLAN, PLAN_ERRORS, described
from mt_core.gateway.services import GatewayServices
from mt_core.plans.errors import PlanInvalid, PlanNotFound
from mt_core.plans.json_form import read_plan
from mt_core.sessions.ports import PlanFiles

PlanName = Annotated[str, Path(pattern=r"^[\w-][\w.-]{0,199}$")]
"""The name of a file in the folder of a session. It is not a path."""


def plans_router(services: GatewayServices) -> APIRouter:
    """Return the endpoints that read and write a plan.

    `EXECUTE PLAN 'name'` in the same session executes it.
    """
    router = direct_router("/sessions/{session_handle}/plans")

    @router.get("/{name}", **described("A compiled plan of a session", PLAN, errors=PLAN_ERRORS))
    def get_plan(session: SessionHandle, name: PlanName) -> JsonAnswer:
        handle = services.sessions.get(session).handle
        try:
            return JsonAnswer({"plan": _files(services).read(handle, name)})
        except PlanNotFound as error:
            return error_answer(error, error.http_status, doing=f"Plan {name} cannot be shown.")

    @router.put(
        "/{name}", **described("Store a compiled plan in a session", NOTHING, body=PLAN, errors=PLAN_ERRORS)
    )
    def put_plan(session: SessionHandle, name: PlanName, body: JsonBody) -> JsonAnswer:
        handle, text = services.sessions.get(session).handle, body.text("plan")
        if text is None:
            raise RequestInvalid("plan is missing; it must be the text of a file that COMPILE PLAN wrote.")
        try:
            read_plan(text)
        except PlanInvalid as error:
            return error_answer(error.of(name), error.http_status, doing=f"Plan {name} cannot be stored.")
        _files(services).write(handle, name, text, replace=True)
        return JsonAnswer({})

    return router


def _files(services: GatewayServices) -> PlanFiles:
    if services.plans is None:
        raise Unsupported("This gateway does not store compiled plans; send the INSERT itself.")
    return services.plans
