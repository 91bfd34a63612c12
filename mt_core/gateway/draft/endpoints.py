"""The draft of FLIP-91 on /v1: sessions, statements with their results, and jobs, beside what released clients call.

The endpoints that open sessions and begin statements accept and answer the fields of both (docs/decisions/0010).
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from mt_core.errors import IllegalStatus, MtError, OperationNotFound, RequestInvalid, Unsupported
from mt_core.gateway.draft.results import PAGE_ROWS, Draft, affected, all_rows, job_page, job_row, shown
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.blocking import long_wait, short, wait_while_connected
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import Body, JsonBody, SessionHandle
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
from mt_core.sessions.operations.jobs import Job, JobStatus
from mt_core.sessions.operations.operation import Operation, OperationStatus
from mt_core.sessions.ports import NameDirectory
from mt_core.sessions.properties.property_values import RUNTIME_MODE_KEY, refuse_streaming
from mt_core.sessions.session import Session
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import SELECT

Rows = list[list[Any]]
PLANNERS, EXECUTION_TYPES = ("old", "blink"), ("batch", "streaming")
JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
# How long the answer to a released client waits for the result of a statement that needs no job.
INLINE_WAIT_S = 1.0
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
    """Return the endpoints of the draft, and those by which released clients of v1 open sessions and begin statements."""
    router = direct_router()
    draft = DraftSessions(services)
    _add_beginnings(router, draft)
    _add_jobs(router, draft)
    return router


class DraftSessions:
    """Opens sessions for clients of the draft and for released ones, and remembers which are which."""

    def __init__(self, services: GatewayServices) -> None:
        self.services = services
        # Weak, so that a closed session is not kept.
        self._drafted: weakref.WeakSet[Session] = weakref.WeakSet()

    def open(self, body: Body) -> Session:
        """Open a session; raises RequestInvalid, Unsupported for a planner or execution type that does not exist."""
        body.choice("planner", PLANNERS)
        mode = body.choice("execution_type", EXECUTION_TYPES)
        refuse_streaming("execution_type streaming", mode or "")
        properties = body.texts("properties") | ({RUNTIME_MODE_KEY: mode} if mode else {})
        name = body.text("sessionName") or body.text("session_name")
        session = self.services.sessions.open(name, properties)
        if body.has("session_name", "planner", "execution_type"):
            self._drafted.add(session)
        return session

    def is_drafted(self, session: Session) -> bool:
        """Whether a client of the draft opened it: such a client expects results and errors at once."""
        return session in self._drafted

    def begin(self, handle: str, body: Body, caller: str) -> tuple[Session, Operation]:
        session = self.services.sessions.get(handle)
        return session, self._submit(session, body, caller)

    def operation_of(self, handle: str, job_id: str) -> Operation | None:
        """Return the session's open statement with that job; None for a refresh, and where the operation was closed."""
        return self.services.sessions.get(handle).operation_of_job(job_id)

    def job(self, job_id: str) -> Job:
        """Return any job that SHOW JOBS and DESCRIBE JOB know; raises OperationNotFound."""
        return self.services.executor.jobs.job(job_id)

    def status_of(self, handle: str, job_id: str) -> str:
        operation = self.operation_of(handle, job_id)
        if operation is None:
            return self.job(job_id).status
        return "RUNNING" if operation.querying else JOB_STATUS[operation.status]

    def cancel(self, handle: str, job_id: str) -> None:
        """End a job; raises IllegalStatus for one that has ended."""
        operation = self.operation_of(handle, job_id)
        if operation is None:
            self.services.executor.jobs.stop(job_id)
        else:
            operation.cancel()

    def names(self, session: Session) -> NameDirectory:
        return self.services.executor.names(session)

    def begin_alone(self, body: Body, caller: str) -> tuple[Session, Operation]:
        """Begin one statement in a session of its own, which is to be closed; raises Unsupported for one that needs more."""
        statement = ReadStatement(body.statement())
        if Trait.ALONE not in statement.traits:
            raise Unsupported(
                f"{statement.type or 'No statement'} cannot run without a session; open one with POST /v1/sessions."
            )
        session = self.open(body)
        try:
            return session, self._submit(session, body, caller)
        except MtError:
            self.close(session)
            raise

    def close(self, session: Session) -> None:
        self.services.sessions.close(session.handle)

    def finished(self, session: Session, operation: Operation, rows: Rows | None = None) -> dict[str, Any]:
        """Return types and results of a statement that has ended; raises its error. Without *rows* it reads them all."""
        kind = operation.statement.type
        if operation.error is not None:
            raise operation.error
        result = operation.result
        if result is None:
            raise Unsupported(f"Operation {operation.handle} is {operation.status}: it has no result.")
        draft = (
            job_page(result, [])
            if Trait.CHANGE in operation.statement.traits
            else shown(result, kind, all_rows(result) if rows is None else rows)
        )
        if kind == "SHOW_TABLES":
            draft = draft.with_types(self.names(session).views(()))
        return {"statement_types": [kind], "results": [draft.to_json()]}

    def _submit(self, session: Session, body: Body, caller: str) -> Operation:
        return self.services.executor.submit(
            session,
            body.statement(),
            body.texts("executionConfig"),
            timeout_ms=body.milliseconds("executionTimeout") or body.milliseconds("execution_timeout"),
            caller=caller,
        )


