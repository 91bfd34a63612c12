"""The draft of FLIP-91 on /v1: sessions, statements with their results, and jobs.

Clients of the draft and released clients of v1 use the same paths to open sessions and submit statements, but
they expect different responses. The draft expects results and errors in the response to the statement, and
jobs instead of operations. The endpoints therefore accept the fields of both and return both
(docs/design/statements-and-sessions.md).

A session opened with a field of the draft is *drafted*: the response to a statement without a job waits until
the statement has ended, and contains its error. For a released client, the response waits for up to
`INLINE_WAIT_S`, and the client gets an error when it fetches the result. A statement without a session runs
in a temporary session, which is closed with the response. Its result must therefore fit in one page.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from mt_core.base.rowset import RowKind
from mt_core.errors import IllegalStatus, MtError, OperationNotFound, Unsupported
from mt_core.gateway.draft.results import PAGE_ROWS, VARCHAR, Draft, affected, shown
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.blocking import long_wait, short, wait_while_connected
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import Body, JsonBody, PageToken, SessionHandle
from mt_core.gateway.http.schemas import (
    DRAFT_BEGUN,
    DRAFT_DONE,
    DRAFT_JOB_STATUS,
    DRAFT_OPEN_SESSION,
    DRAFT_PAGE,
    DRAFT_SESSION_OPENED,
    DRAFT_STATEMENT,
    OPERATION_CANCELED,
    described,
)
from mt_core.gateway.http.security import Caller
from mt_core.gateway.results import HOLD_S
from mt_core.gateway.services import GatewayServices
from mt_core.model.job import OPEN, QUERIES, Job, JobStatus
from mt_core.sessions.catalog.names import Named
from mt_core.sessions.operations.operation import Operation, OperationStatus
from mt_core.sessions.operations.result_pages import Page
from mt_core.sessions.ports import ResultRows
from mt_core.sessions.properties.property_values import RUNTIME_MODE_KEY
from mt_core.sessions.session import Session
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import SELECT

Rows = list[list[Any]]
Wait = Callable[[float], bool]
PLANNERS, EXECUTION_TYPES = ("old", "blink"), ("batch", "streaming")
# A client that opens a session with one of these fields expects results and errors in the response to a
# statement.
DRAFT_FIELDS = {"session_name", "planner", "execution_type"}
JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
# How long a response to a released client waits for the result of a statement without a job.
INLINE_WAIT_S = 1.0
# How long a response waits for the first rows of an unbounded result.
FIRST_ROWS_S = 10.0
JOB_PATH = "/sessions/{session_handle}/jobs/{job_id}"
JOB_STATUS = {
    OperationStatus.INITIALIZED: "CREATED",
    OperationStatus.PENDING: "CREATED",
    OperationStatus.RUNNING: "RUNNING",
    OperationStatus.FINISHED: "FINISHED",
    OperationStatus.ERROR: "FAILED",
    OperationStatus.TIMEOUT: "CANCELED",
    OperationStatus.CANCELED: "CANCELED",
    OperationStatus.CLOSED: "CANCELED",
}


def draft_router(services: GatewayServices) -> APIRouter:
    """Return the draft's endpoints, including those for sessions and statements.

    Released clients use the latter too.
    """
    router = direct_router()
    _add_beginnings(router, services)
    _add_jobs(router, services)
    return router


# ------------------------------------------------------------------------------------ sessions and statements


def _add_beginnings(router: APIRouter, services: GatewayServices) -> None:
    # The references are weak, so that closed sessions are freed.
    drafted: weakref.WeakSet[Session] = weakref.WeakSet()

    @router.post("/sessions", **described("Open a session", DRAFT_SESSION_OPENED, body=DRAFT_OPEN_SESSION))
    async def open_session(body: JsonBody, caller: Caller) -> JsonAnswer:
        session = await short(lambda: _open(services, body, caller))
        if body.fields.keys() & DRAFT_FIELDS:
            drafted.add(session)
        return JsonAnswer({"sessionHandle": session.handle, "session_id": session.handle})

    @router.post(
        "/sessions/{session_handle}/statements",
        **described("Begin a statement", DRAFT_BEGUN, body=DRAFT_STATEMENT),
    )
    async def execute_statement(
        request: Request, session: SessionHandle, body: JsonBody, caller: Caller
    ) -> JsonAnswer:
        target = services.sessions.get(session)
        operation = await short(lambda: _submit(services, target, body, caller, at_once=target in drafted))
        answer = {"operationHandle": operation.handle, "statement_types": [operation.statement.type]}
        if Trait.JOB in operation.statement.traits:
            job = Draft(columns=[("job_id", VARCHAR)], rows=[[operation.planned_job_id]])
            return JsonAnswer(answer | {"results": [job.to_json()]})
        if target in drafted:
            ended = await wait_while_connected(_in_use(services, target, operation.wait), request)
        else:
            ended = operation.wait(0) or await long_wait(lambda: operation.wait(INLINE_WAIT_S))
        # A released client gets the error when it fetches the result.
        if not ended or (operation.result is None and target not in drafted):
            return JsonAnswer(answer)
        return await short(lambda: JsonAnswer(answer | _finished(services, target, operation)))

    @router.post(
        "/statements", **described("Run a statement without a session", DRAFT_DONE, body=DRAFT_STATEMENT)
    )
    async def execute_alone(request: Request, body: JsonBody, caller: Caller) -> JsonAnswer:
        session, operation = await short(lambda: _begin_alone(services, body, caller))
        try:
            page = await _rows_of(operation, partial(_in_use, services, session), request)
            # If the client has disconnected, the statement ends with its session.
            answer = (
                {} if page is None else await short(lambda: _finished(services, session, operation, page))
            )
            return JsonAnswer(answer)
        finally:
            await short(lambda: services.sessions.close(session.handle))


def _open(services: GatewayServices, body: Body, caller: str) -> Session:
    """Open a session. Raises RequestInvalid for an unknown planner or execution type."""
    body.choice("planner", PLANNERS)
    mode = body.choice("execution_type", EXECUTION_TYPES)
    properties = body.texts("properties") | ({RUNTIME_MODE_KEY: mode} if mode else {})
    services.hooks.check(properties)
    return services.sessions.open(
        body.text("sessionName") or body.text("session_name"), properties, owner=caller
    )


def _submit(
    services: GatewayServices, session: Session, body: Body, caller: str, *, at_once: bool
) -> Operation:
    """Submit a statement.

    With *at_once*, a SqlSyntaxError is raised here and not when the result is fetched.
    """
    operation = services.executor.submit(
        session,
        body.statement(),
        body.texts("executionConfig"),
        timeout_ms=body.milliseconds("executionTimeout") or body.milliseconds("execution_timeout"),
        caller=caller,
    )
    if at_once:
        _check_single(session, operation)
    return operation


def _check_single(session: Session, operation: Operation) -> None:
    """Close the operation and raise SqlSyntaxError unless its text is a single statement."""
    try:
        _ = operation.statement.written
    except MtError:
        session.close_operation(operation.handle)
        raise


def _begin_alone(services: GatewayServices, body: Body, caller: str) -> tuple[Session, Operation]:
    """Submit one statement in a new session, which the caller must close.

    Raises Unsupported for a statement that needs a lasting session.
    """
    statement = ReadStatement(body.statement())
    if Trait.ALONE not in statement.traits:
        raise Unsupported(
            f"{statement.type or 'No statement'} cannot run without a session; "
            "open one with POST /v1/sessions."
        )
    session = _open(services, body, caller)
    try:
        return session, _submit(services, session, body, caller, at_once=True)
    except MtError:
        services.sessions.close(session.handle)
        raise


def _in_use(services: GatewayServices, session: Session, wait: Wait) -> Wait:
    """Return *wait*, extended to restart the idle timeout of *session*, because its client is waiting."""

    def waiting(timeout_s: float) -> bool:
        services.sessions.use(session)
        return wait(timeout_s)

    return waiting


async def _rows_of(operation: Operation, in_use: Callable[[Wait], Wait], request: Request) -> Page | None:
    """Return all rows of a statement, or only the first rows of an unbounded result.

    Return None if the client disconnects. *in_use* makes a wait restart the session's idle timeout. Raises
    Unsupported if there is more than one page of rows.
    """
    rows: Rows = []
    kinds: list[RowKind] = []
    if not await wait_while_connected(in_use(operation.wait), request):
        return None
    if operation.error is not None or operation.result is None:
        return Page(rows=rows, last=True)
    if operation.result.rows.endless:
        await long_wait(lambda: operation.wait_page(0, FIRST_ROWS_S))
        return await short(lambda: operation.fetch(0, PAGE_ROWS))
    for token in itertools.count():
        if not await wait_while_connected(in_use(partial(operation.wait_page, token)), request):
            break
        page = await short(partial(operation.fetch, token, PAGE_ROWS + 1 - len(rows)))
        rows += page.rows
        kinds += page.kinds or ()
        if len(rows) > PAGE_ROWS:
            raise Unsupported(
                f"The result has more than {PAGE_ROWS} rows; "
                "open a session with POST /v1/sessions and fetch them."
            )
        if page.last:
            return Page(rows=rows, last=True, kinds=kinds or None)
    return None


def _finished(
    services: GatewayServices, session: Session, operation: Operation, page: Page | None = None
) -> dict[str, Any]:
    """Return the types and results of an ended statement. Raises the error of the statement.

    The result contains the rows of *page*, or all rows if *page* is None.
    """
    kind, result = operation.statement.type, operation.result
    if operation.error is not None:
        raise operation.error
    if result is None:
        raise Unsupported(f"Operation {operation.handle} is {operation.status}: it has no result.")
    if Trait.CHANGE in operation.statement.traits:
        draft = affected(result.affected_rows, first=True)
    else:
        views = services.names(session).within(Named.VIEWS) if kind == "SHOW_TABLES" else ()
        draft = shown(result, kind, _all_rows(result.rows) if page is None else page, views)
    return {"statement_types": [kind], "results": [draft.to_json(flagged=draft.kinds is not None)]}


def _all_rows(rows: ResultRows) -> Page:
    whole: Rows = []
    while more := rows.page(len(whole), PAGE_ROWS):
        whole += more
    return Page(rows=whole, last=True)


# ------------------------------------------------------------------------------------------------------- jobs


def _add_jobs(router: APIRouter, services: GatewayServices) -> None:
    @router.get(f"{JOB_PATH}/result/{{token}}", **described("A page of a job's result", DRAFT_PAGE))
    async def fetch_job(
        request: Request, session: SessionHandle, job_id: JobId, token: PageToken
    ) -> JsonAnswer:
        base = request.scope["path"].rpartition("/")[0]
        operation = services.sessions.get(session).operation_of_job(job_id)
        if operation is not None:
            return await _page_of(operation, token, base)
        # This is the job of a refresh, or of a statement whose operation was closed.
        jobs = services.jobs
        return await short(lambda: JsonAnswer(_page_without_operation(jobs.job(job_id), token, base)))

    @router.get(f"{JOB_PATH}/status", **described("Status of a job", DRAFT_JOB_STATUS))
    def get_job_status(session: SessionHandle, job_id: JobId) -> JsonAnswer:
        operation = services.sessions.get(session).operation_of_job(job_id)
        if operation is not None and _stands_for_job(operation):
            return JsonAnswer({"status": "RUNNING" if operation.querying else JOB_STATUS[operation.status]})
        try:
            return JsonAnswer({"status": services.jobs.job(job_id).status})
        except OperationNotFound:
            if operation is None:
                raise
            # Only recent query jobs are listed.
            return JsonAnswer({"status": JOB_STATUS[operation.status]})

    @router.delete(JOB_PATH, **described("Cancel a job", OPERATION_CANCELED))
    async def cancel_job(
        request: Request, session: SessionHandle, job_id: JobId, caller: Caller
    ) -> JsonAnswer:
        target = services.sessions.get(session)
        operation = target.operation_of_job(job_id)
        if operation is not None and _stands_for_job(operation):
            await short(operation.cancel)
        else:
            await _stop(request, services, target, job_id, caller)
        return JsonAnswer({"status": "CANCELED"})


def _stands_for_job(operation: Operation) -> bool:
    """Return whether the status of an operation is also the status of its job.

    It is not for a streaming job, which starts only when its operation is FINISHED.
    """
    return operation.status is not OperationStatus.FINISHED or operation.querying


async def _stop(
    request: Request, services: GatewayServices, session: Session, job_id: str, caller: str
) -> None:
    """Run STOP JOB for a job without an operation, and wait until it ends. Raises the errors of STOP JOB."""
    statement = f"STOP JOB '{job_id}'"
    operation = await short(lambda: services.executor.submit(session, statement, caller=caller))
    try:
        await wait_while_connected(_in_use(services, session, operation.wait), request)
        if operation.error is not None:
            raise operation.error
    finally:
        session.close_operation(operation.handle)


def _not_yet(token: int, base: str) -> dict[str, Any]:
    nothing = Draft(columns=[], rows=[])
    return {"results": [nothing.to_json(flagged=True)], "next_result_uri": f"{base}/{token}"}


def _page_without_operation(job: Job, token: int, base: str) -> dict[str, Any]:
    """Return page *token* of a refresh, or of a change whose operation was closed.

    Raises OperationNotFound for a query.
    """
    if job.kind in QUERIES:
        raise OperationNotFound(
            f"The operation of job {job.job_id} was closed, and its rows went with it; run it again.",
            job=job.job_id,
        )
    if job.status in OPEN:
        return _not_yet(token, base)
    if job.status is not JobStatus.FINISHED:
        raise IllegalStatus(f"Job {job.job_id} is {job.status}: it has no result.")
    page = affected(job.rows_written, first=token == 0)
    return {"results": [page.to_json(flagged=True)], "next_result_uri": f"{base}/1" if token == 0 else ""}


async def _page_of(operation: Operation, token: int, base: str) -> JsonAnswer:
    """Return page *token* of a job, after waiting for a limited time if it is not ready."""
    if not operation.wait_page(token, 0):
        await long_wait(lambda: operation.wait_page(token, HOLD_S))
    if not operation.wait(0):
        return JsonAnswer(_not_yet(token, base))
    return await short(lambda: _fetch(operation, token, base))


def _fetch(operation: Operation, token: int, base: str) -> JsonAnswer:
    """Return page *token* of an ended job, or the error of the job or of the page."""
    try:
        if operation.error is not None:
            raise operation.error
        page, result = operation.fetch(token), operation.result
        if result is None:
            raise Unsupported(f"Job {operation.planned_job_id} is {operation.status}: it has no result.")
    except MtError as error:
        doing = f"Failed to fetch the result of job {operation.planned_job_id}."
        return error_answer(error, doing=doing, failed=operation.request_id)
    if operation.statement.type == SELECT:
        draft = Draft.of(result.rows.columns, page.rows, page.kinds)
    else:
        draft = affected(result.affected_rows, first=bool(page.rows) or result.job_id is None)
    following = "" if page.last else f"{base}/{token + 1}"
    return JsonAnswer({"results": [draft.to_json(flagged=True)], "next_result_uri": following})
