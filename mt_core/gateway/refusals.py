"""Flink's endpoints that the gateway rejects: the embedded scheduler (v3) and script deployment (v4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter

from mt_core.errors import RequestInvalid, Unsupported
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import Body, JsonBody, SessionHandle
from mt_core.gateway.http.schemas import (
    CREATE_WORKFLOW,
    DEPLOYED,
    NOTHING,
    RESUME_WORKFLOW,
    SCRIPT,
    WORKFLOW,
    WORKFLOW_CREATED,
    Schema,
    described,
)
from mt_core.gateway.services import GatewayServices


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """An endpoint of Flink's embedded scheduler; `way_out` names the statement to use instead."""

    action: str
    method: str
    field: str
    way_out: str
    body: Schema
    answer: Schema


_REFUSALS = (
    _Refusal(
        action="create",
        method="POST",
        field="materializedTableIdentifier",
        way_out="CREATE MATERIALIZED TABLE creates it",
        body=CREATE_WORKFLOW,
        answer=WORKFLOW_CREATED,
    ),
    _Refusal(
        action="suspend",
        method="POST",
        field="workflowName",
        way_out="ALTER MATERIALIZED TABLE … SUSPEND suspends it",
        body=WORKFLOW,
        answer=NOTHING,
    ),
    _Refusal(
        action="resume",
        method="POST",
        field="workflowName",
        way_out="ALTER MATERIALIZED TABLE … RESUME resumes it",
        body=RESUME_WORKFLOW,
        answer=NOTHING,
    ),
    _Refusal(
        action="delete",
        method="DELETE",
        field="workflowName",
        way_out="DROP MATERIALIZED TABLE deletes it",
        body=WORKFLOW,
        answer=NOTHING,
    ),
)


def workflows_router() -> APIRouter:
    """Return the endpoints of Flink's embedded scheduler.

    All of them reject requests, because a workflow changed through them would not match its table.
    """
    router = APIRouter(prefix="/workflow/embedded-scheduler")
    for refusal in _REFUSALS:
        router.add_api_route(
            f"/{refusal.action}",
            _refusing(refusal),
            methods=[refusal.method],
            name=f"{refusal.action}_workflow",
            **described(f"{refusal.action.capitalize()} a workflow", refusal.answer, body=refusal.body),
        )
    return router


def _refusing(refusal: _Refusal) -> Callable[[Body], JsonAnswer]:
    def refuse(body: JsonBody) -> JsonAnswer:
        body.text(refusal.field)
        error = Unsupported(
            f"embedded-scheduler/{refusal.action}: the workflow of a materialized table is managed by the "
            f"gateway, with the scheduler that workflow-scheduler.type names; {refusal.way_out}."
        )
        return error_answer(error, doing=f"Failed to {refusal.action} the workflow.")

    return refuse


def scripts_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint that deploys scripts, which rejects all requests."""
    router = direct_router()

    @router.post("/sessions/{session_handle}/scripts", **described("Deploy a script", DEPLOYED, body=SCRIPT))
    def deploy_script(session: SessionHandle, body: JsonBody) -> JsonAnswer:
        services.sessions.get(session)
        fields = [name for name in ("script", "scriptUri") if body.text(name)]
        if len(fields) != 1:
            what = "both are given" if fields else "neither is given"
            invalid = RequestInvalid(
                f"Please specify either script content or uri: script and scriptUri, {what}."
            )
            return error_answer(invalid, doing="Failed to deploy the script.")
        raise Unsupported(
            "Scripts cannot be deployed: there is no application mode, "
            "Spark runs in the gateway's own driver; send the statements of the script one after the other, "
            "as `freshtable sql -f` and `sql-client.sh gateway -f` do."
        )

    return router
