"""A session: properties over the gateway's defaults, its operations, and the order of its statements."""

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
class SessionView:
    """A session at one moment: what SET, SHOW JARS and REST show of it.

    `properties` are all that are in effect.
    """

    handle: str
    name: str | None
    opened_at: datetime
    last_access: datetime
    properties: Mapping[str, str]
    jars: tuple[str, ...]


class Session:
    """The state of one client on the gateway; safe from any thread.

    Only the operation that has the turn changes `overrides`, `jars`, `temporary` and `statement_set`,
    each by a new value.
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
        # The name of the token that opened it; "" if no token is required.
        self.owner = owner
        self.opened_at = self.last_access = opened_at
        # When it was last used by the time elapsed, which counts for the idle timeout.
        self.used = timedelta(0)
        # The properties that differ from the defaults: at first those that the session was opened with.
        self.overrides: Mapping[str, str] = dict(properties)
        self._opened_with = dict(properties)
        # The jars that statements added, in their order; RESET leaves them alone.
        self.jars: tuple[str, ...] = ()
        # What its statements created as temporary, in order.
        self.temporary: tuple[TemporaryObject, ...] = ()
        # The statements of the open statement set, None without one.
        self.statement_set: tuple[ReadStatement, ...] | None = None
        self._defaults = dict(defaults)
        self._operations: dict[str, Operation] = {}
        self._closed = False
        # The handle of the operation that has the turn, and those that wait for it,
        # with the call that begins each.
        self._holder: str | None = None
        self._waiting: deque[tuple[str, Callable[[], object]]] = deque()
        self._lock = threading.RLock()

    @property
    def properties(self) -> dict[str, str]:
        """All properties in effect."""
        return {**self._defaults, **self.overrides}

    def use(self, clock: Clock) -> None:
        """Count the present as a request of its client."""
        self.last_access, self.used = clock.now(), clock.elapsed()

    @property
    def operations(self) -> list[Operation]:
        """The operations that are not closed, oldest first."""
        with self._lock:
            return list(self._operations.values())

    def view(self) -> SessionView:
        """Return the present state of the session."""
        return SessionView(
            handle=self.handle,
            name=self.name,
            opened_at=self.opened_at,
            last_access=self.last_access,
            properties=self.properties,
            jars=self.jars,
        )

    def context(self, statement_properties: Mapping[str, str] | None = None) -> SessionContext:
        """Return the session as the engine needs it; *statement_properties* apply to one statement only."""
        return SessionContext(
            session_id=self.handle, properties={**self.overrides, **(statement_properties or {})}
        )

    def reset(self, key: str | None) -> None:
        """Give the property *key*, or all of them if it is None, the value that the session was opened with,
        else the default.
        """
        kept = {each: text for each, text in self.overrides.items() if key not in (None, each)}
        opened = {each: text for each, text in self._opened_with.items() if key in (None, each)}
        self.overrides = {**kept, **opened}

    # --------------------------------------------------------------------------------------------- operations

    def add(self, operation: Operation) -> None:
        """Add a new operation; raises SessionNotFound if the session is closed."""
        with self._lock:
            if self._closed:
                raise SessionNotFound(
                    f"Session {self.handle} was closed; open a new one.", session=self.handle
                )
            self._operations[operation.handle] = operation

    def operation(self, handle: str) -> Operation | None:
        """Return the open operation of that handle, None if there is none."""
        with self._lock:
            return self._operations.get(handle)

    def operation_of_job(self, job_id: str) -> Operation | None:
        """Return the open operation whose job has that id, None if there is none."""
        return next((each for each in self.operations if each.planned_job_id == job_id), None)

    def close_operation(self, handle: str, *, expired: bool = False) -> None:
        """Close an operation and remove it; does nothing if there is none of that handle.

        A change of data continues after its operation is closed, and the next statement may begin, unless the
        change is a set of statements; with `table.dml-sync` it is cancelled, as in Flink, but not because its
        session has *expired*. One that has not begun never does.
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
        """Close the queries of a client that is gone; return whether nothing else keeps the session open.

        Any other statement that has not ended keeps it, unless it outlives the session:
        it was accepted, and runs to its end.
        """
        open_ones = [each for each in self.operations if each.status not in TERMINAL or each.querying]
        for operation in open_ones:
            if operation.is_query:
                self.close_operation(operation.handle)
        return all(each.is_query or each.outlives_session for each in open_ones)

    def close(self, *, expired: bool = False) -> None:
        """Close all operations, and refuse further ones; an error with one is logged,
        and does not keep the others open.
        """
        with self._lock:
            self._closed = True
        for operation in self.operations:
            attempt("closing an operation", partial(self.close_operation, operation.handle, expired=expired))

    # -------------------------------------------------------------------------------------------------- turns

    def take_turn(self, operation: Operation, begin: Callable[[], object]) -> None:
        """Call *begin*, which may not block, when all earlier turns have ended:
        *operation* has the turn then.
        """
        with self._lock:
            self._waiting.append((operation.handle, begin))
        self._begin_next()

    def take_turn_now(self, operation: Operation) -> bool:
        """Give *operation* the turn if it is free and no operation waits for it;
        returns whether it has the turn.
        """
        with self._lock:
            if self._holder is not None or self._waiting:
                return False
            self._holder = operation.handle
            return True

    def end_turn(self, operation: Operation) -> None:
        """Begin the next turn, unless that of *operation* has ended already."""
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
