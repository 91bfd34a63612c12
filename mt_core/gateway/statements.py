"""Statements and their operations: begin, status, cancel, close."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header

from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.blocking import Holds, at_hand
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.requests import JsonBody, OperationHandle, SessionHandle
from mt_core.gateway.http.schemas import (
    ATTEMPT_CANCELED,
    OPERATION,
    OPERATION_CANCELED,
    OPERATION_CLOSED,
    OPERATION_STATUS,
    STATEMENT,
    described,
)
from mt_core.gateway.http.security import Caller
from mt_core.gateway.http.versions import ApiVersion
from mt_core.gateway.refresh import attempt_of
from mt_core.gateway.services import GatewayServices
from mt_core.sessions.operations.operation import TERMINAL, OperationProgress, OperationView

OPERATION_PATH = "/sessions/{session_handle}/operations/{operation_handle}"


def statements_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint that begins statements."""
    router = direct_router()

    @router.post("/sessions/{session_handle}/statements", **described("Begin a statement", OPERATION, body=STATEMENT))
    def execute_statement(session: SessionHandle, body: JsonBody, caller: Caller) -> JsonAnswer:
        operation = services.executor.submit(
            services.sessions.get(session),
            body.statement(),
            body.texts("executionConfig"),
            timeout_ms=body.milliseconds("executionTimeout"),
            caller=caller,
        )
        return JsonAnswer({"operationHandle": operation.handle})

    return router


def operations_router(services: GatewayServices, version: ApiVersion, holds: Holds) -> APIRouter:
    """Return the endpoints of operations; with extras the status tells how far the work is."""
    router = direct_router()

    @router.get(f"{OPERATION_PATH}/status", **described("Status of an operation", OPERATION_STATUS))
    async def get_status(session: SessionHandle, operation: OperationHandle) -> JsonAnswer:
        known = services.operations.known(session, operation)
        if known is not None and (known.status in TERMINAL or not version.extras):
            return JsonAnswer({"status": known.status})
        return await holds.work(lambda: _status(services.operations.find(session, operation), version))

    if version.refreshes:

        @router.post(f"{OPERATION_PATH}/cancel", **described("Cancel an operation", ATTEMPT_CANCELED))
        def cancel_attempt(
            session: SessionHandle,
            operation: OperationHandle,
            freshtable_attempt: Annotated[str | None, Header()] = None,
        ) -> JsonAnswer:
            attempt = attempt_of(freshtable_attempt)
            return JsonAnswer({"status": services.operations.cancel(session, operation, attempt)})

    else:

        @router.post(f"{OPERATION_PATH}/cancel", **described("Cancel an operation", OPERATION_CANCELED))
        def cancel_operation(session: SessionHandle, operation: OperationHandle) -> JsonAnswer:
            return JsonAnswer({"status": services.operations.cancel(session, operation, None)})

    @router.delete(f"{OPERATION_PATH}/close", **described("Close an operation", OPERATION_CLOSED))
    async def close_operation(session: SessionHandle, operation: OperationHandle) -> JsonAnswer:
        if at_hand(services.operations.known(session, operation)):
            services.operations.close(session, operation)
        else:
            await holds.work(lambda: services.operations.close(session, operation))
        return JsonAnswer({"status": "CLOSED"})

    return router


def _status(operation: OperationView, version: ApiVersion) -> JsonAnswer:
    answer: dict[str, Any] = {"status": operation.status}
    return JsonAnswer(answer | progress_of(operation, version.extras))


def progress_of(operation: OperationView, wanted: bool) -> dict[str, Any]:
    """Return `{"progress": {...}}` while the work goes on, else nothing."""
    found: OperationProgress | None = operation.progress() if wanted else None
    if found is None:
        return {}
    return {"progress": {"tasksDone": found.done, "tasksTotal": found.total, "message": found.message}}
