"""Errors in the form that Flink's clients expect.

The form is `{"errors": [...]}`, where a block like a Java stack trace ends in `Caused by:`.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from mt_core.base.protocol import (
    ERROR_CODE_HEADER,
    ERRORS_AS_JSON,
    ERRORS_HEADER,
    cause_text,
    error_body,
    error_facts,
    server_errors,
)
from mt_core.base.request_id import request_id
from mt_core.base.secrets import without_passwords
from mt_core.errors import GatewayBusy, MtError, RequestInvalid
from mt_core.gateway.http.answers import JsonAnswer

log = logging.getLogger(__name__)

OWN_FAULT = "freshtable.own_fault"
"""The key under which the scope of a request may have a function that returns the answer to a fault."""

_AS_JSON = (ERRORS_HEADER.lower().encode(), ERRORS_AS_JSON.encode())


class ErrorAnswer(JsonAnswer):
    """A response with the errors for Flink's clients.

    It also contains the error as JSON for clients that send `Freshtable-Errors: json`. *failed* is the id of
    the request that failed, if that is not the present one.
    """

    def __init__(
        self,
        texts: Sequence[str],
        error: MtError,
        status: int,
        headers: dict[str, str] | None = None,
        *,
        failed: str = "",
    ) -> None:
        headers = {ERROR_CODE_HEADER: error.code, **(headers or {})}
        retry_after_s = getattr(error, "retry_after_s", None)
        if status == 503 and retry_after_s is not None:
            headers["Retry-After"] = str(retry_after_s)
        super().__init__(error_body(texts, error_facts(error, failed or request_id())), status, headers)
        self._plain = JsonAnswer(error_body(texts), status, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _AS_JSON in scope["headers"]:
            await super().__call__(scope, receive, send)
        else:
            await self._plain(scope, receive, send)


class HttpError(MtError):
    """An error that the HTTP layer itself raises, with a `code` of its own."""

    internal = True

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def error_answer(
    error: MtError, status: int = 500, *, doing: str = "The request failed.", failed: str = ""
) -> JsonAnswer:
    """Return *error* in Flink's two-element form. Clients show the text after the last `Caused by:`.

    *failed* is the id of the request that failed, if that is not the present one.
    """
    return ErrorAnswer(server_errors(doing, _cause(error, failed)), error, status, failed=failed)


def install(app: FastAPI) -> None:
    """Install handlers that return all errors of *app*'s endpoints in Flink's form."""
    for kind in (MtError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)
    app.add_middleware(ErrorBoundary)


@dataclass(frozen=True, slots=True)
class ErrorBoundary:
    """Answers requests that failed with an error without a handler.

    A handler for Exception would not be enough, because afterwards the server closes the connection. The
    client's next request on that connection would then fail.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except Exception as error:
            # Responses are encoded before their first byte is sent, so nothing has been sent yet.
            log.exception("request failed", extra={"action": "request_failed", "path": scope["path"]})
            own: Callable[[str], Response] | None = scope.get(OWN_FAULT)
            answer = _answer(Request(scope), error) if own is None else own(_fault_text(error))
            await answer(scope, receive, send)


def _answer(request: Request, error: Exception) -> JsonAnswer:
    """Return the response to a request that failed with *error*."""
    match error:
        case RequestInvalid():
            message = without_passwords(str(error))
            text = (
                f"RestHandlerException: Bad request, could not parse parameters: {message}\n{_cause(error)}"
            )
            return ErrorAnswer([text], error, 400)
        case RequestValidationError():
            problems = (
                f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
            )
            return _answer(request, RequestInvalid("; ".join(problems)))
        case GatewayBusy():
            return error_answer(error, error.http_status)
        case MtError():
            return error_answer(error)
        case HTTPException(status_code=404 | 405):
            refusal = HttpError(f"Not found: {request.scope['path']}", "NOT_FOUND")
            return ErrorAnswer([refusal.message], refusal, 404)
        case HTTPException():
            headers = dict(error.headers or {})
            refusal = HttpError(error.detail, headers.get(ERROR_CODE_HEADER, MtError.code))
            return ErrorAnswer([refusal.message], refusal, error.status_code, headers)
        case _:
            return error_answer(MtError(_fault_text(error)).with_traceback(error.__traceback__))


def _fault_text(error: Exception) -> str:
    return f"The gateway failed with an internal error, {type(error).__name__}; its log has the details."


def _cause(error: MtError, failed: str = "") -> str:
    frames = traceback.extract_tb(error.__traceback__)
    origin = (
        f"{frames[-1].name}({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else "mt_core"
    )
    return cause_text(error, origin, failed or request_id())
