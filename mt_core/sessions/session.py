"""A session: properties over the gateway's defaults, its operations, and the order of its statements."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial

from mt_core.background import attempt
from mt_core.clock import Clock
from mt_core.errors import IllegalStatus, OperationNotFound, SessionNotFound
from mt_core.sessions.operations.operation import Operation, OperationKind, OperationStatus
from mt_core.sessions.ports import SessionContext
from mt_core.sql.parser import ReadStatement

DML_SYNC = "table.dml-sync"

Turn = Callable[[], None]
Submit = Callable[[Turn], object]


class Session:
    """The state of one client on the gateway; safe from any thread."""

    def __init__(
        self, handle: str, *, name: str | None, defaults: Mapping[str, str], properties: Mapping[str, str], clock: Clock
    ) -> None:
        self.handle, self.name = handle, name
        self._clock = clock
        self._defaults, self._overrides = dict(defaults), dict(properties)
        self._operations: dict[str, Operation] = {}
        self._lock = threading.RLock()
        self._turns: deque[tuple[str, Turn]] = deque()
        self._submit: Submit | None = None
        # The handle of the operation that has the turn.
        self._holder: str | None = None
        self._closed = False
        self._jars: dict[str, None] = {}
        # The statements of the open statement set, None without one; only the operation that has the turn uses it.
        self.statement_set: tuple[ReadStatement, ...] | None = None
        self.last_access = clock.now()

    @property
    def properties(self) -> dict[str, str]:
        """All effective properties."""
        with self._lock:
            return self._defaults | self._overrides

    @property
    def busy(self) -> bool:
        """Whether a statement runs or waits for its turn; a query that waits for its client to fetch rows does not count."""
        with self._lock:
            return any(operation.busy for operation in self._operations.values())

    @property
    def operations(self) -> list[Operation]:
        """The operations that are not closed, oldest first."""
        with self._lock:
            return list(self._operations.values())

    @property
    def jars(self) -> list[str]:
        """The jars that statements added, in their order; RESET leaves them alone."""
        with self._lock:
            return list(self._jars)

    def add_jar(self, path: str) -> None:
        with self._lock:
            self._jars[path] = None

    def context(self, statement_properties: Mapping[str, str] | None = None) -> SessionContext:
        """Return the session as the engine needs it; *statement_properties* apply to one statement only."""
        with self._lock:
            overrides = self._overrides | dict(statement_properties or {})
        return SessionContext(session_id=self.handle, properties=overrides)

    def touch(self) -> None:
        """Count a request of the client, for the idle timeout."""
        self.last_access = self._clock.now()

    def idle_s(self, now: datetime) -> float:
        """Return the seconds since the last request; a statement at work counts as one."""
        if self.busy:
            self.last_access = now
        return (now - self.last_access).total_seconds()

    def set_property(self, key: str, value: str) -> None:
        with self._lock:
            self._overrides[key] = value

    def reset_property(self, key: str | None) -> None:
        """Put *key* (None: every key) back to the gateway's default."""
        with self._lock:
            if key is None:
                self._overrides.clear()
            else:
                self._overrides.pop(key, None)

    def add(self, operation: Operation) -> None:
        """Add a new operation; raises SessionNotFound when the session was closed meanwhile."""
        with self._lock:
            if self._closed:
                raise SessionNotFound(f"Session {self.handle} was closed; open a new one.", session=self.handle)
            self._operations[operation.handle] = operation

    def open_operation(self, handle: str) -> Operation | None:
        """Return the open operation of that handle, None if there is none."""
        with self._lock:
            return self._operations.get(handle)

    def operation(self, handle: str) -> Operation:
        """Return an open operation; raises OperationNotFound."""
        operation = self.open_operation(handle)
        if operation is None:
            raise OperationNotFound(
                f"Operation {handle} is not known in session {self.handle}; it was closed or never existed.",
                operation=handle,
            )
        return operation

    def operation_of_job(self, job_id: str) -> Operation | None:
        """Return the open operation whose job has that id, None if there is none."""
        return next((each for each in self.operations if each.planned_job_id == job_id), None)

    def close_operation(self, handle: str) -> None:
        """Close and forget an operation; harmless when it is not there.

        A change of data continues after its operation is closed, and the next statement may begin; with `table.dml-sync`
        it is cancelled, as in Flink.
        """
        with self._lock:
            operation = self._operations.pop(handle, None)
            released = (
                operation is not None
                and not self._closed
                and self._holder == handle
                and operation.kind is OperationKind.JOB
                and operation.status is OperationStatus.RUNNING
            )
            if released:
                self._holder = None
            stopped = released and self.properties.get(DML_SYNC, "").lower() == "true"
        if operation is None:
            return
        if stopped:
            with suppress(IllegalStatus):
                operation.cancel()
        operation.close()
        if self._submit is not None:
            self._next(self._submit)

    def close(self) -> None:
        """Close all operations, and refuse further ones; an error with one is logged, and the others are closed all the same."""
        with self._lock:
            self._closed = True
        for operation in self.operations:
            attempt("closing an operation", partial(self.close_operation, operation.handle))

    def take_turn(self, operation: Operation, turn: Turn, submit: Submit) -> None:
        """Pass *turn*, of *operation*, to *submit* when all earlier turns have ended: one at a time, in order."""
        with self._lock:
            self._turns.append((operation.handle, turn))
            self._submit = submit
        self._next(submit)

    def take_turn_now(self, operation: Operation) -> bool:
        """Give *operation* the turn if it is free and no operation waits for it; returns whether it was."""
        with self._lock:
            if self._holder is not None or self._turns:
                return False
            self._holder = operation.handle
            return True

    def give_back(self, operation: Operation, submit: Submit) -> None:
        """Begin the next turn, unless *operation* has lost its own already."""
        with self._lock:
            if self._holder != operation.handle:
                return
            self._holder = None
        self._next(submit)

    def _next(self, submit: Submit) -> None:
        with self._lock:
            if self._holder is not None or not self._turns:
                return
            self._holder, turn = self._turns.popleft()
        submit(turn)