def _add_beginnings(router: APIRouter, draft: DraftSessions) -> None:
    @router.post("/sessions", **described("Open a session", DRAFT_SESSION_OPENED, body=DRAFT_OPEN_SESSION))
    async def open_session(body: JsonBody) -> JsonAnswer:
        handle = draft.open(body).handle
        return JsonAnswer({"sessionHandle": handle, "session_id": handle})

    @router.post(
        "/sessions/{session_handle}/statements", **described("Begin a statement", DRAFT_BEGUN, body=DRAFT_STATEMENT)
    )
    async def execute_statement(request: Request, session: SessionHandle, body: JsonBody, caller: Caller) -> JsonAnswer:
        target, operation = await short(lambda: draft.begin(session, body, caller))
        drafted = draft.is_drafted(target)
        answer = {"operationHandle": operation.handle, "statement_types": [operation.statement.type]}
        if Trait.JOB in operation.statement.traits:
            return JsonAnswer(answer | {"results": [job_row(operation.planned_job_id).to_json()]})
        if drafted:
            ended = await wait_while_connected(operation.wait, request)
        else:
            ended = operation.wait(0) or await long_wait(lambda: operation.wait(INLINE_WAIT_S))
        # A released client reads an error where it fetches the result.
        if not ended or (operation.result is None and not drafted):
            return JsonAnswer(answer)
        return await short(lambda: JsonAnswer(answer | draft.finished(target, operation)))

    @router.post("/statements", **described("Run a statement without a session", DRAFT_DONE, body=DRAFT_STATEMENT))
    async def execute_alone(request: Request, body: JsonBody, caller: Caller) -> JsonAnswer:
        session, operation = await short(lambda: draft.begin_alone(body, caller))
        try:
            # A client that has disconnected needs no result: the statement ends with its session.
            rows = await _rows_of(operation, request) if await wait_while_connected(operation.wait, request) else None
            if rows is None:
                return JsonAnswer({})
            return await short(lambda: JsonAnswer(draft.finished(session, operation, rows)))
        finally:
            await short(lambda: draft.close(session))


