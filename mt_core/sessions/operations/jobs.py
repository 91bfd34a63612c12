"""Jobs: statements of all sessions and refreshes on Spark, which SHOW JOBS lists and STOP JOB cancels."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import dropwhile, islice

from mt_core.clock import Clock
from mt_core.errors import Canceled, IllegalStatus, OperationNotFound
from mt_core.model.run import TERMINAL, RunStatus
from mt_core.sessions.operations.operation import Operation
from mt_core.sessions.ports import Runs, StatementResult
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import CREATE_TABLE_AS, REPLACE_TABLE_AS, SELECT
from mt_core.tables.views.continuous_job import ContinuousJob
from mt_core.tables.views.run_view import RunView
from mt_core.tokens import TokenKind, significant

REMEMBERED = 1000
_BEFORE_NAME = {"INTO", "OVERWRITE", "MATERIALIZED", "TABLE", "UPDATE", "DELETE", "FROM", "IF", "NOT", "EXISTS"}


class JobStatus(StrEnum):
    """The status of a job, in Flink's words."""

    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One query, change or refresh; `affected_rows` are those that it changed, None where that is not known."""

    job_id: str
    name: str
    status: JobStatus
    started_at: datetime
    affected_rows: int | None = None
    is_query: bool = False


_OF_RUN: Mapping[RunStatus, JobStatus] = {
    # Its process was lost, and its run waits for the next attempt.
    RunStatus.QUEUED: JobStatus.RESTARTING,
    RunStatus.COALESCED: JobStatus.RESTARTING,
    RunStatus.RUNNING: JobStatus.RUNNING,
    RunStatus.SUCCEEDED: JobStatus.FINISHED,
    RunStatus.SKIPPED: JobStatus.FINISHED,
    RunStatus.FAILED: JobStatus.FAILED,
    RunStatus.CANCELED: JobStatus.CANCELED,
}


class Jobs:
    """The last jobs of statements, from memory, and those of refreshes, from the run ledger; safe from any thread."""

    def __init__(self, clock: Clock, runs: Runs, *, remembered: int = REMEMBERED) -> None:
        self._clock, self._runs, self._remembered = clock, runs, remembered
        self._lock = threading.Lock()
        self._statements: OrderedDict[str, Job] = OrderedDict()
        # How to stop each job that runs.
        self._stops: dict[str, Callable[[], None]] = {}

    def jobs(self) -> Sequence[Job]:
        """Return the jobs of statements, and of the refreshes that run, oldest first."""
        with self._lock:
            statements = list(self._statements.values())
        refreshes = [_job_of(refresh) for refresh in self._runs.running_jobs()]
        refreshes += [_job_of_table(job) for job in self._runs.continuous_jobs()]
        return sorted([*statements, *refreshes], key=lambda job: job.started_at)

    def job(self, job_id: str) -> Job:
        """Return a job; raises OperationNotFound."""
        with self._lock:
            statement = self._statements.get(job_id)
        if statement is None and (continuous := self._continuous(job_id)) is not None:
            return _job_of_table(continuous)
        return statement or _job_of(self._refresh(job_id))

    def stop(self, job_id: str) -> None:
        """Cancel a job, of a continuous refresh by suspending its table.

        Raises OperationNotFound, or IllegalStatus for one that has ended.
        """
        if (continuous := self._continuous(job_id)) is not None:
            self._runs.stop_continuous(continuous)
            return
        with self._lock:
            job, stop = self._statements.get(job_id), self._stops.get(job_id)
        if job is None:
            refresh = self._refresh(job_id)
            job = _job_of(refresh)
            if refresh.run.status not in TERMINAL:
                self._runs.cancel_run(refresh.run.run_id)
                return
        if stop is None:
            raise IllegalStatus(f"Job {job.job_id} is {job.status} and cannot be stopped any more.")
        stop()

    @contextmanager
    def running(
        self, operation: Operation, statement: ReadStatement, cancel: Callable[[str], None]
    ) -> Iterator[Callable[[StatementResult], None]]:
        """List the block as the operation's job if *statement* queries or changes data; *cancel* ends Spark's work by job id.

        The block passes its result to the callable that this yields: the job of a query ends when its last row is read.
        """
        if Trait.JOB not in statement.traits:
            yield lambda result: None
            return
        job_id = operation.planned_job_id

        def stop() -> None:
            # A job outlives its operation, which may be closed.
            with suppress(IllegalStatus):
                operation.cancel()
            cancel(job_id)

        self._begin(job_id, statement, stop)
        results: list[StatementResult] = []
        try:
            yield results.append
        except BaseException as error:
            self._end(job_id, error)
            raise
        result = results[0] if results else None
        if result is not None and result.rows is not None:
            result.rows.on_end(partial(self._end, job_id))
        else:
            self._end(job_id, None, result.affected_rows if result is not None else None)

    def _begin(self, job_id: str, statement: ReadStatement, stop: Callable[[], None]) -> None:
        job = Job(
            job_id=job_id,
            name=job_name(statement),
            status=JobStatus.RUNNING,
            started_at=self._clock.now(),
            is_query=Trait.CHANGE not in statement.traits,
        )
        with self._lock:
            self._statements[job_id], self._stops[job_id] = job, stop
            ended = [each for each in self._statements if each not in self._stops]
            for each in ended[: max(0, len(self._statements) - self._remembered)]:
                del self._statements[each]

    def _end(self, job_id: str, error: BaseException | None, affected_rows: int | None = None) -> None:
        ended_by_error = JobStatus.CANCELED if isinstance(error, Canceled) else JobStatus.FAILED
        status = JobStatus.FINISHED if error is None else ended_by_error
        with self._lock:
            self._stops.pop(job_id, None)
            if job := self._statements.get(job_id):
                self._statements[job_id] = replace(job, status=status, affected_rows=affected_rows)

    def _continuous(self, job_id: str) -> ContinuousJob | None:
        return next((job for job in self._runs.continuous_jobs() if job.job_id == job_id), None)

    def _refresh(self, job_id: str) -> RunView:
        refresh = self._runs.job(job_id)
        if refresh is None:
            raise OperationNotFound(f"Job {job_id} is not known; SHOW JOBS lists those there are.", job=job_id)
        return refresh


def _job_of(refresh: RunView) -> Job:
    run = refresh.run
    return Job(
        job_id=run.job_id or "",
        name=f"refresh-{refresh.table or run.table_id}",
        status=_OF_RUN[run.status],
        started_at=run.started_at or run.requested_at,
        affected_rows=run.rows,
    )


def _job_of_table(job: ContinuousJob) -> Job:
    return Job(job_id=job.job_id, name=f"refresh-{job.table}", status=JobStatus.RUNNING, started_at=job.started_at)


def job_name(statement: ReadStatement) -> str:
    """Return the name of a job: collect for a query, else the kind of change and the table it goes to."""
    kind = statement.type
    if kind == SELECT:
        return "collect"
    first = {CREATE_TABLE_AS: "TABLE", REPLACE_TABLE_AS: "TABLE"}.get(kind, kind)
    tokens = significant(statement.sent, statement.verb_offset)
    rest = islice(dropwhile(lambda token: token.keyword != first, tokens), 1, None)
    token, name = next((each for each in rest if each.keyword not in _BEFORE_NAME), None), list[str]()
    while token is not None and token.kind in {TokenKind.WORD, TokenKind.IDENTIFIER}:
        name.append(token.value)
        dot = next(rest, None)
        token = next(rest, None) if dot is not None and dot.text == "." else None
    words = kind.lower().replace("_", "-")
    return f"{words}-{'.'.join(name)}".removesuffix("-")
