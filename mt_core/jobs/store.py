"""The job store: the jobs of statements that change data, in the registry, whichever gateway ran them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mt_core.clock import Clock
from mt_core.errors import FactUnreadable, IllegalStatus, RegistryError
from mt_core.jobs.calls import HookCalls
from mt_core.jobs.installed import InstalledHooks
from mt_core.model.job import OPEN, Job, JobHook, JobStatus
from mt_core.model.stream import TableName
from mt_core.tables.registry import Registry, Transaction, each_row, transactional
from mt_core.tables.signal import Signal
from mt_core.tables.upkeep.gateways import living_owners

log = logging.getLogger(__name__)
HISTORY = timedelta(days=7)
LOST = (
    "the gateway that ran it ended. What it had committed by then stays, and it is not run again: "
    "look at its target, then send the statement again if its rows are missing"
)


class JobStore:
    """Keeps the jobs that gateway *owner* runs, and ends or takes over those of gateways that have ended.

    `changed` is set when a detached job was added or has changed. Safe from any thread.
    """

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
        self.changed = Signal()
        self._owner, self._clock, self._history = owner, clock, history
        # Ends that the registry did not take when they happened.
        self._unsaved: dict[str, Callable[[Job], Job]] = {}
        self._lock = threading.Lock()

    def begin(self, job: Job) -> None:
        """Store a job that begins now, and call its hooks; raises RegistryError,
        and then it must not begin.
        """
        self._insert(replace(job, owner=self._owner))
        if job.hooks:
            self._call_hooks(job.job_id)
        if job.definition is not None:
            self.changed.set()

    @transactional
    def attach(self, tx: Transaction, job_id: str, hook: JobHook) -> None:
        """Add a hook to a job that runs; it is called for the end alone if its `done` has CREATED already."""
        job = tx.jobs.get(job_id)
        if job is None or job.status not in OPEN:
            raise IllegalStatus(f"Job {job_id} does not run, and takes no hook {hook.name}.")
        tx.jobs.replace(replace(job, hooks=(*job.hooks, hook)))

    def end(
        self,
        job_id: str,
        status: JobStatus,
        *,
        rows_written: int | None,
        error: str | None,
        rows_read: int | None = None,
    ) -> None:
        """Store how a job ended, now or, when the registry fails, with the next `settle`."""
        finished_at = self._clock.now()

        def ended(job: Job) -> Job:
            return job.advance(
                status, rows_written=rows_written, rows_read=rows_read, error=error, finished_at=finished_at
            )

        try:
            self.update(job_id, ended)
        except RegistryError as failure:
            # The change itself is done, and its statement must say so.
            log.warning("the end of job %s waits: %s", job_id, failure, extra={"action": "job_end_waits"})
            with self._lock:
                self._unsaved[job_id] = ended

    def update(self, job_id: str, change: Callable[[Job], Job]) -> Job | None:
        """Store a change of a job and call the hooks of its end; return the job,
        None if it had ended already.
        """
        job = self._change(job_id, change)
        if job is not None and job.hooks_due:
            self._call_hooks(job_id)
        if job is not None and job.definition is not None:
            self.changed.set()
        return job

    @transactional
    def streams(self, tx: Transaction) -> Sequence[Job]:
        """Return the detached jobs of this gateway that have not ended, oldest first."""
        return [job for job in tx.jobs.streams() if job.owner == self._owner]

    def creator(self, table: TableName) -> str | None:
        """Return the id of the detached job of this gateway that creates *table*, None if none does."""
        jobs = ((job.job_id, job.definition) for job in self.streams())
        return next(
            (job_id for job_id, each in jobs if each and each.creates and each.creates.table == table), None
        )

    def jars(self) -> Mapping[str, Sequence[str]]:
        """Return the jars of the detached jobs of this gateway that have not ended, by the ids of these."""
        return {job.job_id: job.definition.jars for job in self.streams() if job.definition is not None}

    @transactional
    def ended_streams(self, tx: Transaction) -> Sequence[Job]:
        """Return the detached jobs that ended longer ago than the history."""
        return tx.jobs.ended_streams(self._clock.surely() - self._history) if self._history else ()

    @transactional
    def forget_definition(self, tx: Transaction, job_id: str) -> None:
        """Store that nothing is left of the stream of a job that has ended."""
        job = tx.jobs.get(job_id)
        if job is not None and job.status not in OPEN:
            tx.jobs.replace(replace(job, definition=None))

    @transactional
    def get(self, tx: Transaction, job_id: str) -> Job | None:
        return tx.jobs.get(job_id)

    @transactional
    def newest(self, tx: Transaction, limit: int) -> Sequence[Job]:
        """Return the jobs that began last, the newest first;
        one that cannot be read says why in place of its name.
        """
        return [*map(_readable, each_row(tx, lambda: tx.jobs.newest(limit)))]

    @transactional
    def open(self, tx: Transaction) -> Sequence[Job]:
        """Return the jobs that have not ended, oldest first;
        one that cannot be read says why in place of its name.
        """
        return [*map(_readable, each_row(tx, tx.jobs.open))]

    def settle(self) -> list[str]:
        """End the jobs whose gateway has ended, take over the detached ones, and store ends that wait for it.

        Returns what was done, in words.
        """
        with self._lock:
            waiting = dict(self._unsaved)
        for job_id, ended in waiting.items():
            self._change(job_id, ended)
            with self._lock:
                self._unsaved.pop(job_id, None)
        self.calls.wake()
        lost = self._settle_lost()
        self.changed.set()
        return [
            (
                f"{'took over' if job.definition is not None else 'ended'} job {job.job_id}, "
                "whose gateway had ended"
            )
            for job in lost
        ]

    @transactional
    def forget_old(self, tx: Transaction) -> int:
        """Remove the jobs that ended longer ago than the history; return how many."""
        return tx.jobs.forget(self._clock.surely() - self._history) if self._history else 0

    @transactional
    def _insert(self, tx: Transaction, job: Job) -> None:
        tx.jobs.insert(job)

    @transactional
    def _change(self, tx: Transaction, job_id: str, change: Callable[[Job], Job]) -> Job | None:
        """Store a change of a job that has not ended, and return it."""
        job = tx.jobs.get(job_id)
        return tx.jobs.replace(change(job)) if job is not None and job.status in OPEN else None

    def _call_hooks(self, job_id: str) -> None:
        """Call the hooks that a job or its statement waits for; the others follow in the background."""
        try:
            self.calls.call(job_id, awaited=True)
        except RegistryError as failure:
            log.warning("hooks of job %s wait: %s", job_id, failure, extra={"action": "job_hooks_wait"})
        self.calls.wake()

    @transactional
    def _settle_lost(self, tx: Transaction) -> list[Job]:
        living = living_owners(tx) | {self._owner}
        return [tx.jobs.replace(self._inherited(job)) for job in tx.jobs.open() if job.owner not in living]

    def _inherited(self, job: Job) -> Job:
        """Return the job of a gateway that has ended as a job of this gateway,
        which calls its hooks from now on.
        """
        if job.definition is None:
            return job.advance(JobStatus.FAILED, error=LOST, owner=self._owner, finished_at=self._clock.now())
        if job.status is JobStatus.RUNNING:
            return job.advance(JobStatus.RESTARTING, owner=self._owner)
        return replace(job, owner=self._owner)


def _readable(job: Job | FactUnreadable) -> Job:
    """Return *job*, or what can be told of one that cannot be read."""
    if isinstance(job, Job):
        return job
    columns, text = job.columns, f"cannot be read: {job}"
    status = str(columns["status"])
    return Job(
        job_id=str(columns["job_id"]),
        kind="",
        name=text,
        status=JobStatus(status) if status in set(JobStatus) else JobStatus.FAILED,
        started_at=datetime.fromisoformat(str(columns["started_at"])),
        error=text,
    )
