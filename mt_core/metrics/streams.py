"""The metrics of streaming jobs: a listener that counts them by status, and their restarts and ends."""

from __future__ import annotations

from collections.abc import Iterable

from mt_core.clock import Clock
from mt_core.metrics import families
from mt_core.metrics.instruments import Instruments
from mt_core.model.job import OPEN, TERMINAL, Job, JobStatus
from mt_core.tables.events import Fact, JobChanged, StreamAdvanced


class StreamCounters:
    """A listener of events. It must `begin` with the jobs that an earlier gateway has left."""

    def __init__(self, instruments: Instruments, clock: Clock) -> None:
        self._clock = clock
        self._jobs = instruments.gauge(families.STREAM_JOBS)
        self._ended = instruments.counter(families.STREAM_JOBS_ENDED)
        self._restarts = instruments.counter(families.STREAM_RESTARTS)
        self._batch_at: dict[tuple[str, ...], float] = {}
        instruments.read(families.STREAM_BATCH, lambda: self._batch_at)
        for status in JobStatus:
            (self._jobs if status in OPEN else self._ended).labels(status)
        # The open jobs by id, as they were last seen.
        self._open: dict[str, Job] = {}

    def begin(self, jobs: Iterable[Job]) -> None:
        """Count the open streaming *jobs*."""
        for job in jobs:
            self._note(job)

    def __call__(self, fact: Fact, /) -> None:
        match fact:
            case JobChanged(job=job) | StreamAdvanced(job=job) if job.definition is not None:
                before = self._open.get(job.job_id)
                if before is not None:
                    self._restarts.inc(max(0, job.restarts - before.restarts))
                    if _batch_of(job) not in (None, _batch_of(before)):
                        self._batch_at[()] = self._clock.now().timestamp()
                self._note(job)
                if job.status in TERMINAL:
                    self._ended.labels(job.status).inc()
            case _:
                pass

    def _note(self, job: Job) -> None:
        before = self._open.pop(job.job_id, None)
        if before is not None:
            self._jobs.labels(before.status).dec()
        if job.status in OPEN:
            self._jobs.labels(job.status).inc()
            self._open[job.job_id] = job


def _batch_of(job: Job) -> int | None:
    return None if job.stream is None else job.stream.batch
