"""The ticker: delivers one tick to the gateway by HTTP and says what became of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import httpx

from mt_core.errors import SessionNotFound
from mt_core.model.formatter import exact_schedule_time
from mt_core.workflow.definitions import WorkflowDefinition
from scheduler_plugins.memory.outbox import Tick

SESSION_NAME = "freshtable-memory-scheduler"
TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
_GONE = 410


class Outcome(StrEnum):
    """What became of a tick."""

    ACCEPTED = "ACCEPTED"
    GONE = "GONE"
    REFUSED = "REFUSED"
    UNAVAILABLE = "UNAVAILABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The gateway's answer; `retry_after_s` is 0 unless the gateway asked for a pause."""

    outcome: Outcome
    detail: str = ""
    retry_after_s: float = 0.0


class _Session:
    """A session of the gateway, opened when it is first needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.handle: str | None = None


class Ticker:
    """Sends ticks over connections that stay open; safe from any thread, one session per distinct `init_config`."""

    def __init__(self, *, gateway_url: str, token: str, max_in_flight: int) -> None:
        self._url = gateway_url.rstrip("/") + "/v3/sessions"
        self._sessions: dict[tuple[tuple[str, str], ...], _Session] = {}
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=max_in_flight, max_keepalive_connections=max_in_flight),
            trust_env=False,
            # To load the certificates that https is checked against takes 20 ms; plain http needs none.
            verify=not gateway_url.startswith("http://"),
        )

    def close(self) -> None:
        self._client.close()

    def deliver(self, definition: WorkflowDefinition, tick: Tick) -> Answer:
        """Send *tick*, once more in a new session if the gateway no longer knows the old one."""
        session = self._sessions.setdefault(tuple(sorted(definition.init_config.items())), _Session())
        try:
            response = self._send(session, definition, tick)
            if _lost_session(response):
                response = self._send(session, definition, tick)
            return _answer(response)
        except httpx.HTTPError as cause:
            return Answer(outcome=Outcome.UNAVAILABLE, detail=f"{type(cause).__name__}: {cause}")

    def _send(self, session: _Session, definition: WorkflowDefinition, tick: Tick) -> httpx.Response:
        """Return the gateway's response to the tick, or to the session it could not open."""
        with session.lock:
            handle = session.handle or self._open(session, definition.init_config)
        if isinstance(handle, httpx.Response):
            return handle
        response = self._client.post(
            f"{self._url}/{handle}/materialized-tables/{quote(definition.identifier, safe='')}/refresh",
            json=_body(definition, tick),
            headers=_headers(tick),
        )
        if _lost_session(response):
            with session.lock:
                # Another sender may have opened a new one meanwhile.
                session.handle = None if session.handle == handle else session.handle
        return response

    def _open(self, session: _Session, init_config: Mapping[str, str]) -> str | httpx.Response:
        response = self._client.post(self._url, json={"sessionName": SESSION_NAME, "properties": dict(init_config)})
        if not response.is_success:
            return response
        session.handle = str(response.json()["sessionHandle"])
        return session.handle


def _body(definition: WorkflowDefinition, tick: Tick) -> dict[str, Any]:
    return {
        "isPeriodic": True,
        "scheduleTime": exact_schedule_time(tick.point, definition.schedule.zone),
        "dynamicOptions": dict(definition.dynamic_options),
        "executionConfig": dict(definition.execution_config),
    }


def _headers(tick: Tick) -> dict[str, str]:
    key = f"{tick.workflow_id}/{tick.point.astimezone(UTC).isoformat()}"
    return {
        # A point that comes again because the clock was put back is another request.
        "Idempotency-Key": f"{key}/{tick.setback}" if tick.setback else key,
        "Freshtable-Table": tick.workflow_id,
        "Freshtable-Attempt": str(tick.attempt),
    }


def _lost_session(response: httpx.Response) -> bool:
    return response.is_error and response.headers.get("Freshtable-Error") == SessionNotFound.code


def _answer(response: httpx.Response) -> Answer:
    if response.is_success:
        return Answer(outcome=Outcome.ACCEPTED)
    detail = f"{response.status_code} {response.text[:500]}"
    if response.status_code == _GONE:
        return Answer(outcome=Outcome.GONE, detail=detail)
    if response.is_server_error or _lost_session(response):
        return Answer(outcome=Outcome.UNAVAILABLE, detail=detail, retry_after_s=_retry_after_s(response))
    return Answer(outcome=Outcome.REFUSED, detail=detail)


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0
