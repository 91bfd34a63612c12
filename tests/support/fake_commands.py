"""FakeTableCommands and FakeRuns: materialized tables with prepared outcomes, and runs that tests end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from mt_core.clock import Clock
from mt_core.errors import OperationNotFound
from mt_core.model.partition import WHOLE
from mt_core.model.progress import Progress
from mt_core.model.run import TERMINAL, RefreshRun, RunKind, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.sql.statements import Statement
from mt_core.tables.table_commands import CommandContext, CommandOutcome, RefreshRequest
from mt_core.tables.views.continuous_job import ContinuousJob
from mt_core.tables.views.run_view import RunView

# If the run of a key has such a status, a request with that key starts a new run.
_KEYS_END = frozenset({RunStatus.FAILED, RunStatus.CANCELED})


class FakeTableCommands:
    """Returns the prepared outcome of each statement class, or OK. Records its calls."""

    def __init__(self) -> None:
        self.outcomes: dict[type, CommandOutcome | Exception] = {}
        self.executed: list[tuple[Statement, CommandContext]] = []

    def execute(self, statement: Statement, context: CommandContext) -> CommandOutcome:
        self.executed.append((statement, context))
        outcome = self.outcomes.get(type(statement), CommandOutcome())
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class FakeRuns:
    """A ledger in memory. Requests queue runs, and the test ends them. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._runs: dict[str, RefreshRun] = {}
        self.requests: list[RefreshRequest] = []
        self.canceled: list[str] = []
        self.continuous: list[ContinuousJob] = []
        self.refusal: Exception | None = None
        self.tasks: Progress | None = None

    def request_refresh(self, request: RefreshRequest) -> RefreshRun:
        """Queue a run for *request*, or attach the request to the run with its key.

        Raises `refusal` if the test has set it.
        """
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        key = request.request_key
        same = [
            run
            for run in self._runs.values()
            if key and run.request_key == key and run.status not in _KEYS_END
        ]
        if not same:
            return self.queue(request_key=key, request_attempt=request.attempt)
        return self._put(
            replace(same[0], request_attempt=max(request.attempt or 0, same[0].request_attempt or 0))
        )

    def queue(self, **facts: Any) -> RefreshRun:
        """Add a QUEUED run."""
        run = RefreshRun(
            run_id=str(uuid4()),
            table_id="table",
            kind=RunKind.MANUAL,
            scope=WHOLE,
            requested_at=self._clock.now(),
        )
        return self._put(replace(run, **facts))

    def move(self, run_id: str, *targets: RunStatus, **facts: Any) -> RefreshRun:
        """Advance a run through the statuses *targets*. *facts* belong to the last status."""
        run = self._runs[run_id]
        for target in targets:
            run = run.advance(target)
        return self._put(replace(run, **facts))

    def run(self, run_id: str) -> RefreshRun | None:
        return self._runs.get(run_id)

    def wait_run(self, run_id: str, timeout_s: float) -> RefreshRun:
        with self._changed:
            if run_id not in self._runs:
                raise OperationNotFound(f"There is no run {run_id}.")
            self._changed.wait_for(lambda: self._runs[run_id].status in TERMINAL, timeout_s)
            return self._runs[run_id]

    def cancel_run(self, run_id: str, attempt: int | None = None) -> RefreshRun:
        if run_id not in self._runs:
            raise OperationNotFound(f"There is no run {run_id}.")
        run = self._runs[run_id]
        if run.status in TERMINAL or (attempt is not None and attempt < (run.request_attempt or 0)):
            return run
        self.canceled.append(run_id)
        return self.move(run_id, RunStatus.CANCELED)

    def progress(self, run_id: str) -> Progress | None:
        return self.tasks

    def running_jobs(self) -> Sequence[RunView]:
        return [_job(run) for run in self._runs.values() if run.status is RunStatus.RUNNING and run.job_id]

    def continuous_jobs(self) -> Sequence[ContinuousJob]:
        return list(self.continuous)

    def stop_continuous(self, job: ContinuousJob) -> None:
        self.continuous.remove(job)

    def last_version(self, job: ContinuousJob) -> str:
        return "1"

    def job(self, job_id: str) -> RunView | None:
        return next((_job(run) for run in self._runs.values() if run.job_id == job_id), None)

    def _put(self, run: RefreshRun) -> RefreshRun:
        with self._changed:
            self._runs[run.run_id] = run
            self._changed.notify_all()
            return run


def _job(run: RefreshRun) -> RunView:
    return RunView(run=run, table=TableIdentifier("lake", ("default",), run.table_id))
