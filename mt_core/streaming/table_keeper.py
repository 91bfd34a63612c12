"""Keeps tables that streaming jobs maintain.

The sources of these tables are unbounded and do not retain their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from mt_core.base.secrets import without_passwords
from mt_core.clock import Clock
from mt_core.errors import MtError, WorkflowError
from mt_core.jobs.store import JobStore
from mt_core.model.job import TERMINAL, Job, JobStatus
from mt_core.model.stream import StopRequest, StreamDefinition, StreamMember, StreamState
from mt_core.model.table import MaterializedTable, stream_job
from mt_core.streaming import lifecycle
from mt_core.streaming.engine import StreamEngine
from mt_core.tables.keeper import KeeperReport, KeeperState
from mt_core.workflow.handlers import RefreshHandler

STREAM = "stream"
KIND = "CONTINUOUS REFRESH"
# Stopping a stream may take as long as one of its batches.
WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamKeeper:
    """Implements `Keeper` for tables with `streams`.

    The job of a table has the same id for the table's lifetime, so a resumed table continues from its
    checkpoint. Requests are written into the job's row, and the gateway that owns the job carries them out.
    """

    store: JobStore
    engine: StreamEngine
    clock: Clock
    checkpoints: str
    wait_s: float = WAIT_S

    def objection(self, table: MaterializedTable) -> str:
        try:
            self.engine.check(self._definition(table))
        except MtError as error:
            return str(error)
        return ""

    def create(self, table: MaterializedTable, *, active: bool) -> str:
        job_id = stream_job(table.table_id)
        if self.store.get(job_id) is None:
            definition = self.engine.prepare(self._definition(table), job_id)
            self.store.begin(self._job(table, definition, active=active))
        return self.handle_of(table)

    def ensure(
        self, table: MaterializedTable, *, active: bool, options: Mapping[str, str] | None = None
    ) -> KeeperState:
        job_id = stream_job(table.table_id)
        before = _state_of(self.store.get(job_id))
        if before is KeeperState.MISSING:
            self.create(table, active=active)
        elif not active:
            self.store.update(job_id, _asked_to_suspend)
            # The stored request is carried out even if this wait times out.
            self._wait(job_id, {JobStatus.SUSPENDED})
        elif before is KeeperState.PAUSED:
            if not self._wait(job_id, {JobStatus.SUSPENDED}):
                raise WorkflowError(
                    f"Job {job_id} of {table.identifier} is still being stopped; RESUME it again later."
                )
            self.store.update(job_id, lifecycle.resumed)
        return before

    def reschedule(self, table: MaterializedTable) -> None:
        interval_ms = _interval_ms(table)
        self.store.update(stream_job(table.table_id), partial(_with_interval, interval_ms=interval_ms))

    def remove(self, table_id: str, handle: str | None = None) -> None:
        job_id = stream_job(table_id)
        job = self.store.get(job_id)
        if job is None or job.status in TERMINAL:
            return
        self.store.update(job_id, partial(lifecycle.stop_requested, request=StopRequest(drop=True)))
        if not self._wait(job_id, TERMINAL):
            raise WorkflowError(f"Streaming job {job_id} of the table has not ended yet.")

    def observe(self, tables: Iterable[MaterializedTable]) -> Mapping[str, KeeperReport]:
        reports: dict[str, KeeperReport] = {}
        for table in tables:
            job = self.store.get(stream_job(table.table_id))
            reports[table.table_id] = KeeperReport(
                state=_state_of(job),
                changed_by=None if job is None else f"streaming job {job.job_id}",
                reason=None if job is None else job.error,
                on_schedule=None if job is None else _is_on_schedule(job, table),
            )
        return reports

    def page_url(self, table: MaterializedTable) -> str | None:
        return None

    def handle_of(self, table: MaterializedTable) -> str:
        location = {"identifier": str(table.identifier), "job": stream_job(table.table_id)}
        return RefreshHandler(scheduler=STREAM, workflow_id=table.table_id, location=location).serialize()

    # ----------------------------------------------------------------------------------------------- internal

    def _definition(self, table: MaterializedTable) -> StreamDefinition:
        definition = table.definition
        text = f"INSERT INTO {table.identifier.sql} BY NAME\n{definition.expanded_query}"
        return StreamDefinition(
            members=(StreamMember(text=text, endless_only=True),),
            catalog=definition.catalog,
            namespace=definition.namespace,
            zone=definition.zone,
            checkpoint=f"{self.checkpoints.rstrip('/')}/{stream_job(table.table_id)}",
            settings=definition.settings,
            interval_ms=_interval_ms(table),
            keeps=table.table_id,
        )

    def _job(self, table: MaterializedTable, definition: StreamDefinition, *, active: bool) -> Job:
        return Job(
            job_id=stream_job(table.table_id),
            kind=KIND,
            name=f"refresh-{table.identifier}",
            status=JobStatus.CREATED if active else JobStatus.SUSPENDED,
            started_at=self.clock.now(),
            statement=without_passwords(table.definition.original_query),
            target=str(table.identifier),
            checkpoint=definition.checkpoint,
            definition=definition,
            stream=StreamState(),
        )

    def _wait(self, job_id: str, wanted: Iterable[JobStatus]) -> bool:
        """Wait for up to `wait_s` until the job has one of the *wanted* statuses; return whether it has.

        Raises WorkflowError if its stream could not be stopped.
        """
        statuses = frozenset(wanted)

        def settled() -> Job | None:
            job = self.store.get(job_id)
            refused = job is not None and job.stream is not None and job.stream.refused is not None
            return job if job is not None and (refused or job.status in statuses) else None

        job = self.store.changed.until(settled, self.wait_s)
        if job is not None and job.status not in statuses:
            raise WorkflowError(
                f"Streaming job {job_id} continues, because it could not be stopped: "
                f"{job.stream and job.stream.refused}"
            )
        return job is not None


def _state_of(job: Job | None) -> KeeperState:
    if job is None or job.status in TERMINAL:
        return KeeperState.MISSING
    stops = job.stream is not None and job.stream.stop is not None
    return KeeperState.PAUSED if stops or job.status is JobStatus.SUSPENDED else KeeperState.ACTIVE


def _asked_to_suspend(job: Job) -> Job:
    return job if job.status is JobStatus.SUSPENDED else lifecycle.stop_requested(job, StopRequest())


def _interval_ms(table: MaterializedTable) -> int:
    """Return the trigger interval in milliseconds, which is half the freshness."""
    return table.definition.interval.seconds * 1000 // 2


def _with_interval(job: Job, *, interval_ms: int) -> Job:
    definition = job.definition
    return (
        job if definition is None else replace(job, definition=replace(definition, interval_ms=interval_ms))
    )


def _is_on_schedule(job: Job, table: MaterializedTable) -> bool:
    return job.definition is not None and job.definition.interval_ms == _interval_ms(table)
