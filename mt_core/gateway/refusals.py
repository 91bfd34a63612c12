"""Endpoints of Flink that the gateway refuses: its embedded scheduler (v3), and deploying a script to a cluster of its own (v4)."""

from __future__ import annotations

from fastapi import APIRouter

from mt_core.errors import RequestInvalid, Unsupported
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import JsonBody, SessionHandle
from mt_core.gateway.http.schemas import (
    CREATE_WORKFLOW,
    DEPLOYED,
    NOTHING,
    RESUME_WORKFLOW,
    SCRIPT,
    WORKFLOW,
    WORKFLOW_CREATED,
    described,
)
from mt_core.gateway.services import GatewayServices

_WAYS_OUT = {
    "create": "CREATE MATERIALIZED TABLE creates it",
    "suspend": "ALTER MATERIALIZED TABLE … SUSPEND suspends it",
    "resume": "ALTER MATERIALIZED TABLE … RESUME resumes it",
    "delete": "DROP MATERIALIZED TABLE deletes it",
}


def workflows_router() -> APIRouter:
    """Return the endpoints of Flink's embedded scheduler: a workflow changed through them would not fit its table."""
    router = APIRouter(prefix="/workflow/embedded-scheduler")

    @router.post("/create", **described("Create a workflow", WORKFLOW_CREATED, body=CREATE_WORKFLOW))
    def create_workflow(body: JsonBody) -> JsonAnswer:
        body.text("materializedTableIdentifier")
        return _refusal("create")

    @router.post("/suspend", **described("Suspend a workflow", NOTHING, body=WORKFLOW))
    def suspend_workflow(body: JsonBody) -> JsonAnswer:
        body.text("workflowName")
        return _refusal("suspend")

    @router.post("/resume", **described("Resume a workflow", NOTHING, body=RESUME_WORKFLOW))
    def resume_workflow(body: JsonBody) -> JsonAnswer:
        body.text("workflowName")
        return _refusal("resume")

    @router.delete("/delete", **described("Delete a workflow", NOTHING, body=WORKFLOW))
    def delete_workflow(body: JsonBody) -> JsonAnswer:
        body.text("workflowName")
        return _refusal("delete")

    return router


def scripts_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint of scripts."""
    router = direct_router()

    @router.post("/sessions/{session_handle}/scripts", **described("Deploy a script", DEPLOYED, body=SCRIPT))
    def deploy_script(session: SessionHandle, body: JsonBody) -> JsonAnswer:
        services.sessions.get(session)
        fields = [name for name in ("script", "scriptUri") if body.text(name)]
        if len(fields) != 1:
            what = "both are there" if fields else "neither is there"
            invalid = RequestInvalid(f"Please specify either script content or uri: script and scriptUri, {what}.")
            return error_answer(invalid, doing="Failed to deploy the script.")
        raise Unsupported(
            "Scripts cannot be deployed: there is no application mode, Spark runs in the gateway's own driver; send the "
            "statements of the script one after the other, as `freshtable sql -f` and `sql-client.sh gateway -f` do."
        )

    return router


def _refusal(action: str) -> JsonAnswer:
    error = Unsupported(
        f"embedded-scheduler/{action}: the workflow of a materialized table is managed by the gateway, with the scheduler "
        f"that workflow-scheduler.type names; {_WAYS_OUT[action]}."
    )
    return error_answer(error, doing=f"Failed to {action} the workflow.")
