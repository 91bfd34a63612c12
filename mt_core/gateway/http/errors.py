"""Errors as Flink's clients read them: `{"errors": [...]}`, with a Java-like block that ends in a `Caused by:`."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from mt_core.errors import GatewayBusy, MtError, RequestInvalid
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.secrets import without_passwords

log = logging.getLogger(__name__)

CODE_HEADER = "Freshtable-Error"
# A client that sends this header reads the error itself. Flink's clients, of whatever version, read an answer with a
# field that they do not know as no error at all.
WANTED_HEADER = "Freshtable-Errors"
_WANTED = (WANTED_HEADER.lower().encode(), b"json")


class ErrorAnswer(JsonAnswer):
    """The errors of Flink's clients, and beside them, for who asks by `Freshtable-Errors: json`, the error itself."""

    def __init__(self, errors: list[str], error: MtError, status: int, headers: dict[str, str]) -> None:
        facts = {name: without_passwords(fact) if isinstance(fact, str) else fact for name, fact in error.facts.items()}
        ours = {"code": error.code, "message": _shown(error), "facts": facts}
        headers = {CODE_HEADER: error.code, **headers}
        super().__init__({"errors": errors, "error": ours}, status, headers)
        self._plain = JsonAnswer({"errors": errors}, status, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _WANTED in scope["headers"]:
            await super().__call__(scope, receive, send)
        else:
            await self._plain(scope, receive, send)


class HttpError(MtError):
    """What only the HTTP layer refuses; `code` is the error's own."""

    internal = True

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def error_answer(error: MtError, status: int = 500, *, doing: str = "The request failed.") -> JsonAnswer:
    """Return *error* in the two-element form; clients show what follows the last `Caused by:`."""
    block = (
        f"<Exception on server side:\nSqlGatewayException: {doing}\n{_cause(error)}\n\nEnd of exception on server side>"
    )
    return ErrorAnswer(["Internal server error.", block], error, status, _headers(error, status))


def bad_request(error: MtError) -> JsonAnswer:
    """Return *error* in the one-element form, with 400."""
    text = f"RestHandlerException: Bad request, could not parse parameters: {_shown(error)}\n{_cause(error)}"
    return ErrorAnswer([text], error, 400, _headers(error, 400))


def install(app: FastAPI) -> None:
    """Let every error that leaves an endpoint of *app* be answered in Flink's shape."""
    app.add_exception_handler(MtError, _answer_mt_error)
    app.add_exception_handler(RequestValidationError, _answer_validation_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_middleware(ErrorBoundary)


class ErrorBoundary:
    """Answers what no handler knows. A handler for Exception would not do: the server closes the connection after it,
    and the client's next request on that connection fails."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            # Answers are encoded before their first byte is sent, so nothing has been sent yet.
            log.exception("request failed", extra={"action": "request_failed", "path": scope["path"]})
            await error_answer(_as_mt_error(error))(scope, receive, send)


def _answer_mt_error(request: Request, error: Exception) -> JsonAnswer:
    if isinstance(error, RequestInvalid):
        return bad_request(error)
    if isinstance(error, GatewayBusy):
        return error_answer(error, error.http_status)
    return error_answer(_as_mt_error(error))


def _answer_validation_error(request: Request, error: Exception) -> JsonAnswer:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    text = "; ".join(f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in problems)
    return bad_request(RequestInvalid(text))


def _answer_http_error(request: Request, error: Exception) -> JsonAnswer:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status in {404, 405}:
        missing = HttpError(f"Not found: {request.scope['path']}", "NOT_FOUND")
        return ErrorAnswer([missing.message], missing, 404, {})
    detail = str(error.detail) if isinstance(error, HTTPException) else str(error)
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return ErrorAnswer([detail], HttpError(detail, headers.get(CODE_HEADER, MtError.code)), status, headers)


def _as_mt_error(error: Exception) -> MtError:
    if isinstance(error, MtError):
        return error
    wrapped = MtError(f"The gateway met an error of its own, {type(error).__name__}; its log has the details.")
    return wrapped.with_traceback(error.__traceback__)


def _cause(error: MtError) -> str:
    return f"Caused by: {type(error).__name__}: {_shown(error)}\n\tat {_origin(error)}"


def _shown(error: MtError) -> str:
    return without_passwords(str(error))


def _headers(error: MtError, status: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    retry_after_s = getattr(error, "retry_after_s", None)
    if status == 503 and retry_after_s is not None:
        headers["Retry-After"] = str(retry_after_s)
    return headers


def _origin(error: MtError) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "mt_core"
    return f"{frames[-1].name}({Path(frames[-1].filename).name}:{frames[-1].lineno})"
