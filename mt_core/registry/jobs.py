"""The stored jobs, within a transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import bindparam, delete, select, update

from mt_core.errors import RevisionConflict
from mt_core.model.job import Job
from mt_core.registry.rows import instant_text, row_of
from mt_core.registry.schema import JOBS, JOBS_OPEN
from mt_core.registry.statements import Statements


@dataclass(frozen=True, slots=True)
class SqlJobs:
    """Implements `StoredJobs`."""

    statements: Statements

    def get(self, job_id: str) -> Job | None:
        return self.statements.fact(Job, _JOB, {"job_id": job_id})

    def with_ids(self, job_ids: Collection[str]) -> Sequence[Job]:
        return self.statements.facts(Job, _JOBS, {"job_ids": list(job_ids)}) if job_ids else []

    def insert(self, job: Job) -> None:
        if not self.statements.insert(JOBS, row_of(job)):
            raise RevisionConflict(
                f"Job {job.job_id} was not added: its id is already in use; use another one."
            )

    def replace(self, job: Job) -> Job:
        stored = replace(job, revision=job.revision + 1)
        guard = {"its_job_id": job.job_id, "its_revision": job.revision}
        if self.statements.execute(_REPLACE, row_of(stored) | guard).rowcount == 0:
            raise RevisionConflict(
                f"Job {job.job_id} is no longer at revision {job.revision}; read it again."
            )
        return stored

    def newest(self, limit: int) -> Sequence[Job]:
        return self.statements.facts(Job, _NEWEST, {"most": limit})

    def open(self) -> Sequence[Job]:
        return self.statements.facts(Job, _OPEN)

    def streams(self) -> Sequence[Job]:
        return self.statements.facts(Job, _STREAMS)

    def ended_streams(self, ended_before: datetime) -> Sequence[Job]:
        return self.statements.facts(Job, _ENDED_STREAMS, {"ended_before": instant_text(ended_before)})

    def with_hooks_due(self) -> Sequence[Job]:
        return self.statements.facts(Job, _WITH_HOOKS_DUE)

    def forget(self, ended_before: datetime) -> int:
        return self.statements.execute(_FORGET, {"ended_before": instant_text(ended_before)}).rowcount


_JOB = select(JOBS).where(JOBS.c.job_id == bindparam("job_id"))
_JOBS = select(JOBS).where(JOBS.c.job_id.in_(bindparam("job_ids", expanding=True))).order_by(JOBS.c.job_id)
_REPLACE = update(JOBS).where(
    JOBS.c.job_id == bindparam("its_job_id"), JOBS.c.revision == bindparam("its_revision")
)
_NEWEST = select(JOBS).order_by(JOBS.c.started_at.desc(), JOBS.c.job_id.desc()).limit(bindparam("most"))
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
