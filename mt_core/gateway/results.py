"""Results, fetched page by page with tokens (flink.md §2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from mt_core.errors import Canceled, IllegalStatus, MtError, RequestInvalid
from mt_core.gateway.answers import JsonAnswer
from mt_core.gateway.errors import error_answer
from mt_core.gateway.holding import Holds, at_hand
from mt_core.gateway.plain_text import plain_rows
from mt_core.gateway.requests import OperationHandle, SessionHandle
from mt_core.gateway.schemas import described
from mt_core.gateway.schemas import result as result_schema
from mt_core.gateway.services import GatewayServices
from mt_core.gateway.statements import OPERATION_PATH, progress_of
from mt_core.gateway.versions import ApiVersion
from mt_core.model.run import RefreshRun
from mt_core.sessions.operation import OperationResult, OperationStatus, OperationView
from mt_core.sessions.paging import Page

HOLD_S = 0.3
FORMATS = ("JSON", "PLAIN_TEXT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """What was asked for: a page of an operation in a row format, on a path that the next page's is made of."""

    operation: OperationView
    token: int
    row_format: str
    base: str
    version: ApiVersion

    def uri(self, token: int) -> str:
        return f"{self.base}/{token}" + (f"?rowFormat={self.row_format}" if self.version.row_formats else "")


def results_router(services: GatewayServices, version: ApiVersion, holds: Holds) -> APIRouter:
    """Return the endpoint of results; with extras the answers have progress, warnings and the refresh run."""
    router = APIRouter()
    path = f"{OPERATION_PATH}/result/{{token}}"
    formats = FORMATS if version.row_formats else FORMATS[:1]
    schema = result_schema(last_uri=("string", "null") if version.null_uri else ("string",), formats=formats)

    async def answer(request: Request, session: str, operation: str, *asked: str) -> JsonAnswer:
        number, row_format = _token(asked[0]), _row_format(asked[1])
        known = services.operations.known(session, operation)
        found = await holds.work(lambda: services.operations.find(session, operation)) if known is None else known
        base = request.scope["path"].rpartition("/")[0]
        fetch = Fetch(operation=found, token=number, row_format=row_format, base=base, version=version)
        ready = number > 0 or (known is not None and known.wait(0)) or await holds.hold(lambda: found.wait(HOLD_S))
        if at_hand(found):
            return _page(fetch)
        return await holds.work(lambda: _page(fetch) if ready else _not_ready(fetch))

    if version.row_formats:

        @router.get(path, **described("A page of a result", schema))
        async def fetch_result(
            request: Request,
            session: SessionHandle,
            operation: OperationHandle,
            token: str,
            row_format: Annotated[str, Query(alias="rowFormat")] = "JSON",
        ) -> JsonAnswer:
            return await answer(request, session, operation, token, row_format)

    else:

        @router.get(path, **described("A page of a result", schema))
        async def fetch_json_result(
            request: Request, session: SessionHandle, operation: OperationHandle, token: str
        ) -> JsonAnswer:
            return await answer(request, session, operation, token, FORMATS[0])

    return router


def _not_ready(fetch: Fetch) -> JsonAnswer:
    body: dict[str, Any] = {"resultType": "NOT_READY", "nextResultUri": fetch.uri(0)}
    return JsonAnswer(body | progress_of(fetch.operation, fetch.version.extras))


def _page(fetch: Fetch) -> JsonAnswer:
    try:
        result, page = _fetch(fetch.operation, fetch.token)
    except MtError as error:
        return error_answer(error, doing=f"Failed to fetch the result of operation {fetch.operation.handle}.")
    body = _body(result, page, fetch.row_format)
    if not page.last:
        body["nextResultUri"] = fetch.uri(fetch.token + 1)
    elif fetch.version.null_uri:
        # Clients of the first version index the member without looking whether it is there.
        body["nextResultUri"] = None
    return JsonAnswer(body | (_extras(result) if fetch.version.extras else {}))


def _fetch(operation: OperationView, token: int) -> tuple[OperationResult, Page]:
    """Return a page of a finished operation; raises the operation's error, or names the status that has no result."""
    if operation.error is not None:
        raise operation.error
    if operation.status is OperationStatus.CANCELED:
        raise Canceled(f"Operation {operation.handle} is CANCELED: it has no result to fetch.")
    page, result = operation.fetch(token), operation.result
    if result is None:
        raise IllegalStatus(f"Operation {operation.handle} is {operation.status}: it has no result to fetch.")
    return result, page


def _body(result: OperationResult, page: Page, row_format: str) -> dict[str, Any]:
    columns = result.rows.columns
    rows = plain_rows(columns, page.rows) if row_format == "PLAIN_TEXT" else page.rows
    body: dict[str, Any] = {"resultType": "EOS" if page.last else "PAYLOAD", "isQueryResult": result.is_query}
    if result.job_id is not None:
        body["jobID"] = result.job_id
    body["resultKind"] = result.result_kind
    body["results"] = {
        "columns": [column.to_json() for column in columns],
        "rowFormat": row_format,
        "data": [{"kind": "INSERT", "fields": fields} for fields in rows],
    }
    return body


def _extras(result: OperationResult) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if result.warnings:
        extras["warnings"] = list(result.warnings)
    if result.run is not None:
        extras["run"] = _run_json(result.run)
    return extras


def _run_json(run: RefreshRun) -> dict[str, Any]:
    return {
        "decision": run.decision,
        "reason": run.reason,
        "rows": run.rows,
        "scheduleTime": run.schedule_time.isoformat() if run.schedule_time is not None else None,
        "partitions": run.scope.to_json(),
        "attempt": run.attempt,
    }


def _token(text: str) -> int:
    try:
        return int(text)
    except ValueError as cause:
        raise RequestInvalid(f'Cannot resolve path parameter (token) from value "{text}".') from cause


def _row_format(text: str) -> str:
    if text.upper() not in FORMATS:
        raise RequestInvalid(f'Cannot resolve query parameter (rowFormat) from value "{text}"; use JSON or PLAIN_TEXT.')
    return text.upper()
