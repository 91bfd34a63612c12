"""Statements and their operations: begin, status, cancel, close."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from mt_core.errors import Unsupported
from mt_core.gateway.answers import JsonAnswer
from mt_core.gateway.requests import JsonBody, OperationHandle, SessionHandle
from mt_core.gateway.services import GatewayServices
from mt_core.sessions.operation import OperationProgress, OperationView

OPERATION = "/sessions/{session_handle}/operations/{operation_handle}"


def statements_router(services: GatewayServices, *, with_progress: bool) -> APIRouter:
    """Return the endpoints of statements; *with_progress* adds to the status how far the work is."""
    router = APIRouter()

    @router.post("/sessions/{session_handle}/statements")
    def execute_statement(session: SessionHandle, body: JsonBody) -> JsonAnswer:
        opened = services.sessions.get(session)
        if body.integer("executionTimeout") > 0:
            raise Unsupported(
                "executionTimeout is not supported; leave it out, and cancel the operation when it is late."
            )
        operation = services.executor.submit(opened, body.text("statement") or "", body.texts("executionConfig"))
        return JsonAnswer({"operationHandle": operation.handle})

    @router.get(f"{OPERATION}/status")
    def get_status(session: SessionHandle, operation: OperationHandle) -> JsonAnswer:
        found = services.operations.find(session, operation)
        answer: dict[str, Any] = {"status": found.status}
        return JsonAnswer(answer | progress_of(found, with_progress))

    @router.post(f"{OPERATION}/cancel")
    def cancel_operation(session: SessionHandle, operation: OperationHandle) -> JsonAnswer:
        services.operations.find(session, operation).cancel()
        return JsonAnswer({"status": "CANCELED"})

    @router.delete(f"{OPERATION}/close")
    def close_operation(session: SessionHandle, operation: OperationHandle) -> JsonAnswer:
        services.operations.close(session, operation)
        return JsonAnswer({"status": "CLOSED"})

    return router


def progress_of(operation: OperationView, wanted: bool) -> dict[str, Any]:
    """Return `{"progress": {...}}` while the work goes on, else nothing."""
    found: OperationProgress | None = operation.progress() if wanted else None
    if found is None:
        return {}
    return {"progress": {"tasksDone": found.done, "tasksTotal": found.total, "message": found.message}}
