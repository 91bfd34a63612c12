"""The refresh endpoint that workflow schedulers call (FLIP-448); it exists in v3 only."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header

from mt_core.errors import MtError, RequestInvalid
from mt_core.gateway.answers import JsonAnswer
from mt_core.gateway.errors import error_answer
from mt_core.gateway.requests import Body, JsonBody, SessionHandle
from mt_core.gateway.schemas import OPERATION, REFRESH, REFRESH_ERRORS, described
from mt_core.gateway.services import GatewayServices
from mt_core.tables.commands import RefreshRequest

# What the registry's column for attempts can have.
_DIGITS = 9


def refresh_router(services: GatewayServices) -> APIRouter:
    """Return the refresh endpoint. Unlike all others it answers an error with the error's own HTTP status."""
    router = APIRouter()

    @router.post(
        "/sessions/{session_handle}/materialized-tables/{identifier:path}/refresh",
        **described("Refresh a materialized table", OPERATION, body=REFRESH, errors=REFRESH_ERRORS),
    )
    def refresh_table(
        session: SessionHandle,
        identifier: str,
        body: JsonBody,
        idempotency_key: Annotated[str | None, Header()] = None,
        freshtable_table: Annotated[str | None, Header()] = None,
        freshtable_attempt: Annotated[str | None, Header()] = None,
    ) -> JsonAnswer:
        try:
            services.sessions.get(session)
            request = refresh_request(
                identifier, body, key=idempotency_key, table_id=freshtable_table, attempt=freshtable_attempt
            )
            run = services.runs.request_refresh(request)
        except MtError as error:
            return error_answer(error, error.http_status, doing=f"The refresh of {identifier} was refused.")
        return JsonAnswer({"operationHandle": run.run_id})

    return router


def refresh_request(
    identifier: str, body: Body, *, key: str | None, table_id: str | None, attempt: str | None
) -> RefreshRequest:
    """Return a call of the endpoint as a request; raises RequestInvalid naming the field that does not fit."""
    return RefreshRequest(
        identifier_text=identifier,
        is_periodic=body.flag("isPeriodic"),
        schedule_time=body.text("scheduleTime") or None,
        dynamic_options=body.texts("dynamicOptions"),
        static_partitions=body.texts("staticPartitions"),
        execution_config=body.texts("executionConfig"),
        request_key=key or None,
        table_id=table_id or None,
        attempt=attempt_of(attempt),
    )


def attempt_of(text: str | None) -> int | None:
    """Return the number in a Freshtable-Attempt header, None for none; raises RequestInvalid."""
    if not text:
        return None
    if not text.isdecimal() or len(text) > _DIGITS:
        raise RequestInvalid(f"Freshtable-Attempt must be a number of at most {_DIGITS} digits, not '{text[:40]}'.")
    return int(text)
