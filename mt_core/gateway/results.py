"""Results, fetched page by page with tokens, as FLIP-91 has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response

from mt_core.errors import Canceled, IllegalStatus, MtError, RequestInvalid
from mt_core.gateway.arrow_answers import PAGE_ROWS, ArrowAnswer, accepts_arrow, stream_of
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.blocking import Holds, at_hand
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import OperationHandle, SessionHandle
from mt_core.gateway.http.schemas import Schema, described, or_arrow
from mt_core.gateway.http.schemas import result as result_schema
from mt_core.gateway.http.versions import ApiVersion
from mt_core.gateway.plain_text import plain_rows
from mt_core.gateway.services import GatewayServices
from mt_core.gateway.statements import OPERATION_PATH, progress_of
from mt_core.model.run import RefreshRun
from mt_core.protocol import AFFECTED_ROWS_HEADER
from mt_core.rowset import PageForm
from mt_core.sessions.operations.operation import TERMINAL, OperationResult, OperationStatus, OperationView

# No client, however eager, gets more than two answers a second that tell nothing.
HOLD_S = 0.5
FORMATS = ("JSON", "PLAIN_TEXT")
MOST_ROWS = 1_000_000
Answer = JsonAnswer | ArrowAnswer
RowFormat = Annotated[str, Query(alias="rowFormat")]
PageSize = Annotated[int | None, Query(alias="pageSize", ge=1, le=MOST_ROWS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request asks for besides the page: a row format or Arrow, and rows in a page that is a new one."""

    row_format: str = FORMATS[0]
    page_size: int | None = None
    arrow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """What was asked for: a page of an operation, on a path that the next page's is made of."""

    operation: OperationView
    token: int
    asked: Asked
    base: str
    version: ApiVersion

    def uri(self, token: int) -> str:
        asked = [f"rowFormat={self.asked.row_format}"] if self.version.row_formats else []
        asked += [f"pageSize={self.asked.page_size}"] if self.asked.page_size is not None else []
        return f"{self.base}/{token}" + (f"?{'&'.join(asked)}" if asked else "")


def results_router(services: GatewayServices, version: ApiVersion, holds: Holds) -> APIRouter:
    """Return the endpoint of results; with extras there are Arrow, page sizes, progress, warnings and the refresh run."""
    router = direct_router()
    path = f"{OPERATION_PATH}/result/{{token}}"
    route, pages = described("A page of a result", _schema(version)), _Pages(services, version, holds)
    if version.extras:

        @router.get(path, **or_arrow(route))
        async def fetch_result(
            request: Request,
            session: SessionHandle,
            operation: OperationHandle,
            token: str,
            row_format: RowFormat = "JSON",
            page_size: PageSize = None,
        ) -> Response:
            asked = Asked(row_format=_row_format(row_format), page_size=page_size, arrow=accepts_arrow(request))
            return await pages.answer(request, (session, operation), token, asked)

    elif version.row_formats:

        @router.get(path, **route)
        async def fetch_formatted(
            request: Request,
            session: SessionHandle,
            operation: OperationHandle,
            token: str,
            row_format: RowFormat = "JSON",
        ) -> Response:
            return await pages.answer(request, (session, operation), token, Asked(row_format=_row_format(row_format)))

    else:

        @router.get(path, **route)
        async def fetch_json_result(
            request: Request, session: SessionHandle, operation: OperationHandle, token: str
        ) -> Response:
            return await pages.answer(request, (session, operation), token, Asked())

    return router


def _schema(version: ApiVersion) -> Schema:
    formats = FORMATS if version.row_formats else FORMATS[:1]
    return result_schema(last_uri=("string", "null") if version.null_uri else ("string",), formats=formats)


class _Pages:
    """Answers with pages, holding a request for one that is not there yet."""

    def __init__(self, services: GatewayServices, version: ApiVersion, holds: Holds) -> None:
        self._services, self._version, self._holds = services, version, holds

    async def answer(self, request: Request, handles: tuple[str, str], token: str, asked: Asked) -> Answer:
        number, base = _token(token), request.scope["path"].rpartition("/")[0]
        operations = self._services.operations
        known = operations.known(*handles)
        found = await self._holds.work(lambda: operations.find(*handles)) if known is None else known
        fetch = Fetch(operation=found, token=number, asked=asked, base=base, version=self._version)
        if known is None or not known.wait_page(number, 0):
            await self._holds.hold(lambda: found.wait_page(number, HOLD_S))
        if at_hand(found):
            return _answer(fetch)
        return await self._holds.work(lambda: _answer(fetch))


