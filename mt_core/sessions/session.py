"""A session: its properties, its operations, and the order of its statements.

A session is the state of one client (FLIP-91): properties that override the gateway's defaults, jars,
temporary objects, and an open statement set. Statements change this state, so they take turns. Only one
operation holds the turn at a time, others wait in the order of their submission, and only the holder changes
the state. Each change replaces an immutable value, so readers need no lock.

Closing an operation ends a query, but not a change of data that has begun, because Flink's clients close the
operation as soon as they have the job id. The next operation then gets the turn, unless a statement set still
has members to run. The idle timeout counts elapsed time, which a clock adjustment cannot change.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from mt_core.base.background import attempt
from mt_core.clock import Clock
from mt_core.errors import IllegalStatus, SessionNotFound
from mt_core.sessions.operations.operation import TERMINAL, Operation, OperationKind, OperationStatus
from mt_core.sessions.ports import SessionContext
from mt_core.sessions.temporary_objects import TemporaryObject
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement

log = logging.getLogger(__name__)
DML_SYNC = "table.dml-sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationView:
    """A snapshot of an open operation; `job_id` is the id of its job, None if it has none."""

    statement: str
    status: OperationStatus
    created_at: datetime
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A snapshot of a session for SET, SHOW JARS and REST.

    `properties` are all properties in effect, including defaults. `operations` are the open ones, oldest
    first.
    """

    handle: str
    name: str | None
    owner: str
    opened_at: datetime
    last_access: datetime
    properties: Mapping[str, str]
    jars: tuple[str, ...]
    operations: tuple[OperationView, ...]


