"""Conversations with the gateway: what is asked and how an answer is read, whoever carries it.

A conversation is a generator that yields requests and is sent responses, so that the operator (which waits) and the trigger
(which must not) hold the very same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from freshtable_airflow.errors import GatewayRefused, GatewayUnavailable, RefreshFailed, RefreshHopeless
from freshtable_airflow.outcome import Outcome, Progress, partitions_line
from freshtable_airflow.refusal import read_refusal
from freshtable_airflow.request import RefreshRequest, RunAddress

SESSION_NAME = "airflow"
SESSIONS = "/v3/sessions"
SESSION_LOST = "SESSION_NOT_FOUND"
# A refresh whose query cannot be understood any more: the next one fails in the same way until somebody changes something.
HOPELESS = "QUERY_BROKEN"
NOT_CANCELABLE = frozenset({"ILLEGAL_STATUS", "OPERATION_NOT_FOUND"})
T = TypeVar("T")


@dataclass(frozen=True)
class Ask:
    """A request: method, path, and what goes with it."""

    method: str
    path: str
    json: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wait:
    """A pause before the next request."""

    seconds: float


Conversation = Generator[Ask | Wait, httpx.Response, T]


def begin_refresh(request: RefreshRequest, init_config: Mapping[str, str]) -> Conversation[RunAddress]:
    """Open a session and ask for the refresh; raises GatewayUnavailable, GatewayRefused or TableDropped."""
    session = yield from open_session(init_config)
    path = f"{SESSIONS}/{session}/materialized-tables/{quote(request.table, safe='')}/refresh"
    response = yield Ask("POST", path, request.body, request.headers)
    if response.is_error:
        yield Ask("DELETE", f"{SESSIONS}/{session}")
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
    """Return the handle of a new session with these properties."""
    response = yield Ask("POST", SESSIONS, {"sessionName": SESSION_NAME, "properties": dict(init_config)})
    return str(_read(response, "Opening a session")["sessionHandle"])


def close_session(run: RunAddress) -> Conversation[None]:
    """Let the gateway forget the session; its own idle time-out does if this goes wrong."""
    yield Ask("DELETE", f"{SESSIONS}/{run.session}")


def look_at(run: RunAddress) -> Conversation[tuple[RunAddress, Progress]]:
    """Return how far the run is, and where to ask next."""
    run, response = yield from _in_session(run, lambda now: Ask("GET", f"{_operation(now)}/status"))
    return run, Progress.of(_read(response, f"The status of the refresh of {run.table}"))


def ask_outcome(run: RunAddress) -> Conversation[tuple[RunAddress, Outcome]]:
    """Return what a run that is over came to; raises RefreshFailed with the gateway's reason when it failed."""
    run, response = yield from _in_session(run, lambda now: Ask("GET", f"{_operation(now)}/result/0"))
    if response.is_error:
        refusal = read_refusal(response)
        failed = RefreshHopeless if refusal.code == HOPELESS else RefreshFailed
        raise failed(f"The refresh of {run.table} failed: {refusal}")
    return run, Outcome.of(response.json())


def cancel(run: RunAddress) -> Conversation[tuple[RunAddress, str]]:
    """Cancel the run and return what became of it, in words; one that is over already is left alone."""
    attempt = {"Freshtable-Attempt": str(run.attempt)}
    run, response = yield from _in_session(run, lambda now: Ask("POST", f"{_operation(now)}/cancel", {}, attempt))
    if response.headers.get("Freshtable-Error") in NOT_CANCELABLE:
        return run, f"not cancelled: {read_refusal(response)}"
    body = _read(response, f"The cancel of the refresh of {run.table}")
    return run, str(body.get("status", "CANCELED"))


def _operation(run: RunAddress) -> str:
    return f"{SESSIONS}/{run.session}/operations/{run.handle}"


def _in_session(run: RunAddress, ask: Callable[[RunAddress], Ask]) -> Conversation[tuple[RunAddress, httpx.Response]]:
    """Ask, and once more in a new session when the gateway no longer knows this one: a run outlives its session."""
    response = yield ask(run)
    if response.is_error and response.headers.get("Freshtable-Error") == SESSION_LOST:
        session = yield from open_session(run.init_config)
        run = replace(run, session=session)
        response = yield ask(run)
    return run, response


def _read(response: httpx.Response, what: str) -> dict[str, Any]:
    """Return the body of a good answer; raises what a bad one means."""
    if response.is_error:
        raise read_refusal(response).as_error(what)
    try:
        body = response.json()
    except ValueError as cause:
        raise GatewayUnavailable(
            f"{what}: the answer of {response.url.host} is no JSON; is that the URL of a gateway?"
        ) from cause
    if not isinstance(body, dict):
        raise GatewayRefused(f"{what}: the answer of {response.url.host} is no gateway's.")
    return body
