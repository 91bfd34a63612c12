"""The refresh endpoint that workflow schedulers call (FLIP-448); it exists in v3 only."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header
from pydantic import BaseModel

from mt_core.errors import MtError, RequestInvalid
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import Body, JsonBody, SessionHandle
from mt_core.gateway.http.schemas import REFRESH, REFRESH_ERRORS, REFRESH_TAKEN, described
from mt_core.gateway.http.security import Caller
from mt_core.gateway.services import GatewayServices
from mt_core.tables.table_commands import RefreshRequest

_WAY_OUT = (
    "false is a manual refresh, of the whole table or of staticPartitions; true is one at a schedule time, which "
    "scheduleTime names"
)
# What the registry's column for attempts can have.
_DIGITS = 9


class RefreshHeaders(BaseModel):
    """What the headers of a call say beside Flink's body."""

    idempotency_key: str | None = None
    freshtable_table: str | None = None
    freshtable_attempt: str | None = None
    freshtable_force: str | None = None


def refresh_router(services: GatewayServices) -> APIRouter:
    """Return the refresh endpoint. Unlike all others it answers an error with the error's own HTTP status."""
    router = APIRouter()

    @router.post(
        "/sessions/{session_handle}/materialized-tables/{identifier:path}/refresh",
        **described("Refresh a materialized table", REFRESH_TAKEN, body=REFRESH, errors=REFRESH_ERRORS),
    )
    def refresh_table(
        session: SessionHandle,
        identifier: str,
        body: JsonBody,
        headers: Annotated[RefreshHeaders, Header()],
        caller: Caller,
    ) -> JsonAnswer:
        try:
            services.sessions.get(session)
            run = services.runs.request_refresh(refresh_request(identifier, body, headers, caller))
        except MtError as error:
            return error_answer(error, error.http_status, doing=f"The refresh of {identifier} was refused.")
        return JsonAnswer({"operationHandle": run.run_id, "partitions": run.scope.to_json()})

    return router


def refresh_request(identifier: str, body: Body, headers: RefreshHeaders, caller: str) -> RefreshRequest:
    """Return a call of the endpoint as a request; raises RequestInvalid naming the field that does not fit."""
    return RefreshRequest(
        identifier_text=identifier,
        is_periodic=body.required_flag("isPeriodic", _WAY_OUT),
        schedule_time=body.text("scheduleTime") or None,
        dynamic_options=body.texts("dynamicOptions"),
        static_partitions=body.texts("staticPartitions"),
        execution_config=body.texts("executionConfig"),
        request_key=headers.idempotency_key or None,
        table_id=headers.freshtable_table or None,
        attempt=attempt_of(headers.freshtable_attempt),
        force=flag_of(headers.freshtable_force),
        requested_by=caller or None,
    )


def flag_of(text: str | None) -> bool:
    """Return whether a Freshtable-Force header says true; raises RequestInvalid."""
    if text not in (None, "", "true", "false"):
        raise RequestInvalid(f"Freshtable-Force must be true or false, not '{(text or '')[:40]}'.")
    return text == "true"


def attempt_of(text: str | None) -> int | None:
    """Return the number in a Freshtable-Attempt header, None for none; raises RequestInvalid."""
    if not text:
        return None
    if not text.isdecimal() or len(text) > _DIGITS:
        raise RequestInvalid(f"Freshtable-Attempt must be a number of at most {_DIGITS} digits, not '{text[:40]}'.")
    return int(text)