class Session:
    """The state of one client on the gateway. Thread-safe.

    Only the operation that holds the turn may change `overrides`, `jars`, `temporary` and `statement_set`,
    and only by assigning a new value.
    """

    def __init__(
        self,
        handle: str,
        *,
        name: str | None,
        defaults: Mapping[str, str],
        properties: Mapping[str, str],
        opened_at: datetime,
        owner: str = "",
    ) -> None:
        self.handle, self.name = handle, name
        # The name of the token that opened the session; "" if no token is required.
        self.owner = owner
        self.opened_at = self.last_access = opened_at
        # When the session was last used, as elapsed time, for the idle timeout.
        self.used = timedelta(0)
        # The properties that override the defaults; initially those given when the session was opened.
        self.overrides: Mapping[str, str] = dict(properties)
        self._opened_with = dict(properties)
        # The jars that statements added, in order. RESET does not remove them.
        self.jars: tuple[str, ...] = ()
        # The temporary objects that statements created, in order.
        self.temporary: tuple[TemporaryObject, ...] = ()
        # The members of the open statement set, or None if no set is open.
        self.statement_set: tuple[ReadStatement, ...] | None = None
        self._defaults = dict(defaults)
        self._operations: dict[str, Operation] = {}
        self._closed = False
        # The handle of the operation that holds the turn, and the waiting operations, each with the function
        # that starts it.
        self._holder: str | None = None
        self._waiting: deque[tuple[str, Callable[[], object]]] = deque()
        self._lock = threading.RLock()

    @property
    def properties(self) -> dict[str, str]:
        """All properties in effect."""
        return {**self._defaults, **self.overrides}

    def use(self, clock: Clock) -> None:
        """Record a request of the client, which restarts the idle timeout."""
        self.last_access, self.used = clock.now(), clock.elapsed()

    @property
    def operations(self) -> list[Operation]:
        """The open operations, oldest first."""
        with self._lock:
            return list(self._operations.values())

    def view(self) -> SessionView:
        """Return a snapshot of the session."""
        return SessionView(
            handle=self.handle,
            name=self.name,
            owner=self.owner,
            opened_at=self.opened_at,
            last_access=self.last_access,
            properties=self.properties,
            jars=self.jars,
            operations=tuple(map(_operation_view, self.operations)),
        )

    def context(self, statement_properties: Mapping[str, str] | None = None) -> SessionContext:
        """Return the session's context for the engine.

        *statement_properties* apply to one statement only.
        """
        return SessionContext(
            session_id=self.handle, properties={**self.overrides, **(statement_properties or {})}
        )

    def reset(self, key: str | None) -> None:
        """Reset *key*, or all properties if it is None, to the value at opening or to the default."""
        others = {each: text for each, text in self.overrides.items() if key not in (None, each)}
        initial = {each: text for each, text in self._opened_with.items() if key in (None, each)}
        self.overrides = {**others, **initial}

    # --------------------------------------------------------------------------------------------- operations

    def add(self, operation: Operation) -> None:
        """Add a new operation. Raises SessionNotFound if the session is closed."""
        with self._lock:
            if self._closed:
                raise SessionNotFound(
                    f"Session {self.handle} was closed; open a new one.", session=self.handle
                )
            self._operations[operation.handle] = operation

    def operation(self, handle: str) -> Operation | None:
        """Return the open operation with *handle*, or None."""
        with self._lock:
            return self._operations.get(handle)

    def operation_of_job(self, job_id: str) -> Operation | None:
        """Return the open operation whose job is *job_id*, or None."""
        return next((each for each in self.operations if each.planned_job_id == job_id), None)

    def close_operation(self, handle: str, *, expired: bool = False) -> None:
        """Close and remove an operation. Does nothing if *handle* is unknown.

        A change of data that has begun continues, and the next statement may start, unless the change is a
        statement set. With `table.dml-sync` the change is cancelled, as in Flink, unless its session
        *expired*. A statement that has not begun never starts.
        """
        with self._lock:
            operation = self._operations.pop(handle, None)
            if operation is None:
                return
            running = operation.status is OperationStatus.RUNNING
            work = operation.work
            outlives = (
                not self._closed and self._holder == handle and work.kind is OperationKind.JOB and running
            )
            if (
                self._closed
                and running
                and self._holder != handle
                and Trait.CHANGE in operation.statement.traits
            ):
                text = "operation %s (%s) had not begun when its session was closed; it changes nothing"
                facts = {"action": "statement_given_up", "session": self.handle}
                log.warning(text, handle, operation.statement.type, extra=facts)
        if outlives and not expired and self.properties.get(DML_SYNC, "").lower() == "true":
            with suppress(IllegalStatus):
                operation.cancel()
        operation.close()
        if outlives and work.statements == 1:
            self.end_turn(operation)

    def end_queries(self) -> bool:
        """Close the queries of an idle session; return whether the session can be closed now.

        Other statements were accepted and must complete. A statement that cannot outlive the session keeps it
        open.
        """
        unfinished = [each for each in self.operations if each.status not in TERMINAL or each.querying]
        for operation in unfinished:
            if operation.is_query:
                self.close_operation(operation.handle)
        return all(each.is_query or each.outlives_session for each in unfinished)

    def close(self, *, expired: bool = False) -> None:
        """Close all operations and refuse new ones.

        If closing an operation fails, the error is logged and the others are still closed.
        """
        with self._lock:
            self._closed = True
        for operation in self.operations:
            attempt("closing an operation", partial(self.close_operation, operation.handle, expired=expired))

    # -------------------------------------------------------------------------------------------------- turns

    def take_turn(self, operation: Operation, begin: Callable[[], object]) -> None:
        """Give *operation* the turn after all earlier ones, then call *begin*, which must not block."""
        with self._lock:
            self._waiting.append((operation.handle, begin))
        self._begin_next()

    def take_turn_now(self, operation: Operation) -> bool:
        """Give *operation* the turn unless another one holds it or waits; return whether it got the turn."""
        with self._lock:
            if self._holder is not None or self._waiting:
                return False
            self._holder = operation.handle
            return True

    def end_turn(self, operation: Operation) -> None:
        """End the turn of *operation*, if it holds the turn, and start the next operation."""
        with self._lock:
            if self._holder != operation.handle:
                return
            self._holder = None
        self._begin_next()

    def _begin_next(self) -> None:
        with self._lock:
            if self._holder is not None or not self._waiting:
                return
            self._holder, begin = self._waiting.popleft()
        begin()


def _operation_view(operation: Operation) -> OperationView:
    return OperationView(
        statement=operation.statement.type,
        status=operation.status,
        created_at=operation.created_at,
        job_id=operation.planned_job_id if Trait.JOB in operation.statement.traits else None,
    )
