"""Scripts: statements that a visitor submits together, run one after the other in a thread of their own.

The visitor's browser may be closed meanwhile, so nothing depends on its requests: the thread submits each
statement when the one before it has its result, and stops at the first that fails. As in a terminal, a query
counts as done when its rows are complete, because its last rows may be an error; but a result that has
`MOST_AWAITED` rows is not awaited further, since an unbounded one never ends.

Rows stay on the gateway, in its spools, until the script is closed. So pages of a result can be read in any
order and again, which the pages of the API, released as the client goes on, do not allow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property, partial

from mt_core.base.background import start_thread
from mt_core.base.secrets import statement_text
from mt_core.base.tokens import Statement
from mt_core.errors import Canceled, IllegalStatus, MtError
from mt_core.sessions.operations.operation import (
    POLL_S,
    TERMINAL,
    Operation,
    OperationResult,
    OperationStatus,
)
from mt_core.sessions.ports import ResultRows

MOST_AWAITED = 10_000


class Outcome(StrEnum):
    """The state of a statement in its script. NOT_RUN: a statement before it failed or was stopped."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    NOT_RUN = "NOT_RUN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A statement of a script; `operation` is None unless it began.

    `ended_at` is when it had its last row or failed, None until then. `error` is why it could not begin, or
    why its query failed after it had rows.
    """

    statement: Statement
    operation: Operation | None = None
    ended_at: datetime | None = None
    error: MtError | None = None

    @property
    def result(self) -> OperationResult | None:
        """Its result, None as long as it has none and once it is closed."""
        operation = self.operation
        if operation is None or operation.status is not OperationStatus.FINISHED:
            return None
        return operation.result

    @property
    def rows(self) -> ResultRows | None:
        return None if self.result is None else self.result.rows

    @property
    def failure(self) -> MtError | None:
        """Why the statement failed or was stopped, None if it did not."""
        if self.error is not None or self.operation is None:
            return self.error
        return self.operation.error


Submit = Callable[[str], Operation]


class Script:
    """The statements of a script and their results. Thread-safe.

    `text` is what the visitor submitted. A text that cannot be run has an `error` and no steps.
    """

    def __init__(
        self,
        handle: str,
        text: str,
        statements: Sequence[Statement],
        *,
        begun_at: datetime,
        error: MtError | None = None,
    ) -> None:
        self.handle, self.text, self.begun_at, self.error = handle, text, begun_at, error
        self._steps = [Step(statement=each) for each in statements]
        self._lock = threading.Lock()
        self._ended, self._stopped = threading.Event(), False
        if error is not None:
            self._ended.set()

    @cached_property
    def has_secret(self) -> bool:
        """Whether the text contains a secret, so that no browser may remember it."""
        return statement_text(self.text, len(self.text)) != self.text

    @property
    def steps(self) -> Sequence[Step]:
        with self._lock:
            return tuple(self._steps)

    @property
    def running(self) -> bool:
        """Whether a statement is running, will run, or still has rows to come."""
        return not self._ended.is_set() or any(
            step.rows is not None and step.rows.running for step in self.steps
        )

    def outcome(self, number: int) -> Outcome:
        """Return the state of the statement at position *number*."""
        step = self.steps[number]
        match step.failure:
            case Canceled():
                return Outcome.STOPPED
            case MtError():
                return Outcome.FAILED
        if step.operation is None:
            return Outcome.NOT_RUN if self._ended.is_set() else Outcome.WAITING
        if step.operation.status not in TERMINAL or (step.rows is not None and step.rows.running):
            return Outcome.RUNNING
        return Outcome.DONE if step.operation.status is OperationStatus.FINISHED else Outcome.STOPPED

    def start(self, submit: Submit, now: Callable[[], datetime]) -> None:
        """Run the statements in a thread. *submit* begins one; *now* is the time that `ended_at` tells."""
        start_thread("script", partial(self._run, submit, now))

    def wait(self, timeout_s: float) -> bool:
        """Wait for up to *timeout_s* until no statement has to begin or end; return whether that is so."""
        return self._ended.wait(timeout_s)

    def stop(self) -> None:
        """Stop the running statement and begin no further one.

        The rows that a query has returned so far remain.
        """
        with self._lock:
            self._stopped = True
        for step in self.steps:
            if step.rows is not None:
                step.rows.abort(Canceled("The query was stopped."))
            elif step.operation is not None:
                with suppress(IllegalStatus):
                    step.operation.cancel()

    def _run(self, submit: Submit, now: Callable[[], datetime]) -> None:
        try:
            for number in range(len(self._steps)):
                if not self._run_one(number, submit, now):
                    break
        finally:
            self._ended.set()

    def _run_one(self, number: int, submit: Submit, now: Callable[[], datetime]) -> bool:
        """Run a statement and return whether the next one may begin."""
        try:
            operation = submit(self._steps[number].statement.text)
        except MtError as error:
            self._note(number, ended_at=now(), error=error)
            return False
        with self._lock:
            self._steps[number] = replace(self._steps[number], operation=operation)
            stopped = self._stopped
        if stopped:
            self.stop()
        while not operation.wait(POLL_S):
            pass
        result = operation.result
        if operation.status is not OperationStatus.FINISHED or result is None:
            self._note(number, ended_at=now(), error=None)
            return False
        result.rows.on_end(lambda error: self._note(number, ended_at=now(), error=error))
        if number + 1 < len(self._steps):
            _await_rows(result.rows)
        return self._steps[number].error is None and not self._stopped

    def _note(self, number: int, *, ended_at: datetime, error: MtError | None) -> None:
        with self._lock:
            self._steps[number] = replace(self._steps[number], ended_at=ended_at, error=error)


def _await_rows(rows: ResultRows) -> None:
    """Wait until *rows* are complete, or more than `MOST_AWAITED`."""
    while rows.running and not rows.available(MOST_AWAITED, 1, POLL_S):
        pass
