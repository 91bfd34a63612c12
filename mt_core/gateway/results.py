"""Results, fetched page by page with tokens (flink.md §2)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from mt_core.errors import Canceled, IllegalStatus, MtError, RequestInvalid
from mt_core.gateway.answers import JsonAnswer
from mt_core.gateway.errors import error_answer
from mt_core.gateway.plain_text import plain_rows
from mt_core.gateway.requests import OperationHandle, SessionHandle
from mt_core.gateway.services import GatewayServices
from mt_core.gateway.statements import OPERATION, progress_of
from mt_core.model.run import RefreshRun
from mt_core.sessions.operation import OperationResult, OperationStatus, OperationView
from mt_core.sessions.paging import Page

HOLD_S = 0.2
FORMATS = ("JSON", "PLAIN_TEXT")


def results_router(services: GatewayServices, *, with_extras: bool) -> APIRouter:
    """Return the endpoint of results; *with_extras* adds progress, warnings and the refresh run to the answers."""
    router = APIRouter()

    @router.get(f"{OPERATION}/result/{{token}}")
    def fetch_result(
        request: Request,
        session: SessionHandle,
        operation: OperationHandle,
        token: str,
        row_format: Annotated[str, Query(alias="rowFormat")] = "JSON",
    ) -> JsonAnswer:
        number, row_format = _token(token), _row_format(row_format)
        found = services.operations.find(session, operation)
        base = request.scope["path"].rpartition("/")[0]
        if number == 0 and not found.wait(HOLD_S):
            not_ready = {"resultType": "NOT_READY", "nextResultUri": f"{base}/0?rowFormat={row_format}"}
            return JsonAnswer(not_ready | progress_of(found, with_extras))
        try:
            result, page = _fetch(found, number)
        except MtError as error:
            return error_answer(error, doing=f"Failed to fetch the result of operation {operation}.")
        body = _body(result, page, row_format)
        if not page.last:
            body["nextResultUri"] = f"{base}/{number + 1}?rowFormat={row_format}"
        return JsonAnswer(body | (_extras(result) if with_extras else {}))

    return router


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
