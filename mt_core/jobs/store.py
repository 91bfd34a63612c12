"""The job store: the jobs of statements that change data, in the registry, whichever gateway ran them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from mt_core.clock import Clock
from mt_core.errors import RegistryError
from mt_core.model.job import OPEN, Job, JobStatus
from mt_core.tables.registry import Registry, Transaction, transactional

log = logging.getLogger(__name__)
HISTORY = timedelta(days=7)
LOST = (
    "the gateway that ran it ended. What it had committed by then stays, and it is not run again: look at its target, then "
    "send the statement again if its rows are missing"
)


class JobStore:
    """Keeps the jobs that gateway *owner* runs, and ends those of gateways that have ended; safe from any thread."""

    def __init__(self, registry: Registry, *, owner: str, clock: Clock, history: timedelta = HISTORY) -> None:
        self.registry = registry
        self._owner, self._clock, self._history = owner, clock, history
        # Ends that the registry did not take when they happened.
        self._unsaved: dict[str, Callable[[Job], Job]] = {}
        self._lock = threading.Lock()

    @transactional
    def begin(self, tx: Transaction, job: Job) -> None:
        """Store a job that begins now; raises RegistryError, and then it must not begin."""
        tx.jobs.insert(replace(job, owner=self._owner))

    def end(self, job_id: str, status: JobStatus, *, rows_written: int | None, error: str | None) -> None:
        """Store how a job ended, now or, when the registry fails, with the next `settle`."""
        finished_at = self._clock.now()

        def ended(job: Job) -> Job:
            return job.advance(status, rows_written=rows_written, error=error, finished_at=finished_at)

        try:
            self._change(job_id, ended)
        except RegistryError as failure:
            # The change itself is done, and its statement must say so.
            log.warning("the end of job %s waits: %s", job_id, failure, extra={"action": "job_end_waits"})
            with self._lock:
                self._unsaved[job_id] = ended

    @transactional
    def get(self, tx: Transaction, job_id: str) -> Job | None:
        return tx.jobs.get(job_id)

    @transactional
    def newest(self, tx: Transaction, limit: int) -> Sequence[Job]:
        """Return the jobs that began last, the newest first."""
        return tx.jobs.newest(limit)

    def settle(self) -> list[str]:
        """End the jobs whose gateway has ended, and store ends that wait for it; return what was done, in words."""
        with self._lock:
            waiting = dict(self._unsaved)
        for job_id, ended in waiting.items():
            self._change(job_id, ended)
            with self._lock:
                self._unsaved.pop(job_id, None)
        return [f"ended job {job_id}, whose gateway had ended" for job_id in self._end_lost()]

    @transactional
    def forget_old(self, tx: Transaction) -> int:
        """Remove the jobs that ended longer ago than the history; return how many."""
        return tx.jobs.forget(self._clock.now() - self._history) if self._history else 0

    @transactional
    def _change(self, tx: Transaction, job_id: str, change: Callable[[Job], Job]) -> None:
        """Store a change of a job that has not ended."""
        job = tx.jobs.get(job_id)
        if job is not None and job.status in OPEN:
            tx.jobs.replace(change(job))

    @transactional
    def _end_lost(self, tx: Transaction) -> list[str]:
        now = tx.now()
        living = {self._owner, *(gateway.owner for gateway in tx.gateways.all() if gateway.lease_until > now)}
        lost = [job for job in tx.jobs.open() if job.owner not in living]
        for job in lost:
            # It is this gateway that calls the hooks from now on.
            ended = job.advance(JobStatus.FAILED, error=LOST, owner=self._owner, finished_at=self._clock.now())
            tx.jobs.replace(ended)
        return [job.job_id for job in lost]
