"""Result pages, fetched by token as in FLIP-91.

A result is fetched page by page: each response except the last contains the URI of the next page. Flink's
clients poll for a result that is not ready. A request for such a page waits for up to `HOLD_S`, so that
clients poll less often. Rows stay encoded on the way from the engine to the socket. A page is Arrow IPC if
the client accepts it; for other clients, it is JSON text that is inserted into the response without parsing
it. The versions of the API differ in parameters, members and headers, as `ApiVersion` declares. Additions to
the response are headers if Flink's clients reject unknown members. A short page that is ready is returned
from the event loop, because a thread switch would cost more than the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response

from mt_core.base.plain_text import plain_rows
from mt_core.base.protocol import AFFECTED_ROWS_HEADER
from mt_core.base.rowset import PageForm, RowKind
from mt_core.errors import Canceled, IllegalStatus, MtError, RequestInvalid
from mt_core.gateway.arrow_answers import PAGE_ROWS, ArrowAnswer, accepts_arrow, stream_of
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.blocking import is_small, long_wait, short
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import OperationHandle, PageToken, SessionHandle
from mt_core.gateway.http.schemas import ROW_FORMATS, described, or_arrow
from mt_core.gateway.http.schemas import result as result_schema
from mt_core.gateway.http.versions import ApiVersion
from mt_core.gateway.services import GatewayServices
from mt_core.gateway.statements import OPERATION_PATH, progress_of
from mt_core.model.run import RefreshRun
from mt_core.sessions.operations.operation import TERMINAL, OperationResult, OperationStatus
from mt_core.sessions.refreshes import AnyOperation

RESULT_PATH = f"{OPERATION_PATH}/result/{{token}}"
# A polling client gets no more than two responses per second without new rows.
HOLD_S = 0.5
MOST_ROWS = 1_000_000
Answer = JsonAnswer | ArrowAnswer
RowFormat = Annotated[str, Query(alias="rowFormat")]
PageSize = Annotated[int | None, Query(alias="pageSize", ge=1, le=MOST_ROWS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The requested form of a page: the row format or Arrow, and the maximum number of rows of a new page."""

    row_format: str = "JSON"
    page_size: int | None = None
    arrow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A request for a page of an operation. `base` is the path of its pages without the token."""

    operation: AnyOperation
    token: int
    form: PageRequest
    base: str
    version: ApiVersion

    def uri(self, token: int) -> str:
        query = [f"rowFormat={self.form.row_format}"] if self.version.row_formats else []
        query += [f"pageSize={self.form.page_size}"] if self.form.page_size is not None else []
        return f"{self.base}/{token}" + (f"?{'&'.join(query)}" if query else "")


def results_router(services: GatewayServices, version: ApiVersion) -> APIRouter:
    """Return the results endpoint.

    If *version* has extras, the endpoint supports Arrow and page sizes, and returns progress, warnings and
    the refresh run.
    """
    router, pages = direct_router(), _Pages(services=services, version=version)
    route = described("A page of a result", result_schema(version))
    if version.extras:

        @router.get(RESULT_PATH, **or_arrow(route))
        async def fetch_result(
            request: Request,
            session: SessionHandle,
            operation: OperationHandle,
            token: PageToken,
            row_format: RowFormat = "JSON",
            page_size: PageSize = None,
        ) -> Response:
            form = PageRequest(
                row_format=_row_format(row_format), page_size=page_size, arrow=accepts_arrow(request)
            )
            return await pages.answer(request, (session, operation), token, form)

    elif version.row_formats:

        @router.get(RESULT_PATH, **route)
        async def fetch_formatted(
            request: Request,
            session: SessionHandle,
            operation: OperationHandle,
            token: PageToken,
            row_format: RowFormat = "JSON",
        ) -> Response:
            form = PageRequest(row_format=_row_format(row_format))
            return await pages.answer(request, (session, operation), token, form)

    else:

        @router.get(RESULT_PATH, **route)
        async def fetch_json_result(
            request: Request, session: SessionHandle, operation: OperationHandle, token: PageToken
        ) -> Response:
            return await pages.answer(request, (session, operation), token, PageRequest())

    return router


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pages:
    """Responds with pages. A request for a page that is not ready waits for up to `HOLD_S`."""

    services: GatewayServices
    version: ApiVersion

    async def answer(
        self, request: Request, handles: tuple[str, str], token: int, form: PageRequest
    ) -> Answer:
        base, operations = request.scope["path"].rpartition("/")[0], self.services.operations
        statement = self.services.sessions.get(handles[0]).operation(handles[1])
        operation = await short(lambda: operations.find(*handles)) if statement is None else statement
        fetch = Fetch(operation=operation, token=token, form=form, base=base, version=self.version)
        if statement is None or not statement.wait_page(token, 0):
            await long_wait(lambda: operation.wait_page(token, HOLD_S))
        if is_small(operation):
            return _answer(fetch)
        return await short(lambda: _answer(fetch))


def _answer(fetch: Fetch) -> Answer:
    operation, arrow = fetch.operation, fetch.form.arrow
    if fetch.token == 0 and operation.status not in TERMINAL:
        if arrow:
            return ArrowAnswer(b"", "NOT_READY", fetch.uri(0))
        body: dict[str, Any] = {"resultType": "NOT_READY", "nextResultUri": fetch.uri(0)}
        return JsonAnswer(body | progress_of(operation, fetch.version.extras))
    try:
        return _arrow_page(fetch) if arrow else _page(fetch)
    except MtError as error:
        doing = f"Failed to fetch the result of operation {operation.handle}."
        return error_answer(error, doing=doing, failed=operation.request_id)


def _arrow_page(fetch: Fetch) -> Answer:
    """Return a page as Arrow, or as JSON if the rows of the query have no Arrow form."""
    result = _result(fetch.operation)
    page = fetch.operation.fetch(fetch.token, fetch.form.page_size or PAGE_ROWS, PageForm.ARROW)
    stream = page.body
    if stream is None and result.is_query:
        return _json_page(fetch, result, _objects(page.rows, page.kinds), last=page.last)
    if stream is None:
        stream = stream_of(result.rows.columns, page.rows)
    if page.last:
        return ArrowAnswer(stream, "EOS", None, _affected(result))
    return ArrowAnswer(stream, "PAYLOAD", fetch.uri(fetch.token + 1), _affected(result))


def _page(fetch: Fetch) -> JsonAnswer:
    result = _result(fetch.operation)
    if fetch.form.row_format == "JSON":
        encoded = fetch.operation.fetch(fetch.token, fetch.form.page_size, PageForm.JSON)
        data = (
            _objects(encoded.rows, encoded.kinds)
            if encoded.body is None
            else orjson.Fragment(bytes(encoded.body))
        )
        return _json_page(fetch, result, data, last=encoded.last)
    page = fetch.operation.fetch(fetch.token, fetch.form.page_size)
    rows = plain_rows(result.rows.columns, page.rows)
    return _json_page(fetch, result, _objects(rows, page.kinds), last=page.last)


def _objects(rows: Sequence[Sequence[Any]], kinds: Sequence[RowKind] | None) -> list[dict[str, Any]]:
    if kinds is None:
        return [{"kind": RowKind.INSERT.name, "fields": fields} for fields in rows]
    return [{"kind": kind.name, "fields": fields} for kind, fields in zip(kinds, rows, strict=True)]


def _json_page(fetch: Fetch, result: OperationResult, data: Any, *, last: bool) -> JsonAnswer:
    """Return a page with the rows in *data*, which are objects or JSON text."""
    body: dict[str, Any] = {"resultType": "EOS" if last else "PAYLOAD", "isQueryResult": result.is_query}
    if result.job_id is not None:
        body["jobID"] = result.job_id
    body["resultKind"] = result.result_kind
    body["results"] = {
        "columns": [column.to_json() for column in result.rows.columns],
        "rowFormat": fetch.form.row_format,
        "data": data,
    }
    if not last:
        body["nextResultUri"] = fetch.uri(fetch.token + 1)
    elif fetch.version.null_uri:
        # Clients of the first version require the member.
        body["nextResultUri"] = None
    if not fetch.version.extras:
        return JsonAnswer(body)
    if result.rows.changelog:
        body["changelog"] = True
    if result.warnings:
        body["warnings"] = list(result.warnings)
    if result.run is not None:
        body["run"] = _run_json(result.run)
    return JsonAnswer(body, headers=_affected(result))


def _result(operation: AnyOperation) -> OperationResult:
    """Return the result of a finished operation.

    Raises the error of the operation, Canceled, or IllegalStatus.
    """
    if operation.error is not None:
        raise operation.error
    if operation.status is OperationStatus.CANCELED:
        raise Canceled(f"Operation {operation.handle} is CANCELED: it has no result to fetch.")
    result = operation.result
    if result is None:
        raise IllegalStatus(f"Operation {operation.handle} is {operation.status}: it has no result to fetch.")
    return result


def _affected(result: OperationResult) -> dict[str, str]:
    """Return the number of affected rows as a header, because Flink's clients reject unknown members."""
    return {} if result.affected_rows is None else {AFFECTED_ROWS_HEADER: str(result.affected_rows)}


def _run_json(run: RefreshRun) -> dict[str, Any]:
    return {
        "decision": run.decision,
        "reason": run.why,
        "rows": run.rows,
        "scheduleTime": run.schedule_time.isoformat() if run.schedule_time is not None else None,
        "partitions": run.scope.to_json(),
        "attempt": run.attempt,
        "runId": run.covered_by or run.run_id,
        "snapshot": run.snapshot_id,
    }


def _row_format(text: str) -> str:
    if text.upper() not in ROW_FORMATS:
        raise RequestInvalid(
            f'Cannot resolve query parameter (rowFormat) from value "{text}"; use JSON or PLAIN_TEXT.'
        )
    return text.upper()
