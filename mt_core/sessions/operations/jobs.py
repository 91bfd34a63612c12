"""Jobs: statements and refreshes of all sessions, which SHOW JOBS lists and STOP JOB cancels.

A job outlives its operation and even its session, so neither can store its state. There are three kinds of
jobs, each stored in one place. Queries are in memory, because they end with the gateway. Changes of data and
detached streams are in the job store, which survives a restart. Refreshes are not stored as jobs but derived
from the run ledger; each table with a CONTINUOUS refresh is one job that runs until it is suspended.

`_stops` contains a callback for each statement that runs in this process. Any other job is stopped through
the component that stores its state. `REMEMBERED` limits how many ended jobs are listed, and therefore the
memory that queries occupy.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import dropwhile, islice

from mt_core.base.secrets import statement_text, without_passwords
from mt_core.base.tokens import TokenKind, significant
from mt_core.clock import Clock
from mt_core.errors import (
    Canceled,
    DefinitionInvalid,
    IllegalStatus,
    NotMaterializedTable,
    OperationNotFound,
    QueryFailed,
    SqlSyntaxError,
    TableBusy,
    TableExists,
    TableNotFound,
    TableProtected,
    Unsupported,
)
from mt_core.jobs.store import JobStore
from mt_core.model.job import OPEN, QUERIES, REFUSED, Job, JobStatus
from mt_core.model.run import REFRESHES, RunKind, RunStatus
from mt_core.model.run import TERMINAL as RUN_ENDS
from mt_core.model.stream import StopRequest, StreamDefinition
from mt_core.model.table import TableIdentifier
from mt_core.sessions.operations.operation import Operation
from mt_core.sessions.ports import Runs, StatementResult
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import CREATE_TABLE_AS, REPLACE_TABLE_AS, SELECT
from mt_core.streaming.owner import StreamOwner
from mt_core.tables.registry import JobPlace, Transaction
from mt_core.tables.views.continuous_job import ContinuousJob
from mt_core.tables.views.run_view import RunView

REMEMBERED = 1000
_REFUSALS = (
    DefinitionInvalid,
    IllegalStatus,
    NotMaterializedTable,
    SqlSyntaxError,
    TableBusy,
    TableExists,
    TableNotFound,
    TableProtected,
    Unsupported,
)
LONGEST_STATEMENT = 10_000
_BEFORE_NAME = {
    "INTO",
    "OVERWRITE",
    "MATERIALIZED",
    "TABLE",
    "UPDATE",
    "DELETE",
    "FROM",
    "IF",
    "NOT",
    "EXISTS",
}


_OF_RUN: Mapping[RunStatus, JobStatus] = {
    # The process of the last attempt was lost, and the run waits for the next attempt.
    RunStatus.QUEUED: JobStatus.RESTARTING,
    RunStatus.COALESCED: JobStatus.RESTARTING,
    RunStatus.RUNNING: JobStatus.RUNNING,
    RunStatus.SUCCEEDED: JobStatus.FINISHED,
    RunStatus.SKIPPED: JobStatus.FINISHED,
    RunStatus.FAILED: JobStatus.FAILED,
    RunStatus.CANCELED: JobStatus.CANCELED,
}


class Jobs:
    """The jobs of a gateway: recent queries in memory, changes in the job store, refreshes in the run ledger.

    Thread-safe.
    """

    def __init__(
        self,
        clock: Clock,
        runs: Runs,
        store: JobStore,
        *,
        streams: StreamOwner | None = None,
        remembered: int = REMEMBERED,
    ) -> None:
        self._clock, self._runs, self._store, self._remembered = clock, runs, store, remembered
        self._streams = streams
        self._lock = threading.Lock()
        self._queries: OrderedDict[str, Job] = OrderedDict()
        # Callbacks that stop the statements running in this process, by job id.
        self._stops: dict[str, Callable[[], None]] = {}

    def jobs(self) -> Sequence[Job]:
        """Return recent queries and changes, all open changes, and running refreshes, oldest first."""
        stored = (*reversed(self._store.newest(self._remembered)), *self._store.open())
        jobs = [*{job.job_id: job for job in stored}.values()]
        with self._lock:
            jobs += self._queries.values()
        jobs += [_job_of(refresh) for refresh in self._runs.running_jobs()]
        jobs += [_job_of_table(job) for job in self._runs.continuous_jobs()]
        return sorted(jobs, key=lambda job: job.started_at)

    def page(
        self, tx: Transaction, *, before: JobPlace | None, limit: int, statuses: Collection[JobStatus]
    ) -> Sequence[Job]:
        """Return up to *limit* jobs with *statuses* that stand after the place *before* (None: the newest).

        They are sorted by place, newest first. Unlike `jobs`, all stored changes are among them.
        """
        with tx.past_unreadable():
            running = tx.runs.newest(statuses=(RunStatus.RUNNING,))
            refreshes = [
                RunView.of(run, tx.tables.get(run.table_id))
                for run in running
                if run.job_id is not None and run.kind is not RunKind.CONTINUOUS
            ]
            tables = [ContinuousJob.of(table) for table in tx.tables.continuous()]
        jobs = [*self._store.page(tx, before=before, limit=limit, statuses=statuses)]
        with self._lock:
            jobs += self._queries.values()
        jobs += map(_job_of, refreshes)
        jobs += [_job_of_table(table) for table in tables if table is not None]
        following = [
            job for job in jobs if job.status in statuses and (before is None or place_of(job) < before)
        ]
        return sorted(following, key=place_of, reverse=True)[:limit]

    def job(self, job_id: str) -> Job:
        """Return the job with *job_id*. Raises OperationNotFound."""
        with self._lock:
            query = self._queries.get(job_id)
        if (job := query or self._store.get(job_id)) is not None:
            return job
        continuous = self._continuous(job_id)
        return _job_of(self._refresh(job_id)) if continuous is None else _job_of_table(continuous)

    def stop(self, job_id: str, *, savepoint: bool = False, drop: bool = False) -> str | None:
        """Cancel a job. A continuous refresh is stopped by suspending its table.

        A detached job ends asynchronously. With *savepoint*, returns the last published snapshot of a
        continuous refresh; otherwise returns None. Raises OperationNotFound if there is no such job, and
        IllegalStatus if it has ended. Raises Unsupported for *savepoint* or *drop* of a batch job, which has
        no checkpoint and no table of its own.
        """
        job = self._store.get(job_id)
        if job is not None and job.definition is not None and job.definition.keeps is not None:
            self._suspend_table(job, job.definition, plain=not (savepoint or drop))
            return None
        continuous = self._continuous(job_id)
        if continuous is None or drop:
            self._refuse_of_streams(job_id, savepoint=savepoint, drop=drop)
            self._stop(job_id)
            return None
        self._runs.stop_continuous(continuous)
        return self._runs.last_version(continuous) if savepoint else None

    def _stop(self, job_id: str) -> None:
        with self._lock:
            job, stop = self._queries.get(job_id), self._stops.get(job_id)
        if stop is not None:
            stop()
            return
        job = job or self._store.get(job_id)
        if (
            job is not None
            and job.definition is not None
            and job.status in OPEN
            and self._streams is not None
        ):
            self._streams.stop(job_id, StopRequest())
            return
        if job is None:
            refresh = self._refresh(job_id)
            job = _job_of(refresh)
            if refresh.run.status not in RUN_ENDS:
                self._runs.cancel_run(refresh.run.run_id)
                return
        raise IllegalStatus(f"Job {job.job_id} is {job.status} and cannot be stopped any more.")

    @contextmanager
    def running(
        self,
        operation: Operation,
        statements: Sequence[ReadStatement],
        cancel: Callable[[str], None],
        *,
        session: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> Iterator[Callable[[StatementResult], None]]:
        """Register the block as the operation's job if *statements* query or change data.

        *cancel* stops the job's work in Spark. For a change of data, the hooks in `job.hooks` of *properties*
        are called. The block passes its result to the yielded callable, because the job of a query ends only
        when all its rows have been read.
        """
        if Trait.JOB not in statements[0].traits:
            yield lambda result: None
            return
        job_id = operation.planned_job_id

        def stop() -> None:
            # The operation may already be closed, because its job outlives it.
            with suppress(IllegalStatus):
                operation.cancel()
            cancel(job_id)

        job = job_of_statements(operation, statements, session, self._clock.now())
        if job.kind not in QUERIES:
            self._store.begin(replace(job, hooks=self._store.hooks.attached(properties or {})))
        self._begin(job, stop)
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
            self._end(job_id, None, result)

    def _begin(self, job: Job, stop: Callable[[], None]) -> None:
        with self._lock:
            self._stops[job.job_id] = stop
            if job.kind not in QUERIES:
                return
            self._queries[job.job_id] = job
            ended = [each for each in self._queries if each not in self._stops]
            for each in ended[: max(0, len(self._queries) - self._remembered)]:
                del self._queries[each]

    def _end(self, job_id: str, error: BaseException | None, result: StatementResult | None = None) -> None:
        ended_by_error = JobStatus.CANCELED if isinstance(error, Canceled) else JobStatus.FAILED
        status = JobStatus.FINISHED if error is None else ended_by_error
        refused = REFUSED if _is_refusal(error) else ""
        text = f"{refused}{without_passwords(str(error))}" if status is JobStatus.FAILED else None
        with self._lock:
            query = self._queries.get(job_id)
            if query is not None:
                self._queries[job_id] = query.advance(status, error=text, finished_at=self._clock.now())
        if query is None:
            rows_written, rows_read = (
                (result.affected_rows, result.rows_read) if result is not None else (None, None)
            )
            self._store.end(job_id, status, rows_written=rows_written, rows_read=rows_read, error=text)
        with self._lock:
            self._stops.pop(job_id, None)

    def _refuse_of_streams(self, job_id: str, *, savepoint: bool, drop: bool) -> None:
        """Raise Unsupported for options of STOP JOB that apply only to streams."""
        if drop:
            raise Unsupported(
                f"STOP JOB … WITH DROP: job {self.job(job_id).job_id} is not a streaming job, "
                f"and stopping it leaves no table; use STOP JOB '{job_id}'."
            )
        if savepoint:
            raise Unsupported(
                f"STOP JOB … WITH SAVEPOINT: job {self.job(job_id).job_id} is not a streaming job, "
                f"and has no checkpoint; use STOP JOB '{job_id}'."
            )

    def _suspend_table(self, job: Job, definition: StreamDefinition, *, plain: bool) -> None:
        """Suspend the materialized table that a streaming job maintains."""
        [name] = definition.writes
        table = TableIdentifier(name[0], name[1:-1], name[-1])
        if not plain:
            raise Unsupported(
                f"Job {job.job_id} maintains materialized table {table}, which stores its position in the "
                f"sources: STOP JOB '{job.job_id}' suspends both, ALTER MATERIALIZED TABLE {table} "
                f"RESUME continues them, DROP MATERIALIZED TABLE {table} ends both."
            )
        self._runs.stop_continuous(ContinuousJob(job_id=job.job_id, table=table, started_at=job.started_at))

    def _continuous(self, job_id: str) -> ContinuousJob | None:
        return next((job for job in self._runs.continuous_jobs() if job.job_id == job_id), None)

    def _refresh(self, job_id: str) -> RunView:
        refresh = self._runs.job(job_id)
        if refresh is None:
            raise OperationNotFound(f"Job {job_id} is not known; SHOW JOBS lists the jobs.", job=job_id)
        return refresh


def place_of(job: Job) -> JobPlace:
    """Return the place of a job among all others: later ones have a higher place."""
    return job.started_at, job.job_id


def job_of_statements(
    operation: Operation, statements: Sequence[ReadStatement], session: str, now: datetime
) -> Job:
    """Return the job of *statements* that starts at *now*."""
    job = Job(
        job_id=operation.planned_job_id,
        kind="STATEMENT SET" if len(statements) > 1 else statements[0].type.replace("_", " "),
        name=job_name(statements[0]),
        status=JobStatus.RUNNING,
        started_at=now,
        session=session,
        user=operation.caller,
    )
    if job.kind in QUERIES:
        return job
    targets = dict.fromkeys(filter(None, map(target_of, statements)))
    text = ";\n".join(each.written for each in statements)
    return replace(job, statement=statement_text(text, LONGEST_STATEMENT), target=", ".join(targets) or None)


def _job_of(refresh: RunView) -> Job:
    run = refresh.run
    return Job(
        job_id=run.job_id or "",
        kind=run.kind.value if run.kind not in REFRESHES else "REFRESH",
        name=f"refresh-{refresh.table or run.table_id}",
        status=_OF_RUN[run.status],
        started_at=run.started_at or run.requested_at,
        user=run.requested_by or "",
        target=str(refresh.table) if refresh.table is not None else None,
        rows_written=run.rows,
        error=run.error,
        finished_at=run.finished_at,
    )


def _job_of_table(job: ContinuousJob) -> Job:
    return Job(
        job_id=job.job_id,
        kind="CONTINUOUS REFRESH",
        name=f"refresh-{job.table}",
        status=JobStatus.RUNNING,
        started_at=job.started_at,
        target=str(job.table),
    )


def job_name(statement: ReadStatement) -> str:
    """Return the name of a job: `collect` for a query, or the type of a change and its target table."""
    if statement.type == SELECT:
        return "collect"
    return f"{statement.type.lower().replace('_', '-')}-{target_of(statement)}".removesuffix("-")


def target_of(statement: ReadStatement) -> str:
    """Return the target table of a change as the statement writes it, or "" if it names none."""
    kind = statement.type
    first = {CREATE_TABLE_AS: "TABLE", REPLACE_TABLE_AS: "TABLE"}.get(kind, kind)
    tokens = significant(statement.sent, statement.verb_offset)
    rest = islice(dropwhile(lambda token: token.keyword != first, tokens), 1, None)
    token, name = next((each for each in rest if each.keyword not in _BEFORE_NAME), None), list[str]()
    while token is not None and token.kind in {TokenKind.WORD, TokenKind.IDENTIFIER}:
        name.append(token.value)
        dot = next(rest, None)
        token = next(rest, None) if dot is not None and dot.text == "." else None
    return ".".join(name)


def _is_refusal(error: BaseException | None) -> bool:
    """Return whether *error* rejected the statement before anything ran, as for a missing table."""
    # SQLSTATE class 42: syntax error or access rule violation.
    return isinstance(error, _REFUSALS) or (
        isinstance(error, QueryFailed) and (error.sqlstate or "").startswith("42")
    )
