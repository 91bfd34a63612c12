"""The stored jobs, within a transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Executable, bindparam, delete, select, tuple_, update

from mt_core.errors import RevisionConflict
from mt_core.model.job import Job, JobStatus
from mt_core.registry.rows import instant_text, row_of
from mt_core.registry.schema import JOBS, JOBS_OPEN
from mt_core.registry.statements import Statements
from mt_core.tables.registry import JobChange, JobPlace


@dataclass(frozen=True, slots=True)
class SqlJobs:
    """Implements `StoredJobs`."""

    statements: Statements
    # The jobs that the transaction has read or written, by id.
    known: dict[str, Job] = field(default_factory=dict)

    def get(self, job_id: str) -> Job | None:
        return next(iter(self._read(_JOB, {"job_id": job_id})), None)

    def with_ids(self, job_ids: Collection[str]) -> Sequence[Job]:
        return self._read(_JOBS, {"job_ids": list(job_ids)}) if job_ids else []

    def insert(self, job: Job) -> None:
        if not self.statements.insert(JOBS, row_of(job)):
            raise RevisionConflict(
                f"Job {job.job_id} was not added: its id is already in use; use another one."
            )
        self._changed(job)

    def replace(self, job: Job) -> Job:
        stored = replace(job, revision=job.revision + 1)
        guard = {"its_job_id": job.job_id, "its_revision": job.revision}
        if self.statements.execute(_REPLACE, row_of(stored) | guard).rowcount == 0:
            raise RevisionConflict(
                f"Job {job.job_id} is no longer at revision {job.revision}; read it again."
            )
        self._changed(stored)
        return stored

    def newest(
        self,
        limit: int,
        *,
        before: JobPlace | None = None,
        statuses: Collection[JobStatus] = tuple(JobStatus),
    ) -> Sequence[Job]:
        values: dict[str, Any] = {"most": limit, "statuses": [status.value for status in statuses]}
        if before is None:
            return self._read(_NEWEST, values)
        started_at, job_id = before
        return self._read(
            _NEWEST_BEFORE, {**values, "its_start": instant_text(started_at), "its_job_id": job_id}
        )

    def open(self) -> Sequence[Job]:
        return self._read(_OPEN)

    def streams(self) -> Sequence[Job]:
        return self._read(_STREAMS)

    def ended_streams(self, ended_before: datetime) -> Sequence[Job]:
        return self._read(_ENDED_STREAMS, {"ended_before": instant_text(ended_before)})

    def with_hooks_due(self) -> Sequence[Job]:
        return self._read(_WITH_HOOKS_DUE)

    def forget(self, ended_before: datetime) -> int:
        return self.statements.execute(_FORGET, {"ended_before": instant_text(ended_before)}).rowcount

    def _read(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Sequence[Job]:
        jobs = self.statements.facts(Job, statement, values)
        self.known.update((job.job_id, job) for job in jobs)
        return jobs

    def _changed(self, job: Job) -> None:
        self.statements.changes.append(JobChange(before=self.known.get(job.job_id), after=job))
        self.known[job.job_id] = job


_JOB = select(JOBS).where(JOBS.c.job_id == bindparam("job_id"))
_JOBS = select(JOBS).where(JOBS.c.job_id.in_(bindparam("job_ids", expanding=True))).order_by(JOBS.c.job_id)
_REPLACE = update(JOBS).where(
    JOBS.c.job_id == bindparam("its_job_id"), JOBS.c.revision == bindparam("its_revision")
)
_NEWEST = (
    select(JOBS)
    .where(JOBS.c.status.in_(bindparam("statuses", expanding=True)))
    .order_by(JOBS.c.started_at.desc(), JOBS.c.job_id.desc())
    .limit(bindparam("most"))
)
_NEWEST_BEFORE = _NEWEST.where(
    tuple_(JOBS.c.started_at, JOBS.c.job_id) < tuple_(bindparam("its_start"), bindparam("its_job_id"))
)
_OPEN = select(JOBS).where(JOBS_OPEN).order_by(JOBS.c.started_at, JOBS.c.job_id)
_STREAMS = (
    select(JOBS).where(JOBS_OPEN, JOBS.c.definition.is_not(None)).order_by(JOBS.c.started_at, JOBS.c.job_id)
)
_ENDED_STREAMS = (
    select(JOBS)
    .where(JOBS.c.finished_at < bindparam("ended_before"), JOBS.c.definition.is_not(None))
    .order_by(JOBS.c.started_at, JOBS.c.job_id)
)
_WITH_HOOKS_DUE = select(JOBS).where(JOBS.c.hooks_due).order_by(JOBS.c.started_at, JOBS.c.job_id)
_FORGET = delete(JOBS).where(
    JOBS.c.finished_at < bindparam("ended_before"), JOBS.c.hooks_due.is_(False), JOBS.c.definition.is_(None)
)
