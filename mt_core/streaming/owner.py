"""The owner of detached jobs: starts their streams, restarts failed ones, and stops them on request.

A detached job outlives its session, its gateway process and its Spark JVM. Its durable state is its row in
the registry; this process has only the streams that it has started (`_runs`). `pass_over` compares the two
for each job, once a second or when a request wakes it. The pure function `lifecycle.next_step` decides the
next step, and the owner takes it. Steps that call the engine run in a pool, one at a time for each job
(`_busy`), because stopping a stream may take as long as a batch. All other steps run in the pass itself.

Every change of a row is a function of the stored row, applied in a transaction, so a request that arrives
during a step is never lost. A step that fails leaves the row unchanged, and the next pass decides again. The
engine and its tables fence off the old attempt of a lost process. The limits on running streams and on starts
per pass protect the shared Spark. Without them, all streams would restart at the same moment after a JVM was
lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from mt_core.base.background import attempt
from mt_core.base.identifiers import display_name
from mt_core.base.plural import plural
from mt_core.base.secrets import without_passwords
from mt_core.clock import Clock
from mt_core.errors import EngineUnavailable, IllegalStatus, MtError, OperationNotFound, Unsupported
from mt_core.jobs.store import JobStore
from mt_core.model.job import TERMINAL, Job, JobStatus
from mt_core.model.stream import StopRequest, StreamDefinition, StreamProgress
from mt_core.streaming import lifecycle
from mt_core.streaming.engine import StreamEngine
from mt_core.streaming.lifecycle import Step, state_of

log = logging.getLogger(__name__)
LOOK_EVERY = timedelta(seconds=1)
MOST_RUNNING = 50
# The number of starts in one pass. Without a limit, all streams would compete for Spark after a JVM was lost.
STARTS_A_PASS = 2
_THREADS = 8
_NO_TIME = timedelta(0)
_Change = Callable[[Job], Job]


@dataclass(frozen=True, slots=True)
class _Run:
    """A stream that this process has started, and its job at that moment.

    `began` is when it started, and `recorded` when its progress was last stored, both in elapsed time.
    `refusal` replaces the progress of a stream that could not start.
    """

    before: Job
    began: timedelta
    recorded: timedelta
    refusal: StreamProgress | None = None


class StreamOwner:
    """Owns the detached jobs in *store*. *ready* returns whether a stream can start now.

    Up to *most_running* streams run at a time; other jobs wait. Thread-safe.
    """

    def __init__(
        self,
        store: JobStore,
        engine: StreamEngine,
        *,
        clock: Clock,
        ready: Callable[[], bool],
        most_running: int = MOST_RUNNING,
    ) -> None:
        self._store, self._engine, self._clock, self._ready = store, engine, clock, ready
        self._most_running = most_running
        self._runs: dict[str, _Run] = {}
        # Jobs with a step in the pool. Every access is a single atomic operation of the set.
        self._busy: set[str] = set()
        # Jobs whose wait for the engine has been logged already.
        self._awaiting_stop: set[str] = set()
        self._woken = threading.Event()
        self._closed = False
        self._pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="stream-owner")

    def submit(self, job: Job) -> None:
        """Store a detached job, which starts when the limit allows it. Raises RegistryError."""
        self._store.begin(job)
        self._woken.set()

    def stop(self, job_id: str, request: StopRequest) -> None:
        """Store a stop request for the gateway that owns the job.

        Raises IllegalStatus if the job has ended.
        """
        if self._store.update(job_id, partial(lifecycle.stop_requested, request=request)) is None:
            raise IllegalStatus(f"Job {job_id} has ended and cannot be stopped any more.")
        self._woken.set()

    def check_stop(self, job: Job, request: StopRequest) -> None:
        """Raise IllegalStatus, with an alternative, if *request* would lose rows or has nothing to save.

        Rows would be lost if the job has already written to the table that it creates.
        """
        definition, waits = job.definition, job.status is JobStatus.SUSPENDED
        if definition is not None and definition.keeps is not None:
            return
        if waits and request.savepoint is not None:
            raise IllegalStatus(f"Job {job.job_id} waits, and has nothing to save: {job.error}")
        if definition is None or definition.creates is None:
            if request.drop:
                raise IllegalStatus(
                    f"STOP JOB … WITH DROP: job {job.job_id} creates no table; use STOP JOB '{job.job_id}'."
                )
            return
        rows, table = (
            self._engine.created_rows(job.job_id, definition),
            display_name(definition.creates.table),
        )
        if rows is None and request.savepoint is not None:
            raise IllegalStatus(
                f"Job {job.job_id} has not created table {table} yet, and has nothing to save; "
                f"STOP JOB '{job.job_id}' ends it without a trace."
            )
        # A job that waits for a missing file has nothing to save, and its table stays unless WITH DROP is
        # given.
        if rows is not None and request.savepoint is None and not (request.drop or waits):
            raise IllegalStatus(
                f"Job {job.job_id} has created table {table}, which has {rows} {plural(rows, 'row')}: "
                f"STOP JOB '{job.job_id}' WITH SAVEPOINT keeps the table, WITH DROP drops it."
            )

    def wait_settled(self, job_id: str, timeout_s: float) -> Job | None:
        """Return the job after it has ended or its stop was refused, or None after *timeout_s* seconds.

        Raises OperationNotFound for an unknown job.
        """

        def settled() -> Job | None:
            job = self._store.get(job_id)
            if job is None:
                raise OperationNotFound(
                    f"Job {job_id} is not known; SHOW JOBS lists those there are.", job=job_id
                )
            return job if job.status in TERMINAL or state_of(job).refused is not None else None

        return self._store.changed.until(settled, timeout_s)

    def watch(self) -> None:
        """Wait until the next pass is due, then make it."""
        self._clock.wait(LOOK_EVERY, self._woken)
        self._woken.clear()
        self.pass_over()

    def close(self) -> None:
        """Take no further steps.

        Streams run as long as their engine, and its end does not count as their failure.
        """
        self._closed = True
        self._woken.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def pass_over(self) -> Sequence[Future[None]]:
        """Take the next step of each job and return the futures of the steps that run in the pool."""
        jobs, begun = self._store.streams(), list[Future[None]]()
        for gone in set(self._runs) - {job.job_id for job in jobs}:
            self._runs.pop(gone, None)
        starts = STARTS_A_PASS if self._ready() else 0
        for job in jobs:
            if job.job_id in self._busy:
                continue
            run, now, elapsed = self._runs.get(job.job_id), self._clock.now(), self._clock.elapsed()
            progress = (run.refusal or self._engine.progress(job.job_id)) if run is not None else None
            ran = elapsed - run.began if run is not None else _NO_TIME
            if self._closed:
                break
            may_start = starts > 0 and len(self._runs) < self._most_running
            redefined = run is not None and run.before.definition != job.definition
            step = lifecycle.next_step(
                job, progress, ran=ran, may_start=may_start, now=now, redefined=redefined
            )
            if step is Step.START:
                starts -= 1
                self._runs[job.job_id] = _Run(job, elapsed, elapsed)
            begun += self._take(step, job, progress or StreamProgress())
        return begun

    def forget_old(self) -> int:
        """Delete the checkpoints of jobs that ended before the retained history.

        Return the number of jobs.
        """
        ended = self._store.ended_streams()
        for job in ended:
            if job.definition is not None:
                self._engine.forget(job.job_id, job.definition)
            self._store.forget_definition(job.job_id)
        return len(ended)

    # -------------------------------------------------------------------------------------------------- steps

    def _take(self, step: Step, job: Job, progress: StreamProgress) -> Sequence[Future[None]]:
        match step:
            case Step.WAIT:
                return ()
            case Step.RECORD | Step.RESTART | Step.REDEFINE:
                self._note(step, job, progress)
                return ()
            case Step.START:
                work = self._start
            case Step.FINISH:
                work = partial(self._finish, progress)
            case Step.FAIL:
                work = partial(self._fail, progress)
            case Step.STOP:
                work = partial(self._stop, progress)
            case Step.SUSPEND:
                work = partial(self._await_missing, progress)
            case Step.RECHECK:
                work = self._recheck
            case _:
                raise MtError(f"Job {job.job_id}: unknown step {step}.")
        return self._begin(job, work)

    def _note(self, step: Step, job: Job, progress: StreamProgress) -> None:
        """Take a step that does not call the engine."""
        match step:
            case Step.RESTART:
                self._restart(job, progress)
            case Step.REDEFINE:
                self._redefine(job, progress)
            case _:
                self._record(job, progress)

    def _begin(self, job: Job, step: Callable[[Job, StreamDefinition], None]) -> Sequence[Future[None]]:
        """Run a step in the pool. Until it ends, no other step begins for the job."""
        definition = job.definition
        if definition is None:
            return ()

        def carry_out() -> None:
            try:
                attempt(f"job {job.job_id}", partial(step, job, definition))
            finally:
                self._busy.discard(job.job_id)
                self._store.changed.set()

        self._busy.add(job.job_id)
        return [self._pool.submit(carry_out)]

    def _start(self, job: Job, definition: StreamDefinition) -> None:
        started = self._store.update(job.job_id, lifecycle.begun)
        if started is None:
            return
        try:
            self._engine.start(job.job_id, definition, started.restarts + 1)
        except EngineUnavailable as cause:
            # The stream was not tried, so this does not count as its failure.
            self._runs.pop(job.job_id, None)
            self._pause(job.job_id, str(cause), failures=state_of(job).failures, first=lambda job: job)
        except MtError as cause:
            refusal = StreamProgress(error=str(cause), final=isinstance(cause, Unsupported))
            self._runs[job.job_id] = replace(self._runs[job.job_id], refusal=refusal)

    def _record(self, job: Job, progress: StreamProgress) -> None:
        run, now = self._runs[job.job_id], self._clock.elapsed()
        change = partial(lifecycle.recorded, progress=progress, before=run.before)
        if now - run.recorded >= lifecycle.RECORD_EVERY and change(job) != job:
            self._runs[job.job_id] = replace(run, recorded=now)
            self._store.update(job.job_id, change)

    def _redefine(self, job: Job, progress: StreamProgress) -> None:
        """Make the next pass start a new attempt with the new definition, which ends this attempt."""
        run = self._runs.pop(job.job_id)
        self._store.update(job.job_id, partial(lifecycle.recorded, progress=progress, before=run.before))
        self._woken.set()

    def _restart(self, job: Job, progress: StreamProgress) -> None:
        run = self._runs.pop(job.job_id)
        failures = lifecycle.failures_after(state_of(job), progress, self._clock.elapsed() - run.began)
        error = progress.error or lifecycle.LOST
        log.warning("job %s restarts: %s", job.job_id, error, extra={"action": "stream_restarts"})
        record = partial(lifecycle.recorded, progress=progress, before=run.before)
        self._pause(job.job_id, error, failures=failures, first=record)

    def _pause(self, job_id: str, error: str, *, failures: int, first: _Change) -> None:
        until = self._clock.now() + lifecycle.pause_after(failures)
        pause = partial(lifecycle.paused, error=without_passwords(error), failures=failures, until=until)
        self._store.update(job_id, lambda job: pause(first(job)))

    def _finish(self, progress: StreamProgress, job: Job, definition: StreamDefinition) -> None:
        self._engine.stop(job.job_id, definition)
        self._end(job, JobStatus.FINISHED, progress)

    def _await_missing(self, progress: StreamProgress, job: Job, definition: StreamDefinition) -> None:
        """Suspend a job that cannot start because a file is missing.

        A job that maintains a table continues when the table is resumed.
        """
        try:
            self._engine.stop(job.job_id, definition)
        except MtError as cause:
            log.warning(
                "job %s is not suspended yet: %s",
                job.job_id,
                cause,
                extra={"action": "stream_suspension_waits"},
            )
            return
        look_at = None if definition.keeps is not None else self._clock.now() + lifecycle.RECHECK_AFTER
        self._interrupt(job, progress, without_passwords(progress.error or lifecycle.LOST), look_at=look_at)

    def _recheck(self, job: Job, definition: StreamDefinition) -> None:
        """Resume a job if its missing files exist again."""
        try:
            missing = self._engine.missing(job.job_id, definition)
        except MtError as cause:
            log.info("job %s stays suspended: %s", job.job_id, cause, extra={"action": "stream_look_failed"})
            missing = job.error or str(cause)
        if missing is None:
            self._store.update(job.job_id, lifecycle.resumed)
            self._woken.set()
            return
        look_at = self._clock.now() + lifecycle.RECHECK_AFTER
        self._store.update(
            job.job_id, partial(lifecycle.still_missing, error=without_passwords(missing), look_at=look_at)
        )

    def _fail(self, progress: StreamProgress, job: Job, definition: StreamDefinition) -> None:
        rows = None
        try:
            self._engine.stop(job.job_id, definition)
            if definition.creates is not None:
                rows = self._engine.created_rows(job.job_id, definition)
                if rows is None:
                    self._engine.discard(job.job_id, definition, drop=False)
        except MtError as cause:
            # A lost engine runs nothing, but the files of an unfinished table must be removed before the job
            # reports FAILED.
            if definition.creates is not None or not isinstance(cause, EngineUnavailable):
                log.warning(
                    "job %s has not failed yet: %s", job.job_id, cause, extra={"action": "stream_end_waits"}
                )
                # The next pass tries again.
                self._runs[job.job_id] = replace(self._runs[job.job_id], refusal=progress)
                return
        error = progress.error or lifecycle.LOST
        if not progress.final:
            error = f"{error} (after {lifecycle.MOST_RESTARTS} restarts without a batch)"
        if definition.creates is not None and rows is not None:
            # Readers may have used the table.
            table = display_name(definition.creates.table)
            error = (
                f"{error.rstrip('.')}. Table {table} stays, with {rows} {plural(rows, 'row')}; "
                f"DROP TABLE {table} removes it."
            )
        if definition.keeps is not None:
            # The table's rows are correct up to that batch, and the job can continue after the cause is
            # fixed.
            self._interrupt(job, progress, without_passwords(error))
            return
        self._end(job, JobStatus.FAILED, progress, error=without_passwords(error))

    def _stop(self, progress: StreamProgress, job: Job, definition: StreamDefinition) -> None:
        """Carry out the stop request. While the engine is unavailable, each pass tries again."""
        try:
            status, path = self._stopped(job, definition, state_of(job).stop or StopRequest())
        except EngineUnavailable as cause:
            if job.job_id not in self._awaiting_stop:
                self._awaiting_stop.add(job.job_id)
                log.warning(
                    "job %s is not stopped yet: %s", job.job_id, cause, extra={"action": "stream_stop_waits"}
                )
        except MtError as cause:
            # The next pass starts the stream again.
            self._runs.pop(job.job_id, None)
            self._store.update(
                job.job_id, partial(lifecycle.not_stopped, reason=without_passwords(str(cause)))
            )
        else:
            last = self._engine.progress(job.job_id)
            last = progress if last.batch is None else last
            if status is JobStatus.SUSPENDED:
                self._suspend(job, last)
            else:
                self._end(job, status, last, savepoint=path)

    def _stopped(
        self, job: Job, definition: StreamDefinition, request: StopRequest
    ) -> tuple[JobStatus, str | None]:
        """Stop a stream as requested; return the new status of its job and the path of its savepoint."""
        if request.savepoint is not None:
            self.check_stop(job, request)
            path = self._engine.savepoint(job.job_id, definition, request.savepoint, drain=request.drain)
            return JobStatus.FINISHED, path
        self._engine.stop(job.job_id, definition)
        if definition.keeps is not None and not request.drop:
            return JobStatus.SUSPENDED, None
        self.check_stop(job, request)
        if definition.creates is not None:
            self._engine.discard(job.job_id, definition, drop=request.drop)
        elif definition.keeps is not None:
            self._engine.forget(job.job_id, definition)
        return JobStatus.CANCELED, None

    def _suspend(self, job: Job, progress: StreamProgress) -> None:
        run = self._runs.pop(job.job_id, None)
        self._awaiting_stop.discard(job.job_id)
        before = run.before if run is not None else job
        self._store.update(
            job.job_id, lambda job: lifecycle.suspended(lifecycle.recorded(job, progress, before), job.error)
        )
        log.info("job %s is suspended", job.job_id, extra={"action": "stream_suspended"})

    def _interrupt(
        self, job: Job, progress: StreamProgress, error: str, *, look_at: datetime | None = None
    ) -> None:
        run = self._runs.pop(job.job_id, None)
        before = run.before if run is not None else job
        self._store.update(
            job.job_id,
            lambda job: lifecycle.interrupted(
                lifecycle.recorded(job, progress, before), error, look_at=look_at
            ),
        )
        log.warning("job %s is suspended: %s", job.job_id, error, extra={"action": "stream_suspended"})

    def _end(
        self,
        job: Job,
        status: JobStatus,
        progress: StreamProgress,
        *,
        error: str | None = None,
        savepoint: str | None = None,
    ) -> None:
        run, now = self._runs.pop(job.job_id, None), self._clock.now()
        self._awaiting_stop.discard(job.job_id)
        before = run.before if run is not None else job

        def ended(job: Job) -> Job:
            job = lifecycle.recorded(job, progress, before)
            stream = replace(state_of(job), savepoint=savepoint)
            return job.advance(status, stream=stream, error=error, finished_at=now)

        self._store.update(job.job_id, ended)
        log.info("job %s is %s", job.job_id, status, extra={"action": "stream_ended"})
