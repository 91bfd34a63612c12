"""The job store: the jobs of statements that change data, in the registry, whichever gateway ran them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from mt_core.clock import Clock
from mt_core.errors import IllegalStatus, RegistryError
from mt_core.jobs.calls import HookCalls
from mt_core.jobs.installed import InstalledHooks
from mt_core.model.job import OPEN, Job, JobHook, JobStatus
from mt_core.tables.registry import Registry, Transaction, transactional
from mt_core.tables.upkeep.gateways import living_owners

log = logging.getLogger(__name__)
HISTORY = timedelta(days=7)
LOST = (
    "the gateway that ran it ended. What it had committed by then stays, and it is not run again: look at its target, then "
    "send the statement again if its rows are missing"
)


class JobStore:
    """Keeps the jobs that gateway *owner* runs, and ends those of gateways that have ended; safe from any thread."""

    def __init__(
        self,
        registry: Registry,
        *,
        owner: str,
        clock: Clock,
        history: timedelta = HISTORY,
        hooks: InstalledHooks | None = None,
    ) -> None:
        self.registry = registry
        self.hooks = hooks or InstalledHooks()
        self.calls = HookCalls(registry, owner=owner, clock=clock, find=self.hooks.find)
        self._owner, self._clock, self._history = owner, clock, history
        # Ends that the registry did not take when they happened.
        self._unsaved: dict[str, Callable[[Job], Job]] = {}
        self._lock = threading.Lock()

    def begin(self, job: Job) -> None:
        """Store a job that begins now, and call its hooks; raises RegistryError, and then it must not begin."""
        self._insert(replace(job, owner=self._owner))
        if job.hooks:
            self._call_hooks(job.job_id)

    @transactional
    def attach(self, tx: Transaction, job_id: str, hook: JobHook) -> None:
        """Add a hook to a job that runs; it is called for the end alone if its `done` has CREATED already."""
        job = tx.jobs.get(job_id)
        if job is None or job.status not in OPEN:
            raise IllegalStatus(f"Job {job_id} does not run, and takes no hook {hook.name}.")
        tx.jobs.replace(replace(job, hooks=(*job.hooks, hook)))

    def end(self, job_id: str, status: JobStatus, *, rows_written: int | None, error: str | None) -> None:
        """Store how a job ended, now or, when the registry fails, with the next `settle`."""
        finished_at = self._clock.now()

        def ended(job: Job) -> Job:
            return job.advance(status, rows_written=rows_written, error=error, finished_at=finished_at)

        try:
            if self._change(job_id, ended):
                self._call_hooks(job_id)
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
        self.calls.wake()
        return [f"ended job {job_id}, whose gateway had ended" for job_id in self._end_lost()]

    @transactional
    def forget_old(self, tx: Transaction) -> int:
        """Remove the jobs that ended longer ago than the history; return how many."""
        return tx.jobs.forget(self._clock.now() - self._history) if self._history else 0

    @transactional
    def _insert(self, tx: Transaction, job: Job) -> None:
        tx.jobs.insert(job)

    @transactional
    def _change(self, tx: Transaction, job_id: str, change: Callable[[Job], Job]) -> bool:
        """Store a change of a job that has not ended; return whether it has hooks to call."""
        job = tx.jobs.get(job_id)
        return job is not None and job.status in OPEN and tx.jobs.replace(change(job)).hooks_due

    def _call_hooks(self, job_id: str) -> None:
        """Call the hooks that a job or its statement waits for; the others follow in the background."""
        try:
            self.calls.call(job_id, awaited=True)
        except RegistryError as failure:
            log.warning("hooks of job %s wait: %s", job_id, failure, extra={"action": "job_hooks_wait"})
        self.calls.wake()

    @transactional
    def _end_lost(self, tx: Transaction) -> list[str]:
        living = living_owners(tx) | {self._owner}
        lost = [job for job in tx.jobs.open() if job.owner not in living]
        for job in lost:
            # It is this gateway that calls the hooks from now on.
            ended = job.advance(JobStatus.FAILED, error=LOST, owner=self._owner, finished_at=self._clock.now())
            tx.jobs.replace(ended)
        return [job.job_id for job in lost]
