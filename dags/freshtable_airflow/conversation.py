"""Conversations with the gateway: requests and the interpretation of their responses, over any transport.

A conversation is a generator that yields requests and receives responses, so that the blocking operator and
the asynchronous trigger share the same code.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from freshtable_airflow.error_response import ErrorResponse
from freshtable_airflow.errors import GatewayRefused, GatewayUnavailable, RefreshFailed, RefreshHopeless
from freshtable_airflow.request import RefreshRequest, RunAddress
from freshtable_airflow.run_status import Outcome, Progress, partitions_line

SESSION_NAME = "airflow"
SESSIONS = "/v3/sessions"
SESSION_LOST = "SESSION_NOT_FOUND"
# The query of the refresh can no longer be analysed: the next refresh also fails unless the query or a source
# changes.
HOPELESS = "QUERY_BROKEN"
NOT_CANCELABLE = frozenset({"ILLEGAL_STATUS", "OPERATION_NOT_FOUND"})
T = TypeVar("T")


@dataclass(frozen=True)
class HttpRequest:
    """A request: method, path, body and headers."""

    method: str
    path: str
    json: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wait:
    """A pause before the next request."""

    seconds: float


Conversation = Generator[HttpRequest | Wait, httpx.Response, T]


def begin_refresh(request: RefreshRequest, init_config: Mapping[str, str]) -> Conversation[RunAddress]:
    """Open a session and request the refresh; raise GatewayUnavailable, GatewayRefused or TableDropped."""
    session = yield from open_session(init_config)
    path = f"{SESSIONS}/{session}/materialized-tables/{quote(request.table, safe='')}/refresh"
    response = yield HttpRequest("POST", path, request.body, request.headers)
    if response.is_error:
        yield HttpRequest("DELETE", f"{SESSIONS}/{session}")
    body = _read(response, f"The refresh of {request.table}")
    return RunAddress(
        table=request.table,
        handle=str(body["operationHandle"]),
        session=session,
        attempt=request.attempt,
        init_config=init_config,
        partitions=partitions_line(body),
    )


def open_session(init_config: Mapping[str, str]) -> Conversation[str]:
    """Open a session with these properties and return its handle."""
    response = yield HttpRequest(
        "POST", SESSIONS, {"sessionName": SESSION_NAME, "properties": dict(init_config)}
    )
    return str(_read(response, "Opening a session")["sessionHandle"])


def close_session(run: RunAddress) -> Conversation[None]:
    """Close the session; if this fails, the gateway closes it after its idle timeout."""
    yield HttpRequest("DELETE", f"{SESSIONS}/{run.session}")


def get_progress(run: RunAddress) -> Conversation[tuple[RunAddress, Progress]]:
    """Return the progress of the run and the run with the session to use next."""
    run, response = yield from _ask_about(run, "GET", "status")
    return run, Progress.of(_read(response, f"The status of the refresh of {run.table}"))


def get_outcome(run: RunAddress) -> Conversation[tuple[RunAddress, Outcome]]:
    """Return the outcome of a completed run; raise RefreshFailed with the reason if the run failed."""
    run, response = yield from _ask_about(run, "GET", "result/0")
    if response.is_error:
        error = ErrorResponse.of(response)
        failure = RefreshHopeless if error.code == HOPELESS else RefreshFailed
        raise failure(f"The refresh of {run.table} failed: {error.text}")
    return run, Outcome.of(response.json())


def cancel(run: RunAddress) -> Conversation[tuple[RunAddress, str]]:
    """Cancel the run; return its status, or why it was not cancelled. A completed run does not change."""
    run, response = yield from _ask_about(run, "POST", "cancel", {})
    if response.headers.get("Freshtable-Error") in NOT_CANCELABLE:
        return run, f"not cancelled: {ErrorResponse.of(response).text}"
    body = _read(response, f"The cancel of the refresh of {run.table}")
    return run, str(body.get("status", "CANCELED"))


def _ask_about(
    run: RunAddress, method: str, path: str, json: Mapping[str, Any] | None = None
) -> Conversation[tuple[RunAddress, httpx.Response]]:
    """Send a request about the run; if its session was lost, repeat the request in a new session.

    A run outlives its session.
    """
    attempt = {"Freshtable-Attempt": str(run.attempt)} if json is not None else {}
    response = yield HttpRequest(
        method, f"{SESSIONS}/{run.session}/operations/{run.handle}/{path}", json, attempt
    )
    if response.is_error and response.headers.get("Freshtable-Error") == SESSION_LOST:
        run = replace(run, session=(yield from open_session(run.init_config)))
        response = yield HttpRequest(
            method, f"{SESSIONS}/{run.session}/operations/{run.handle}/{path}", json, attempt
        )
    return run, response


def _read(response: httpx.Response, what: str) -> dict[str, Any]:
    """Return the body of a response, or raise the error that the response stands for."""
    if response.is_error:
        raise ErrorResponse.of(response).as_error(what)
    try:
        body = response.json()
    except ValueError as cause:
        raise GatewayUnavailable(
            f"{what}: the answer of {response.url.host} is not JSON; is that the URL of a gateway?"
        ) from cause
    if not isinstance(body, dict):
        raise GatewayRefused(f"{what}: the answer of {response.url.host} is not a gateway's.")
    return body