def _answer(fetch: Fetch) -> Answer:
    if fetch.token == 0 and fetch.operation.status not in TERMINAL:
        return _not_ready(fetch)
    try:
        return _arrow_page(fetch) if fetch.asked.arrow else _page(fetch)
    except MtError as error:
        return error_answer(error, doing=f"Failed to fetch the result of operation {fetch.operation.handle}.")


def _not_ready(fetch: Fetch) -> Answer:
    if fetch.asked.arrow:
        return ArrowAnswer(b"", "NOT_READY", fetch.uri(0))
    body: dict[str, Any] = {"resultType": "NOT_READY", "nextResultUri": fetch.uri(0)}
    return JsonAnswer(body | progress_of(fetch.operation, fetch.version.extras))


def _arrow_page(fetch: Fetch) -> Answer:
    """Return a page as Arrow; as JSON that of a query whose engine has no Arrow."""
    _check_finished(fetch.operation)
    page = fetch.operation.fetch_encoded(fetch.token, fetch.asked.page_size or PAGE_ROWS, PageForm.ARROW)
    result, stream = _result(fetch.operation), page.body
    if stream is None and result.is_query:
        return _json_page(fetch, _objects(page.rows), last=page.last)
    if stream is None:
        stream = stream_of(result.rows.columns, page.rows)
    if page.last:
        return ArrowAnswer(stream, "EOS", None, _affected(result))
    return ArrowAnswer(stream, "PAYLOAD", fetch.uri(fetch.token + 1), _affected(result))


def _page(fetch: Fetch) -> JsonAnswer:
    _check_finished(fetch.operation)
    if fetch.asked.row_format == "JSON":
        encoded = fetch.operation.fetch_encoded(fetch.token, fetch.asked.page_size, PageForm.JSON)
        data = _objects(encoded.rows) if encoded.body is None else orjson.Fragment(bytes(encoded.body))
        return _json_page(fetch, data, last=encoded.last)
    page = fetch.operation.fetch(fetch.token, fetch.asked.page_size)
    rows = plain_rows(_result(fetch.operation).rows.columns, page.rows)
    return _json_page(fetch, _objects(rows), last=page.last)


def _objects(rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    return [{"kind": "INSERT", "fields": fields} for fields in rows]


def _json_page(fetch: Fetch, data: Any, *, last: bool) -> JsonAnswer:
    """Return a page with the rows *data*, which are objects or their JSON text."""
    result = _result(fetch.operation)
    body = _body(result, data, fetch.asked.row_format, last=last)
    if not last:
        body["nextResultUri"] = fetch.uri(fetch.token + 1)
    elif fetch.version.null_uri:
        # Clients of the first version index the member without looking whether it is there.
        body["nextResultUri"] = None
    if not fetch.version.extras:
        return JsonAnswer(body)
    return JsonAnswer(body | _extras(result), headers=_affected(result))


def _check_finished(operation: OperationView) -> None:
    """Raise the operation's error, or Canceled."""
    if operation.error is not None:
        raise operation.error
    if operation.status is OperationStatus.CANCELED:
        raise Canceled(f"Operation {operation.handle} is CANCELED: it has no result to fetch.")


def _result(operation: OperationView) -> OperationResult:
    result = operation.result
    if result is None:
        raise IllegalStatus(f"Operation {operation.handle} is {operation.status}: it has no result to fetch.")
    return result


def _body(result: OperationResult, data: Any, row_format: str, *, last: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"resultType": "EOS" if last else "PAYLOAD", "isQueryResult": result.is_query}
    if result.job_id is not None:
        body["jobID"] = result.job_id
    body["resultKind"] = result.result_kind
    body["results"] = {
        "columns": [column.to_json() for column in result.rows.columns],
        "rowFormat": row_format,
        "data": data,
    }
    return body


def _extras(result: OperationResult) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if result.warnings:
        extras["warnings"] = list(result.warnings)
    if result.run is not None:
        extras["run"] = _run_json(result.run)
    return extras


def _affected(result: OperationResult) -> dict[str, str]:
    """Return a header, since Flink's clients refuse members that they do not know."""
    return {} if result.affected_rows is None else {AFFECTED_ROWS_HEADER: str(result.affected_rows)}


def _run_json(run: RefreshRun) -> dict[str, Any]:
    return {
        "decision": run.decision,
        "reason": run.reason,
        "rows": run.rows,
        "scheduleTime": run.schedule_time.isoformat() if run.schedule_time is not None else None,
        "partitions": run.scope.to_json(),
        "attempt": run.attempt,
        "runId": run.covered_by or run.run_id,
        "snapshot": run.snapshot_id,
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
