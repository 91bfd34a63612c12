"""The metrics of the gateway's own work: requests, statements, transactions, results and background loops.

What happens often is counted where it happens: the HTTP server, the executor and the registry call `request`,
`statement` and `transaction`. What has a state is read in a scrape, from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mt_core.base.background import LoopState
from mt_core.metrics import families
from mt_core.metrics.instruments import Instruments, Values
from mt_core.sessions.operations.operation import OperationStatus
from mt_core.sessions.ports import ResultSpace
from mt_core.sessions.sessions import SessionManager
from mt_core.sql.kinds import KINDS
from mt_core.sql.parser import ReadStatement

OTHER = "(other)"
_TYPES = frozenset(kind.type for kind in KINDS)
_STATUSES = tuple(status for status in OperationStatus if status is not OperationStatus.CLOSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPorts:
    """What the state of the work is read from. None of it waits.

    `dropped` returns the number of events that were dropped, `result_space` the space that results use.
    """

    sessions: SessionManager
    result_space: Callable[[], ResultSpace]
    dropped: Callable[[], int]


class Work:
    """Counts the work of a gateway, and reads its state in each scrape. Thread-safe."""

    def __init__(self, instruments: Instruments, ports: WorkPorts) -> None:
        self._requests = instruments.counter(families.HTTP_REQUESTS)
        self._request_duration = instruments.histogram(families.HTTP_DURATION)
        self._statements = instruments.counter(families.STATEMENTS)
        self._statement_duration = instruments.histogram(families.STATEMENT_DURATION)
        self._wait = instruments.histogram(families.REGISTRY_WAIT)
        self._transaction = instruments.histogram(families.REGISTRY_TRANSACTION)
        self._errors = instruments.counter(families.REGISTRY_ERRORS)
        self._read = instruments.read
        self._read(families.SESSIONS, lambda: {(): len(ports.sessions)})
        self._read(families.OPERATIONS, lambda: _operations(ports.sessions))
        self._read(families.RESULT_BYTES, lambda: _used(ports.result_space()))
        self._read(families.RESULT_BYTES_LIMIT, lambda: _limits(ports.result_space()))
        self._read(families.EVENTS_DROPPED, lambda: {(): ports.dropped()})

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered HTTP request."""
        self._requests.labels(method, route, f"{status // 100}xx").inc()
        self._request_duration.labels(method, route).observe(seconds)

    def statement(self, statement: ReadStatement, status: OperationStatus, seconds: float) -> None:
        """Count an ended statement. All types that the table of statements does not have count as one."""
        type_ = statement.type if statement.type in _TYPES else OTHER
        self._statements.labels(type_, status).inc()
        self._statement_duration.labels(type_).observe(seconds)

    def transaction(self, waited_s: float, lasted_s: float, failed: bool) -> None:
        """Count a transaction of the registry."""
        self._wait.observe(waited_s)
        self._transaction.observe(lasted_s)
        if failed:
            self._errors.inc()

    def read_lease(self, expires_at: Callable[[], datetime | None]) -> None:
        """Show when the gateway's lease expires."""
        self._read(families.LEASE_EXPIRY, lambda: _instant(expires_at()))

    def read_loops(self, loops: Callable[[], Sequence[LoopState]], started_at: datetime) -> None:
        """Show how loops fare. One without a successful pass counts as alive since *started_at*."""
        self._read(
            families.LOOP_PERIOD, lambda: {(each.name,): each.every.total_seconds() for each in loops()}
        )
        self._read(families.LOOP_FAILURES, lambda: {(each.name,): each.all_failures for each in loops()})
        self._read(
            families.LOOP_SUCCESS,
            lambda: {(each.name,): (each.succeeded_at or started_at).timestamp() for each in loops()},
        )


def _operations(sessions: SessionManager) -> Values:
    counts = Counter(operation.status for operation in sessions.operations())
    return {(status,): counts[status] for status in _STATUSES}


def _used(space: ResultSpace) -> Values:
    return {("memory",): space.memory, ("disk",): space.disk}


def _limits(space: ResultSpace) -> Values:
    return {("memory",): space.memory_limit, ("disk",): space.disk_limit}


def _instant(at: datetime | None) -> Values:
    return {} if at is None else {(): at.timestamp()}
