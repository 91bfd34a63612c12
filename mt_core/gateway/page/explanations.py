"""EXPLAIN REFRESH for the page: a form starts it, and the page shows its result.

An explanation asks Spark what has changed, so it takes seconds, and minutes while Spark starts. It therefore
runs as a statement of a session of its own, like any other, under the name of the visitor. The page shows how
far it is, and its result until the table is explained again. One explanation of a table is at work at a time,
for all visitors, and only the latest of a few tables are remembered.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mt_core.base.secrets import without_passwords
from mt_core.errors import GatewayBusy
from mt_core.gateway.services import GatewayServices
from mt_core.model.table import TableIdentifier
from mt_core.sessions.operations.operation import TERMINAL, Operation, OperationStatus

REMEMBERED = 50
MOST_AT_WORK = 4
LIMIT_MS = 300_000
SESSION_NAME = "EXPLAIN REFRESH of the page"


class ExplanationStatus(StrEnum):
    """Whether an explanation is at work, has a text, or has an error."""

    WORKING = "working"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What EXPLAIN REFRESH says of a table, asked at `asked_at` by `asked_by`.

    `text` is the plan if it is DONE, the error if it FAILED, and otherwise what it is doing.
    """

    status: ExplanationStatus
    text: str
    asked_at: datetime
    asked_by: str


class Explanations:
    """The explanations of tables, by table id. Thread-safe."""

    def __init__(self, services: GatewayServices) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._at_work: dict[str, tuple[str, Operation]] = {}
        self._ended: OrderedDict[str, Explanation] = OrderedDict()

    def ask(self, table_id: str, identifier: TableIdentifier, caller: str) -> None:
        """Begin to explain a table for *caller*, unless an explanation of it is running.

        Raises SessionLimit if too many sessions are open, and GatewayBusy for too many explanations.
        """
        self._end_finished()
        with self._lock:
            if table_id in self._at_work:
                return
            if len(self._at_work) >= MOST_AT_WORK:
                raise GatewayBusy(
                    f"{MOST_AT_WORK} tables are being explained, which is the limit; try again in a moment."
                )
            session = self._services.sessions.open(SESSION_NAME, owner=caller)
            operation = self._services.executor.submit(
                session, f"EXPLAIN REFRESH {identifier}", timeout_ms=LIMIT_MS, caller=caller
            )
            self._at_work[table_id] = session.handle, operation

    def of(self, table_id: str) -> Explanation | None:
        """Return the latest explanation of a table, None if none is remembered."""
        self._end_finished()
        with self._lock:
            working = self._at_work.get(table_id)
            if working is None:
                return self._ended.get(table_id)
        operation = working[1]
        progress = operation.progress()
        return Explanation(
            status=ExplanationStatus.WORKING,
            text="" if progress is None else progress.message,
            asked_at=operation.created_at,
            asked_by=operation.caller,
        )

    def _end_finished(self) -> None:
        """Remember the results of statements that have ended, and close their sessions."""
        with self._lock:
            ended = {each: work for each, work in self._at_work.items() if work[1].status in TERMINAL}
            for table_id, (_, operation) in ended.items():
                del self._at_work[table_id]
                self._ended[table_id] = _result(operation)
                self._ended.move_to_end(table_id)
            while len(self._ended) > REMEMBERED:
                self._ended.popitem(last=False)
        for session, _ in ended.values():
            self._services.sessions.close(session, missing_ok=True)


def _result(operation: Operation) -> Explanation:
    """Return the result of a statement that has ended."""
    if operation.error is None and operation.status is OperationStatus.FINISHED:
        [[text]] = operation.fetch(0).rows
        status = ExplanationStatus.DONE
    else:
        text = str(operation.error or f"It was {operation.status.lower()}.")
        status = ExplanationStatus.FAILED
    return Explanation(
        status=status,
        text=without_passwords(str(text)),
        asked_at=operation.created_at,
        asked_by=operation.caller,
    )