async def _rows_of(operation: Operation, request: Request) -> Rows | None:
    """Return all rows of a statement, None if its client disconnects; raises Unsupported for more than a page of them."""
    rows: Rows = []
    if operation.error is not None or operation.result is None:
        return rows
    for token in itertools.count():
        if not await wait_while_connected(functools.partial(operation.wait_page, token), request):
            break
        page = await short(functools.partial(operation.fetch, token, PAGE_ROWS + 1 - len(rows)))
        rows += page.rows
        if len(rows) > PAGE_ROWS:
            raise Unsupported(
                f"The result has more than {PAGE_ROWS} rows; open a session with POST /v1/sessions and fetch them."
            )
        if page.last:
            return rows
    return None


def _add_jobs(router: APIRouter, draft: DraftSessions) -> None:
    @router.get(f"{JOB_PATH}/result/{{token}}", **described("A page of a job's result", DRAFT_PAGE))
    async def fetch_job(request: Request, session: SessionHandle, job_id: JobId, token: str) -> JsonAnswer:
        number = _token(token)
        operation = await short(lambda: draft.operation_of(session, job_id))
        base = request.scope["path"].rpartition("/")[0]
        if operation is None:
            return await short(lambda: JsonAnswer(_fetch_without_operation(draft.job(job_id), number, base)))
        if not operation.wait_page(number, 0):
            await long_wait(lambda: operation.wait_page(number, HOLD_S))
        if not operation.wait(0):
            return JsonAnswer(_not_yet(number, base))
        return await short(lambda: _answered(lambda: _fetch(operation, number, base), operation))

    @router.get(f"{JOB_PATH}/status", **described("Status of a job", DRAFT_JOB_STATUS))
    def get_job_status(session: SessionHandle, job_id: JobId) -> JsonAnswer:
        return JsonAnswer({"status": draft.status_of(session, job_id)})

    @router.delete(JOB_PATH, **described("Cancel a job", OPERATION_CANCELED))
    def cancel_job(session: SessionHandle, job_id: JobId) -> JsonAnswer:
        draft.cancel(session, job_id)
        return JsonAnswer({"status": "CANCELED"})


def _not_yet(token: int, base: str) -> dict[str, Any]:
    nothing = Draft(columns=[], rows=[], change_flags=[])
    return {"results": [nothing.to_json()], "next_result_uri": f"{base}/{token}"}


def _fetch_without_operation(job: Job, token: int, base: str) -> dict[str, Any]:
    """Return page *token* of a refresh, or of a change whose operation was closed; raises OperationNotFound for a query."""
    if job.is_query:
        raise OperationNotFound(
            f"The operation of job {job.job_id} was closed, and its rows went with it; run it again.",
            job=job.job_id,
        )
    if job.status in {JobStatus.RUNNING, JobStatus.RESTARTING}:
        return _not_yet(token, base)
    if job.status is not JobStatus.FINISHED:
        raise IllegalStatus(f"Job {job.job_id} is {job.status}: it has no result.")
    page = affected(job.affected_rows, first=token == 0)
    return {"results": [page.flagged().to_json()], "next_result_uri": f"{base}/1" if token == 0 else ""}


def _fetch(operation: Operation, token: int, base: str) -> dict[str, Any]:
    """Return page *token* of a job that has ended; raises its error, RequestInvalid for a token out of turn."""
    if operation.error is not None:
        raise operation.error
    page, result = operation.fetch(token), operation.result
    if result is None:
        raise Unsupported(f"Job {operation.planned_job_id} is {operation.status}: it has no result.")
    changes = operation.statement.type != SELECT
    draft = job_page(result, page.rows) if changes else Draft.of(result.rows.columns, page.rows)
    return {
        "results": [draft.flagged().to_json()],
        "next_result_uri": "" if page.last else f"{base}/{token + 1}",
    }


def _answered(step: Callable[[], dict[str, Any]], operation: Operation) -> JsonAnswer:
    try:
        return JsonAnswer(step())
    except MtError as error:
        return error_answer(error, doing=f"Failed to fetch the result of job {operation.planned_job_id}.")


def _token(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise RequestInvalid(f'Cannot resolve path parameter (token) from value "{text}".')
    return int(text)
