"""The job store: the jobs of statements that change data, stored in the registry.

A job must be visible, stoppable and reported to its hooks even if the gateway that runs it is killed at any
moment. So a row is inserted before the work begins. Every change is a compare-and-set in one transaction and
applies only to an open job: the first end counts. The row names its owner; when the lease of an owner has
expired, the next gateway inherits the job. A batch job cannot be resumed, so it becomes FAILED with the error
`LOST`. A detached stream is restarted from its checkpoint. A committed change of data must be reported as
done even if the registry fails at that moment. In this case the end of the job is kept in memory and stored
by the next `settle`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mt_core.clock import Clock
from mt_core.errors import FactUnreadable, IllegalStatus, RegistryError
from mt_core.jobs.calls import HookCalls
from mt_core.jobs.installed import InstalledHooks
from mt_core.model.job import OPEN, Job, JobHook, JobStatus
from mt_core.model.stream import TableName
from mt_core.tables.registry import JobPlace, Registry, Transaction, each_row, transactional
from mt_core.tables.signal import Signal
from mt_core.tables.upkeep.gateways import living_owners

log = logging.getLogger(__name__)
HISTORY = timedelta(days=7)
LOST = (
    "the gateway that ran it ended. What it had committed by then stays, and it is not run again: "
    "check its target, then send the statement again if its rows are missing"
)


class JobStore:
    """Stores the jobs of the gateway *owner*, and ends or takes over jobs of ended gateways. Thread-safe.

    `changed` is set when a detached job is added or changed.
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
        # Ends of jobs that could not be stored because the registry failed.
        self._unsaved: dict[str, Callable[[Job], Job]] = {}
        self._lock = threading.Lock()

    def begin(self, job: Job) -> None:
        """Store *job* before its work begins and call its hooks.

        If this raises RegistryError, the work must not begin.
        """
        self._insert(replace(job, owner=self._owner))
        if job.hooks:
            self._call_hooks(job.job_id)
        if job.definition is not None:
            self.changed.set()

    @transactional
    def attach(self, tx: Transaction, job_id: str, hook: JobHook) -> None:
        """Add a hook to an open job; if its `done` contains CREATED, it is called only when the job ends.

        Raises IllegalStatus if the job is not open.
        """
        job = tx.jobs.get(job_id)
        if job is None or job.status not in OPEN:
            raise IllegalStatus(f"Job {job_id} is not running, so hook {hook.name} cannot be added.")
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
        """Store the end of a job, or leave this to the next `settle` if the registry fails."""
        finished_at = self._clock.now()

        def ended(job: Job) -> Job:
            return job.advance(
                status, rows_written=rows_written, rows_read=rows_read, error=error, finished_at=finished_at
            )

        try:
            self.update(job_id, ended)
        except RegistryError as failure:
            # The change of data is committed, so its statement must report success.
            log.warning(
                "the end of job %s will be stored later: %s",
                job_id,
                failure,
                extra={"action": "job_end_waits"},
            )
            with self._lock:
                self._unsaved[job_id] = ended

    def update(self, job_id: str, change: Callable[[Job], Job]) -> Job | None:
        """Change a job and call its due hooks; return the job, or None if it had already ended."""
        job = self._change(job_id, change)
        if job is not None and job.hooks_due:
            self._call_hooks(job_id)
        if job is not None and job.definition is not None:
            self.changed.set()
        return job

    @transactional
    def streams(self, tx: Transaction) -> Sequence[Job]:
        """Return the open detached jobs of this gateway, oldest first."""
        return [job for job in tx.jobs.streams() if job.owner == self._owner]

    def creator(self, table: TableName) -> str | None:
        """Return the id of this gateway's detached job that is creating *table*, or None."""
        jobs = ((job.job_id, job.definition) for job in self.streams())
        return next(
            (job_id for job_id, each in jobs if each and each.creates and each.creates.table == table), None
        )

    def jars(self) -> Mapping[str, Sequence[str]]:
        """Return the jars of this gateway's open detached jobs, by job id."""
        return {job.job_id: job.definition.jars for job in self.streams() if job.definition is not None}

    @transactional
    def ended_streams(self, tx: Transaction) -> Sequence[Job]:
        """Return the detached jobs that ended before the configured history began.

        If the history is 0, the result is empty, because jobs are kept forever.
        """
        return tx.jobs.ended_streams(self._clock.surely() - self._history) if self._history else ()

    @transactional
    def forget_definition(self, tx: Transaction, job_id: str) -> None:
        """Delete the definition of an ended job after its stream has been cleaned up."""
        job = tx.jobs.get(job_id)
        if job is not None and job.status not in OPEN:
            tx.jobs.replace(replace(job, definition=None))

    @transactional
    def get(self, tx: Transaction, job_id: str) -> Job | None:
        return tx.jobs.get(job_id)

    @transactional
    def newest(self, tx: Transaction, limit: int) -> Sequence[Job]:
        """Return the newest *limit* jobs, newest first; the name of an unreadable job is the reason."""
        return [*map(_readable, each_row(tx, lambda: tx.jobs.newest(limit)))]

    def page(
        self, tx: Transaction, *, before: JobPlace | None, limit: int, statuses: Collection[JobStatus]
    ) -> Sequence[Job]:
        """Return up to *limit* jobs with *statuses* before a place, newest first, within a transaction."""
        return [
            *map(_readable, each_row(tx, lambda: tx.jobs.newest(limit, before=before, statuses=statuses)))
        ]

    @transactional
    def open(self, tx: Transaction) -> Sequence[Job]:
        """Return the open jobs, oldest first; the name of an unreadable job is the reason."""
        return [*map(_readable, each_row(tx, tx.jobs.open))]

    def settle(self) -> list[str]:
        """Store deferred ends, end the jobs of gateways that have ended, and take over their detached jobs.

        Returns one line per job for the log.
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
        """Delete the jobs that ended before the configured history began and return their number.

        If the history is 0, jobs are kept forever.
        """
        return tx.jobs.forget(self._clock.surely() - self._history) if self._history else 0

    @transactional
    def _insert(self, tx: Transaction, job: Job) -> None:
        tx.jobs.insert(job)

    @transactional
    def _change(self, tx: Transaction, job_id: str, change: Callable[[Job], Job]) -> Job | None:
        """Change an open job and return it, or return None if the job has ended."""
        job = tx.jobs.get(job_id)
        return tx.jobs.replace(change(job)) if job is not None and job.status in OPEN else None

    def _call_hooks(self, job_id: str) -> None:
        """Call the awaited hooks of a job now; a background thread calls the others."""
        try:
            self.calls.call(job_id, awaited=True)
        except RegistryError as failure:
            log.warning(
                "the hooks of job %s will be called later: %s",
                job_id,
                failure,
                extra={"action": "job_hooks_wait"},
            )
        self.calls.wake()

    @transactional
    def _settle_lost(self, tx: Transaction) -> list[Job]:
        living = living_owners(tx) | {self._owner}
        return [tx.jobs.replace(self._inherited(job)) for job in tx.jobs.open() if job.owner not in living]

    def _inherited(self, job: Job) -> Job:
        """Return *job*, whose gateway has ended, as a job of this gateway."""
        if job.definition is None:
            return job.advance(JobStatus.FAILED, error=LOST, owner=self._owner, finished_at=self._clock.now())
        if job.status is JobStatus.RUNNING:
            return job.advance(JobStatus.RESTARTING, owner=self._owner)
        return replace(job, owner=self._owner)


def _readable(job: Job | FactUnreadable) -> Job:
    """Return *job*; if it is unreadable, return a placeholder whose name is the reason."""
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
