"""The ticker: sends ticks to the gateway over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from enum import StrEnum
from urllib.parse import quote

import httpx

from mt_core.base.address import Address
from mt_core.base.protocol import ERROR_CODE_HEADER, Refresh
from mt_core.errors import SessionNotFound
from mt_core.model.formatter import show_schedule_time
from mt_core.workflow.definitions import WorkflowDefinition
from scheduler_plugins.memory.outbox import Tick

SESSION_NAME = "freshtable-memory-scheduler"
TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
_GONE = 410


class Outcome(StrEnum):
    """The gateway's response to a tick; GONE: the table was dropped, UNAVAILABLE: try again."""

    ACCEPTED = "ACCEPTED"
    GONE = "GONE"
    REFUSED = "REFUSED"
    UNAVAILABLE = "UNAVAILABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The gateway's response; `retry_after_s` is 0 unless the gateway asks for a pause."""

    outcome: Outcome
    detail: str = ""
    retry_after_s: float = 0.0


@dataclass(slots=True)
class _Session:
    """A session of the gateway; `handle` is None until a tick needs the session."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    handle: str | None = None


class Ticker:
    """Sends ticks over persistent connections, with one session per distinct `init_config`. Thread-safe."""

    def __init__(self, *, gateway_url: str, token: str, max_in_flight: int) -> None:
        address = Address.of(gateway_url)
        self._url = f"{address.base_url}/v3/sessions"
        self._sessions: dict[tuple[tuple[str, str], ...], _Session] = {}
        limits = httpx.Limits(max_connections=max_in_flight, max_keepalive_connections=max_in_flight)
        socket = address.socket
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            limits=limits,
            transport=None
            if socket is None
            else httpx.HTTPTransport(uds=socket, limits=limits, verify=False),
            trust_env=False,
            # Loading certificates takes 20 ms and is not necessary for plain http.
            verify=not address.base_url.startswith("http://"),
        )

    def close(self) -> None:
        self._client.close()

    def deliver(self, definition: WorkflowDefinition, tick: Tick) -> Answer:
        """Send *tick*; if the session was lost, send it again in a new one."""
        session = self._sessions.setdefault(tuple(sorted(definition.init_config.items())), _Session())
        key = f"{tick.workflow_id}/{tick.point.astimezone(UTC).isoformat()}"
        refresh = Refresh(
            identifier=definition.identifier,
            is_periodic=True,
            schedule_time=show_schedule_time(tick.point, definition.schedule.zone, exact=True),
            dynamic_options=definition.dynamic_options,
            static_partitions=None,
            execution_config=definition.execution_config,
            # A schedule time that is repeated because the clock was set back is a different request.
            request_key=f"{key}/{tick.setback}" if tick.setback else key,
            table_id=tick.workflow_id,
            attempt=tick.attempt,
        )
        try:
            response = self._send(session, definition.init_config, refresh)
            if _lost_session(response):
                response = self._send(session, definition.init_config, refresh)
            return _answer(response)
        except httpx.HTTPError as cause:
            return Answer(outcome=Outcome.UNAVAILABLE, detail=f"{type(cause).__name__}: {cause}")

    def _send(self, session: _Session, properties: Mapping[str, str], refresh: Refresh) -> httpx.Response:
        """Return the gateway's response to the refresh, or to opening the session if that failed."""
        with session.lock:
            if session.handle is None:
                body = {"sessionName": SESSION_NAME, "properties": dict(properties)}
                response = self._client.post(self._url, json=body)
                if not response.is_success:
                    return response
                session.handle = str(response.json()["sessionHandle"])
            handle = session.handle
        response = self._client.post(
            f"{self._url}/{handle}/materialized-tables/{quote(refresh.identifier, safe='')}/refresh",
            json=refresh.body(),
            headers=refresh.headers(),
        )
        if _lost_session(response):
            with session.lock:
                # Another sender may already have replaced the handle.
                session.handle = None if session.handle == handle else session.handle
        return response


def _lost_session(response: httpx.Response) -> bool:
    return response.is_error and response.headers.get(ERROR_CODE_HEADER) == SessionNotFound.code


def _answer(response: httpx.Response) -> Answer:
    if response.is_success:
        return Answer(outcome=Outcome.ACCEPTED)
    detail = f"{response.status_code} {response.text[:500]}"
    if response.status_code == _GONE:
        return Answer(outcome=Outcome.GONE, detail=detail)
    if response.is_server_error or _lost_session(response):
        pause = response.headers.get("Retry-After", "")
        retry_after_s = float(pause) if pause.isascii() and pause.isdigit() else 0.0
        return Answer(outcome=Outcome.UNAVAILABLE, detail=detail, retry_after_s=retry_after_s)
    return Answer(outcome=Outcome.REFUSED, detail=detail)
