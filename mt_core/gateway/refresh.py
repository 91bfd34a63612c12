"""The refresh endpoint that workflow schedulers call (FLIP-448), only in v3."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from pydantic import BaseModel

from mt_core.base.protocol import (
    ATTEMPT_HEADER,
    DYNAMIC_OPTIONS,
    EXECUTION_CONFIG,
    FORCE_HEADER,
    IS_PERIODIC,
    REQUEST_KEY_HEADER,
    SCHEDULE_TIME,
    STATIC_PARTITIONS,
    TABLE_HEADER,
    TRIGGER_HEADER,
)
from mt_core.errors import MtError, RequestInvalid
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import Body, JsonBody, SessionHandle
from mt_core.gateway.http.schemas import REFRESH, REFRESH_ERRORS, REFRESH_TAKEN, described
from mt_core.gateway.http.security import Caller
from mt_core.gateway.services import GatewayServices
from mt_core.tables.table_commands import RefreshRequest

_MEANING = (
    "false is a manual refresh, of the whole table or of staticPartitions; "
    "true is a refresh at the schedule time in scheduleTime"
)
# The limit of the registry's column for attempts.
_DIGITS = 9
_TRIGGER = re.compile(r"[a-z][a-z_]{0,39}")


class RefreshHeaders(BaseModel):
    """The headers of a call, which supplement Flink's body."""

    request_key: str | None
    table_id: str | None
    attempt: str | None
    force: str | None
    trigger: str | None


async def refresh_headers(
    request_key: Annotated[str | None, Header(alias=REQUEST_KEY_HEADER.lower())] = None,
    table_id: Annotated[str | None, Header(alias=TABLE_HEADER.lower())] = None,
    attempt: Annotated[str | None, Header(alias=ATTEMPT_HEADER.lower())] = None,
    force: Annotated[str | None, Header(alias=FORCE_HEADER.lower())] = None,
    trigger: Annotated[str | None, Header(alias=TRIGGER_HEADER.lower())] = None,
) -> RefreshHeaders:
    """Return the headers of a call, as a FastAPI dependency."""
    return RefreshHeaders(
        request_key=request_key, table_id=table_id, attempt=attempt, force=force, trigger=trigger
    )


def refresh_router(services: GatewayServices) -> APIRouter:
    """Return the refresh endpoint.

    Unlike all other endpoints, it returns an error with the error's own HTTP status.
    """
    router = APIRouter()

    @router.post(
        "/sessions/{session_handle}/materialized-tables/{identifier:path}/refresh",
        **described("Refresh a materialized table", REFRESH_TAKEN, body=REFRESH, errors=REFRESH_ERRORS),
    )
    def refresh_table(
        session: SessionHandle,
        identifier: str,
        body: JsonBody,
        headers: Annotated[RefreshHeaders, Depends(refresh_headers)],
        caller: Caller,
    ) -> JsonAnswer:
        try:
            services.sessions.get(session)
            run = services.runs.request_refresh(_request(identifier, body, headers, caller))
        except MtError as error:
            return error_answer(error, error.http_status, doing=f"The refresh of {identifier} was refused.")
        return JsonAnswer({"operationHandle": run.run_id, "partitions": run.scope.to_json()})

    return router


def _request(identifier: str, body: Body, headers: RefreshHeaders, caller: str) -> RefreshRequest:
    """Return the refresh request in a call. Raises RequestInvalid naming an invalid field."""
    force = headers.force or "false"
    if force not in ("true", "false"):
        raise RequestInvalid(f"{FORCE_HEADER} must be true or false, not '{force[:40]}'.")
    # The trigger is only informational, so an invalid word is ignored.
    trigger = headers.trigger if _TRIGGER.fullmatch(headers.trigger or "") else None
    return RefreshRequest(
        identifier_text=identifier,
        is_periodic=body.flag(IS_PERIODIC, _MEANING),
        schedule_time=body.text(SCHEDULE_TIME) or None,
        dynamic_options=body.texts(DYNAMIC_OPTIONS),
        static_partitions=body.texts(STATIC_PARTITIONS),
        execution_config=body.texts(EXECUTION_CONFIG),
        request_key=headers.request_key or None,
        table_id=headers.table_id or None,
        attempt=attempt_of(headers.attempt),
        force=force == "true",
        trigger=trigger,
        requested_by=caller or None,
    )


def attempt_of(text: str | None) -> int | None:
    """Return the number in a Freshtable-Attempt header, or None if it is absent. Raises RequestInvalid."""
    if not text:
        return None
    if not text.isdecimal() or len(text) > _DIGITS:
        raise RequestInvalid(
            f"{ATTEMPT_HEADER} must be a number of at most {_DIGITS} digits, not '{text[:40]}'."
        )
    return int(text)
