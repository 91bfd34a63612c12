"""The next step of a detached job, as a pure function of its row and of its stream's progress."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto

from mt_core.base import backoff
from mt_core.clock import is_ahead
from mt_core.model.job import Job, JobStatus
from mt_core.model.stream import StopRequest, StreamProgress, StreamState

MOST_RESTARTS = 10
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(minutes=1)
# A failure after such a long run starts a new series of failures, even if the sources had no new rows.
STEADY = timedelta(hours=1)
RECORD_EVERY = timedelta(seconds=5)
RECHECK_AFTER = timedelta(seconds=30)
LOST = "Spark ended while the stream ran"


class Step(Enum):
    """The next action of the owner on a detached job."""

    WAIT = auto()
    START = auto()
    RECORD = auto()
    RESTART = auto()
    FINISH = auto()
    FAIL = auto()
    STOP = auto()
    # Start another attempt with the new definition.
    REDEFINE = auto()
    # Suspend the job until a missing file exists again.
    SUSPEND = auto()
    RECHECK = auto()


def next_step(
    job: Job,
    progress: StreamProgress | None,
    *,
    ran: timedelta,
    may_start: bool,
    now: datetime,
    redefined: bool = False,
) -> Step:
    """Return the next step of *job*, given the *progress* of its stream.

    *progress* is None if this process has not started the stream. *ran* is the time since this process
    started it. *redefined* means that the definition of the job has changed since then.
    """
    state = state_of(job)
    if state.stop is not None:
        return Step.STOP
    if job.status is JobStatus.SUSPENDED:
        return (
            Step.RECHECK
            if state.start_at is not None and not is_ahead(state.start_at, now, LONGEST_PAUSE)
            else Step.WAIT
        )
    if progress is None:
        return Step.START if may_start and not is_ahead(state.start_at, now, LONGEST_PAUSE) else Step.WAIT
    if progress.finished:
        return Step.FINISH
    if progress.running:
        return Step.REDEFINE if redefined else Step.RECORD
    if progress.missing:
        return Step.SUSPEND
    if progress.final or failures_after(state, progress, ran) > MOST_RESTARTS:
        return Step.FAIL
    return Step.RESTART


def failures_after(state: StreamState, progress: StreamProgress, ran: timedelta) -> int:
    """Return the number of consecutive failures, including the one that *progress* reports.

    The failure of a bystander, a stream that was idle when Spark was lost, does not count.
    """
    if progress.bystander:
        return state.failures
    advanced = progress.batch is not None and progress.batch != state.batch
    return 1 if advanced or ran >= STEADY else state.failures + 1


def pause_after(failures: int) -> timedelta:
    """Return the pause before the restart that follows failure number *failures*."""
    return backoff.pause_after(failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE)


def begun(job: Job) -> Job:
    """Return *job* with a start of its stream recorded."""
    restarts = job.restarts + (job.status is not JobStatus.CREATED)
    if job.status is JobStatus.RUNNING:
        return replace(job, restarts=restarts)
    return job.advance(JobStatus.RUNNING, restarts=restarts)


def recorded(job: Job, progress: StreamProgress, before: Job) -> Job:
    """Return *job* with the *progress* of its stream. *before* is the job when the stream started."""
    state = state_of(job)
    if progress.batch is None and not (progress.rows_read or progress.rows_written):
        return job
    counted = replace(
        job,
        rows_read=_sum(before.rows_read, progress.rows_read),
        rows_written=_sum(before.rows_written, progress.rows_written),
    )
    if progress.batch is None:
        # The rows of the sources' first snapshots are counted before batch 0.
        return counted
    counted = replace(
        counted, stream=replace(state, batch=progress.batch, offsets=progress.offsets, states=progress.states)
    )
    if progress.batch == state_of(before).batch:
        return counted
    return replace(counted, stream=replace(state_of(counted), failures=0), error=None)


def paused(job: Job, error: str, *, failures: int, until: datetime) -> Job:
    """Return *job* after its stream failed, to be restarted at *until*."""
    stream = replace(state_of(job), failures=failures, start_at=until)
    if job.status is JobStatus.RUNNING:
        return job.advance(JobStatus.RESTARTING, error=error, stream=stream)
    return replace(job, error=error, stream=stream)


def not_stopped(job: Job, reason: str) -> Job:
    """Return *job* with its stop request refused for *reason*. The job continues."""
    stream = replace(state_of(job), stop=None, refused=reason)
    if job.status is JobStatus.RUNNING:
        return job.advance(JobStatus.RESTARTING, stream=stream)
    return replace(job, stream=stream)


def suspended(job: Job, error: str | None) -> Job:
    """Return *job*, which a request stopped, as SUSPENDED.

    It continues from its checkpoint when its table is resumed.
    """
    return _suspended(job, error, replace(state_of(job), stop=None, failures=0, start_at=None))


def interrupted(job: Job, error: str, *, look_at: datetime | None = None) -> Job:
    """Return *job* as SUSPENDED until its table is resumed or a missing file exists again.

    The file is checked at *look_at*. A pending stop request remains.
    """
    return _suspended(job, error, replace(state_of(job), failures=0, start_at=look_at))


def resumed(job: Job) -> Job:
    """Return a suspended *job* as RESTARTING, and any other job unchanged."""
    if job.status is not JobStatus.SUSPENDED:
        return job
    return job.advance(
        JobStatus.RESTARTING, error=None, stream=replace(state_of(job), stop=None, start_at=None)
    )


def still_missing(job: Job, error: str, look_at: datetime) -> Job:
    """Return a suspended *job* with its next check at *look_at*, and any other job unchanged."""
    return interrupted(job, error, look_at=look_at) if job.status is JobStatus.SUSPENDED else job


def stop_requested(job: Job, request: StopRequest) -> Job:
    """Return *job* with a stop *request*. An earlier request for a savepoint takes precedence."""
    state = state_of(job)
    if state.stop is not None and state.stop.savepoint is not None:
        return job
    return replace(job, stream=replace(state, stop=request, refused=None))


def state_of(job: Job) -> StreamState:
    return job.stream or StreamState()


def _suspended(job: Job, error: str | None, stream: StreamState) -> Job:
    if job.status is JobStatus.SUSPENDED:
        return replace(job, error=error, stream=stream)
    return job.advance(JobStatus.SUSPENDED, error=error, stream=stream)


def _sum(before: int | None, since: int | None) -> int | None:
    return before if since is None else (before or 0) + since
