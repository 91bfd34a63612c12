"""Statements and their operations: begin, status, cancel, close."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from mt_core.gateway.answers import JsonAnswer
from mt_core.gateway.requests import JsonBody, OperationHandle, SessionHandle
from mt_core.gateway.schemas import (
    OPERATION,
    OPERATION_CANCELED,
    OPERATION_CLOSED,
    OPERATION_STATUS,
    STATEMENT,
    described,
)
from mt_core.gateway.services import GatewayServices
from mt_core.gateway.versions import ApiVersion
from mt_core.sessions.operation import OperationProgress, OperationView

OPERATION_PATH = "/sessions/{session_handle}/operations/{operation_handle}"


def statements_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint that begins statements."""
    router = APIRouter()

    @router.post("/sessions/{session_handle}/statements", **described("Begin a statement", OPERATION, body=STATEMENT))
    def execute_statement(session: SessionHandle, body: JsonBody) -> JsonAnswer:
        operation = services.executor.submit(
            services.sessions.get(session),
            body.text("statement") or "",
            body.texts("executionConfig"),
            timeout_ms=body.milliseconds("executionTimeout"),
        )
        return JsonAnswer({"operationHandle": operation.handle})

    return router


def operations_router(services: GatewayServices, version: ApiVersion) -> APIRouter:
    """Return the endpoints of operations; with extras the status tells how far the work is."""
    router = APIRouter()

    @router.get(f"{OPERATION_PATH}/status", **described("Status of an operation", OPERATION_STATUS))
    def get_status(session: SessionHandle, operation: OperationHandle) -> JsonAnswer:
        found = services.operations.find(session, operation)
        answer: dict[str, Any] = {"status": found.status}
        return JsonAnswer(answer | progress_of(found, version.extras))

    @router.post(f"{OPERATION_PATH}/cancel", **described("Cancel an operation", OPERATION_CANCELED))
    def cancel_operation(session: SessionHandle, operation: OperationHandle) -> JsonAnswer:
        services.operations.find(session, operation).cancel()
        return JsonAnswer({"status": "CANCELED"})

    @router.delete(f"{OPERATION_PATH}/close", **described("Close an operation", OPERATION_CLOSED))
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
