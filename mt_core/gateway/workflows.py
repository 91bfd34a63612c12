"""The endpoints of Flink's embedded scheduler, which the gateway answers by saying who does the work here; v3 only."""

from __future__ import annotations

from fastapi import APIRouter

from mt_core.errors import Unsupported
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import JsonBody
from mt_core.gateway.http.schemas import (
    CREATE_WORKFLOW,
    NOTHING,
    RESUME_WORKFLOW,
    WORKFLOW,
    WORKFLOW_CREATED,
    described,
)

_WAYS_OUT = {
    "create": "CREATE MATERIALIZED TABLE creates it",
    "suspend": "ALTER MATERIALIZED TABLE … SUSPEND suspends it",
    "resume": "ALTER MATERIALIZED TABLE … RESUME resumes it",
    "delete": "DROP MATERIALIZED TABLE deletes it",
}


def workflows_router() -> APIRouter:
    """Return the endpoints. All refuse: a workflow changed behind the gateway's back would not fit its table."""
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


def _refusal(action: str) -> JsonAnswer:
    error = Unsupported(
        f"embedded-scheduler/{action}: the workflow of a materialized table is managed by the gateway, with the scheduler "
        f"that workflow-scheduler.type names; {_WAYS_OUT[action]}."
    )
    return error_answer(error, doing=f"Failed to {action} the workflow.")
