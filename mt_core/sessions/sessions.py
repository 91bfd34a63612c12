"""All sessions of a gateway: opening, look-up, closing, and expiry of those that clients no longer use."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from mt_core.background import attempt
from mt_core.clock import Clock
from mt_core.errors import SessionLimit, SessionNotFound
from mt_core.sessions.ports import StatementEngine
from mt_core.sessions.properties.property_values import check_properties
from mt_core.sessions.session import Session

log = logging.getLogger(__name__)

DEFAULT_PROPERTIES: Mapping[str, str] = {"execution.runtime-mode": "batch"}


class SessionManager:
    """The sessions of a gateway by their handles; safe from any thread. With an `idle_timeout_s` of 0 none expires."""

    def __init__(
        self,
        *,
        engine: StatementEngine,
        clock: Clock,
        defaults: Mapping[str, str] | None = None,
        idle_timeout_s: float = 600.0,
        max_sessions: int = 10_000,
    ) -> None:
        self._engine, self._clock = engine, clock
        self._defaults = {**DEFAULT_PROPERTIES, **(defaults or {})}
        self._idle_timeout_s, self._max_sessions = idle_timeout_s, max_sessions
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, name: str | None = None, properties: Mapping[str, str] | None = None) -> Session:
        """Open a session whose *properties* lie over the defaults; raises SessionLimit, RequestInvalid for a wrong value."""
        check_properties(properties or {})
        handle = str(uuid.uuid4())
        session = Session(handle, name=name, defaults=self._defaults, properties=properties or {}, clock=self._clock)
        with self._lock:
            if len(self._sessions) >= self._max_sessions:
                raise SessionLimit(
                    f"{self._max_sessions} sessions are open, which is the limit; "
                    "close one, or raise sql-gateway.session.max-num."
                )
            self._sessions[handle] = session
        return session

    def get(self, handle: str) -> Session:
        """Return an open session, touched; raises SessionNotFound."""
        with self._lock:
            session = self._sessions.get(handle)
        if session is None:
            raise SessionNotFound(_missing(handle), session=handle)
        session.touch()
        return session

    def close(self, handle: str) -> None:
        """Close a session with its operations; raises SessionNotFound."""
        with self._lock:
            session = self._sessions.pop(handle, None)
        if session is None:
            raise SessionNotFound(_missing(handle), session=handle)
        try:
            session.close()
        finally:
            self._engine.close_session(handle)

    def close_all(self) -> None:
        """Close every session; an error with one is logged, and the others are closed all the same."""
        with self._lock:
            handles = list(self._sessions)
        for handle in handles:
            attempt("closing a session", partial(self._close_if_open, handle))

    def expire_idle(self) -> list[str]:
        """Close the sessions that were idle for too long, and return their handles."""
        if self._idle_timeout_s <= 0:
            return []
        now = self._clock.now()
        with self._lock:
            idle = [handle for handle, session in self._sessions.items() if session.idle_s(now) >= self._idle_timeout_s]
        for handle in idle:
            if attempt("closing a session", partial(self._close_if_open, handle)):
                log.info("session expired", extra={"action": "session_expired", "session": handle})
        return idle

    def _close_if_open(self, handle: str) -> None:
        with suppress(SessionNotFound):
            self.close(handle)


def _missing(handle: str) -> str:
    return f"Session '{handle}' does not exist; it was closed, or expired because no client used it. Open a new one."
