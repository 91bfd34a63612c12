"""The sessions of a gateway: opening, lookup, closing, and expiry of idle sessions."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial

from mt_core.base.background import attempt
from mt_core.base.plural import plural
from mt_core.clock import Clock
from mt_core.errors import SessionLimit, SessionNotFound
from mt_core.sessions.operations.operation import Operation
from mt_core.sessions.ports import StatementEngine
from mt_core.sessions.properties.property_values import check_property
from mt_core.sessions.session import Session, SessionView

log = logging.getLogger(__name__)

DEFAULT_PROPERTIES: Mapping[str, str] = {"execution.runtime-mode": "batch"}
IDLE_TIMEOUT = timedelta(minutes=10)
_NEVER = timedelta(0)


class SessionManager:
    """The sessions of a gateway by handle. Thread-safe.

    If `idle_timeout` is zero, sessions never expire. `on_close` is called with the handle of each session
    that closes.
    """

    def __init__(
        self,
        *,
        engine: StatementEngine,
        clock: Clock,
        defaults: Mapping[str, str] | None = None,
        idle_timeout: timedelta = IDLE_TIMEOUT,
        max_sessions: int = 10_000,
        on_close: Callable[[str], object] = lambda _handle: None,
    ) -> None:
        self._engine, self._clock = engine, clock
        self._defaults = {**DEFAULT_PROPERTIES, **(defaults or {})}
        self._idle_timeout, self._max_sessions, self._on_close = idle_timeout, max_sessions, on_close
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, name: str | None = None, properties: Mapping[str, str] | None = None, *, owner: str = ""
    ) -> Session:
        """Open a session whose *properties* override the defaults.

        *owner* is the name of the request's token, or "" if no token is required. Raises SessionLimit if too
        many sessions are open, and RequestInvalid for an invalid property value.
        """
        properties = properties or {}
        for key, value in properties.items():
            check_property(key, value)
        handle, now = str(uuid.uuid4()), self._clock.now()
        session = Session(
            handle, name=name, defaults=self._defaults, properties=properties, opened_at=now, owner=owner
        )
        session.use(self._clock)
        with self._lock:
            if len(self._sessions) >= self._max_sessions:
                raise SessionLimit(
                    f"{self._max_sessions} {plural(self._max_sessions, 'session is', 'sessions are')} open, "
                    "which is the limit; close one, or raise sql-gateway.session.max-num."
                )
            self._sessions[handle] = session
        return session

    def get(self, handle: str) -> Session:
        """Return an open session and restart its idle timeout. Raises SessionNotFound."""
        with self._lock:
            session = self._sessions.get(handle)
        if session is None:
            raise _missing(handle)
        self.use(session)
        return session

    def use(self, session: Session) -> None:
        """Restart the idle timeout of *session*, for example while its client waits for an answer."""
        session.use(self._clock)

    def owner_of(self, handle: str) -> str | None:
        """Return the name of the token that opened a session, or None if the session does not exist.

        This does not restart the session's idle timeout.
        """
        with self._lock:
            session = self._sessions.get(handle)
        return session.owner if session is not None else None

    def operations(self) -> Iterator[Operation]:
        """Yield the open operations of all sessions."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            yield from session.operations

    def views(self) -> list[SessionView]:
        """Return a snapshot of each open session, oldest first, without restarting any idle timeout."""
        with self._lock:
            sessions = list(self._sessions.values())
        return [session.view() for session in sessions]

    def close(self, handle: str, *, missing_ok: bool = False, expired: bool = False) -> None:
        """Close a session and its operations. Raises SessionNotFound unless *missing_ok* is set.

        *expired* means that its idle timeout has passed, and not that its client closed it.
        """
        with self._lock:
            session = self._sessions.pop(handle, None)
        if session is None:
            if missing_ok:
                return
            raise _missing(handle)
        try:
            session.close(expired=expired)
        finally:
            self._on_close(handle)
            self._engine.close_session(handle)

    def close_all(self) -> None:
        """Close every session. If closing one fails, the error is logged and the others are still closed."""
        with self._lock:
            handles = list(self._sessions)
        for handle in handles:
            attempt("closing a session", partial(self.close, handle, missing_ok=True))

    def expire_idle(self) -> list[str]:
        """Close the sessions whose idle timeout has passed and return their handles.

        Their queries end. A change of data or a refresh that has begun continues without its session. Any
        other accepted statement keeps the session open until it ends.
        """
        if self._idle_timeout <= _NEVER:
            return []
        latest, expired = self._clock.elapsed() - self._idle_timeout, list[str]()
        with self._lock:
            idle = [session for session in self._sessions.values() if session.used <= latest]
        for session in idle:
            attempt("closing a session", partial(self._expire, session, expired))
        return expired

    def _expire(self, session: Session, expired: list[str]) -> None:
        """Close an idle session, unless a statement keeps it open, and add its handle to *expired*."""
        if session.end_queries():
            self.close(session.handle, missing_ok=True, expired=True)
            expired.append(session.handle)
            log.info("session expired", extra={"action": "session_expired", "session": session.handle})


def _missing(handle: str) -> SessionNotFound:
    return SessionNotFound(
        f"Session '{handle}' does not exist; it was closed, or expired because it was idle. Open a new one.",
        session=handle,
    )
