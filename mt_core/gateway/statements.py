"""Endpoints for statements and their operations, for session configuration and for completion."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header

from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.blocking import is_small, long_wait, short
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.requests import JsonBody, OperationHandle, SessionHandle
from mt_core.gateway.http.schemas import (
    ATTEMPT_CANCELED,
    CANDIDATES,
    COMPLETE,
    CONFIGURE,
    NOTHING,
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
from mt_core.sessions.completion import complete
from mt_core.sessions.operations.operation import TERMINAL
from mt_core.sessions.refreshes import AnyOperation

OPERATION_PATH = "/sessions/{session_handle}/operations/{operation_handle}"


def statements_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint that submits statements."""
    router = direct_router()

    @router.post(
        "/sessions/{session_handle}/statements", **described("Begin a statement", OPERATION, body=STATEMENT)
    )
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


def configuring_router(services: GatewayServices) -> APIRouter:
    """Return the endpoints configure-session, which waits for its statement, and complete-statement."""
    router = direct_router("/sessions/{session_handle}")

    @router.post("/configure-session", **described("Set a session up", NOTHING, body=CONFIGURE))
    async def configure_session(session: SessionHandle, body: JsonBody, caller: Caller) -> JsonAnswer:
        statement, timeout_ms = body.statement(), body.milliseconds("executionTimeout")
        target = services.sessions.get(session)
        await long_wait(
            lambda: services.executor.configure(target, statement, timeout_ms=timeout_ms, caller=caller)
        )
        return JsonAnswer({})

    @router.get("/complete-statement", **described("Complete a statement", CANDIDATES, body=COMPLETE))
    async def complete_statement(session: SessionHandle, body: JsonBody) -> JsonAnswer:
        statement, position = body.statement(absent=""), body.integer("position")
        target = services.sessions.get(session)
        candidates = await long_wait(lambda: complete(statement, position, services.names(target)))
        return JsonAnswer({"candidates": candidates})

    return router


def operations_router(services: GatewayServices, version: ApiVersion) -> APIRouter:
    """Return the endpoints of operations. If *version* has extras, the status includes the progress."""
    router = direct_router()

    @router.get(f"{OPERATION_PATH}/status", **described("Status of an operation", OPERATION_STATUS))
    async def get_status(session: SessionHandle, operation: OperationHandle) -> JsonAnswer:
        statement = services.sessions.get(session).operation(operation)
        if statement is not None and (statement.status in TERMINAL or not version.extras):
            return JsonAnswer({"status": statement.status})
        return await short(lambda: _status(services.operations.find(session, operation), version))

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
        if is_small(services.sessions.get(session).operation(operation)):
            services.sessions.get(session).close_operation(operation)
        else:
            await short(lambda: services.sessions.get(session).close_operation(operation))
        return JsonAnswer({"status": "CLOSED"})

    return router


def _status(operation: AnyOperation, version: ApiVersion) -> JsonAnswer:
    return JsonAnswer({"status": operation.status, **progress_of(operation, version.extras)})


def progress_of(operation: AnyOperation, included: bool) -> dict[str, Any]:
    """Return `{"progress": {...}}` for a running operation, or `{}` for any other operation."""
    progress = operation.progress() if included else None
    if progress is None:
        return {}
    tasks = progress.tasks
    counts = {"tasksDone": tasks.done, "tasksTotal": tasks.total, "rowsRead": tasks.rows_read}
    return {"progress": {**counts, "message": progress.message}}
