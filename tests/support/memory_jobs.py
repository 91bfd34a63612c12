"""The registry's job store in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from mt_core.errors import RevisionConflict
from mt_core.model.job import OPEN, Job, JobStatus
from mt_core.registry.rows import instant_text
from mt_core.tables.registry import JobChange, JobPlace

if TYPE_CHECKING:
    from tests.support.memory_registry import MemoryTransaction


class MemoryJobs:
    """A `StoredJobs` that uses the state of *transaction*."""

    def __init__(self, transaction: MemoryTransaction) -> None:
        self._tx = transaction

    def get(self, job_id: str) -> Job | None:
        return self._tx.state.jobs.get(job_id)

    def with_ids(self, job_ids: Collection[str]) -> Sequence[Job]:
        return [job for job_id, job in sorted(self._tx.state.jobs.items()) if job_id in job_ids]

    def insert(self, job: Job) -> None:
        if job.job_id in self._tx.state.jobs:
            raise RevisionConflict(
                f"Job {job.job_id} was not added: its id is already in use; use another one."
            )
        self._store(job, before=None)

    def replace(self, job: Job) -> Job:
        current = self.get(job.job_id)
        if current is None or current.revision != job.revision:
            raise RevisionConflict(
                f"Job {job.job_id} is no longer at revision {job.revision}; read it again."
            )
        stored = replace(job, revision=job.revision + 1)
        self._store(stored, before=current)
        return stored

    def newest(
        self,
        limit: int,
        *,
        before: JobPlace | None = None,
        statuses: Collection[JobStatus] = tuple(JobStatus),
    ) -> Sequence[Job]:
        jobs = [job for job in self._sorted()[::-1] if job.status in statuses]
        return [job for job in jobs if before is None or (job.started_at, job.job_id) < before][:limit]

    def open(self) -> Sequence[Job]:
        return [job for job in self._sorted() if job.status in OPEN]

    def streams(self) -> Sequence[Job]:
        return [job for job in self.open() if job.definition is not None]

    def ended_streams(self, ended_before: datetime) -> Sequence[Job]:
        return [job for job in self._sorted() if _ended(job, ended_before) and job.definition is not None]

    def with_hooks_due(self) -> Sequence[Job]:
        return [job for job in self._sorted() if job.hooks_due]

    def forget(self, ended_before: datetime) -> int:
        old = {
            job.job_id
            for job in self._sorted()
            if _ended(job, ended_before) and not job.hooks_due and job.definition is None
        }
        self._tx.change(
            jobs={job_id: job for job_id, job in self._tx.state.jobs.items() if job_id not in old}
        )
        return len(old)

    def _sorted(self) -> list[Job]:
        return sorted(self._tx.state.jobs.values(), key=attrgetter("started_at", "job_id"))

    def _store(self, job: Job, *, before: Job | None) -> None:
        for instant in (job.started_at, job.finished_at, *(hook.retry_at for hook in job.hooks)):
            if instant is not None:
                instant_text(instant)
        self._tx.change(jobs={**self._tx.state.jobs, job.job_id: job})
        self._tx.written.append(JobChange(before=before, after=job))


def _ended(job: Job, before: datetime) -> bool:
    return job.finished_at is not None and job.finished_at < before
