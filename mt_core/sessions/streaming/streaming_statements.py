"""Streaming statements: INSERT, statement sets and CREATE TABLE AS as detached jobs, and STOP JOB.

A streaming job runs until it is stopped, long after its statement has returned its id, and survives a restart
of the gateway. A statement therefore does not run its stream itself. It collects everything that a restart
needs in a `StreamDefinition` (statements, namespace, temporary objects, copies of jars, checkpoint) and
stores the job; the owner of streams then starts it. The stream is planned before its job is stored, so a
query that cannot be a stream leaves no job.

Once stored, the job is independent of its operation. The exception is `table.dml-sync`: the operation then
waits for the job, and cancelling it stops the job. Stopping is a request to the owner, which may refuse it,
for example if the savepoint fails; the job then continues.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mt_core.base.identifiers import display_name
from mt_core.base.rowset import RowSet
from mt_core.clock import Clock
from mt_core.errors import Canceled, EngineError, IllegalStatus, MtError
from mt_core.jobs.store import JobStore
from mt_core.model.job import TERMINAL as ENDED
from mt_core.model.job import Job, JobStatus
from mt_core.model.reservation import Reservation
from mt_core.model.stream import StopRequest, StreamDefinition, StreamMember, StreamState
from mt_core.plans.compiled import Topology
from mt_core.sessions.operations.jobs import job_of_statements
from mt_core.sessions.operations.operation import (
    DONE,
    POLL_S,
    TERMINAL,
    Operation,
    OperationKind,
    OperationResult,
    ResultKind,
    Work,
    content,
)
from mt_core.sessions.ports import StatementEngine
from mt_core.sessions.properties.stream_properties import StreamDefaults, StreamProperties
from mt_core.sessions.session import DML_SYNC
from mt_core.sessions.statements.listings import savepoint_row
from mt_core.sessions.statements.spark_work import JOB_COLUMNS, SparkWork, Task
from mt_core.sessions.temporary_objects import texts
from mt_core.sql.catalog import StopJob
from mt_core.sql.parser import ReadStatement
from mt_core.streaming.engine import StreamEngine
from mt_core.streaming.owner import StreamOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The parts that run detached jobs: the engine, the owner of streams, and the default properties."""

    engine: StreamEngine
    owner: StreamOwner
    defaults: StreamDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingStatements:
    """Submits and stops detached jobs."""

    streams: Streams
    engine: StatementEngine
    spark: SparkWork
    store: JobStore
    clock: Clock

    def submit(self, task: Task, statements: Sequence[ReadStatement]) -> OperationResult:
        """Submit INSERT statements as a detached job and return its id.

        With `table.dml-sync`, wait for its end.

        Raises Unsupported or QueryFailed, without creating a job, if the query cannot be a stream.
        """
        self._await(task)
        members = tuple(StreamMember(text=each.text, hints=each.hints) for each in statements)
        return self.execute(task, statements, self.definition(task, members))

    def execute(
        self, task: Task, statements: Sequence[ReadStatement], definition: StreamDefinition
    ) -> OperationResult:
        """Submit INSERT statements with a given *definition*; see `submit`."""
        return self._answer(task, self._begin(task, statements, definition))

    def topology(self, definition: StreamDefinition) -> Topology:
        """Return the operators of *definition*, ignoring its savepoint. Raises the errors of `submit`."""
        return self.streams.engine.topology(replace(definition, restored_from=None))

    def create(
        self, task: Task, statement: ReadStatement, member: StreamMember, reservation: Reservation
    ) -> OperationResult:
        """Submit CREATE or REPLACE TABLE … AS, translated for Spark in *member*, and return the job id.

        Raises the errors of `submit`, and TableBusy while another job creates the table.
        """
        with self.spark.creations.reserved(reservation):
            self._await(task)
            definition = replace(self.definition(task, (member,)), creates=reservation)
            # The job is stored while the table is reserved. From then on, the stored job itself blocks other
            # jobs.
            job = self._begin(task, (statement,), definition)
        return self._answer(task, job)

    def _await(self, task: Task) -> None:
        task.operation.begin(Work(kind=OperationKind.SPARK, message="waiting for Spark"))
        self.spark.await_engine(task.operation)

    def _begin(self, task: Task, statements: Sequence[ReadStatement], definition: StreamDefinition) -> Job:
        """Store the job of *statements*; its owner starts it."""
        operation, job_id = task.operation, task.operation.planned_job_id
        operation.begin(Work(kind=OperationKind.SPARK, message="preparing the stream", job_id=job_id))
        definition = self.streams.engine.prepare(definition, job_id)
        if operation.cancelled:
            # The checkpoint was prepared, but no job will refer to it.
            with suppress(MtError):
                self.streams.engine.forget(job_id, definition)
            raise Canceled(f"Operation {operation.handle} is {operation.status}.")
        properties = task.properties_in_force()
        job = replace(
            job_of_statements(operation, statements, task.session.handle, self.clock.now()),
            status=JobStatus.CREATED,
            target=", ".join(map(display_name, definition.writes)) or None,
            checkpoint=definition.checkpoint,
            hooks=self.store.hooks.attached(properties),
            definition=definition,
            stream=StreamState(),
        )
        self.streams.owner.submit(job)
        if operation.cancelled:
            # The operation was cancelled while the job was being stored, and can no longer stop it.
            self.streams.owner.stop(job_id, StopRequest())
        return job

    def _answer(self, task: Task, job: Job) -> OperationResult:
        if task.properties_in_force().get(DML_SYNC, "").lower() == "true":
            job = self._wait(task.operation, job)
        return OperationResult(
            rows=RowSet(columns=JOB_COLUMNS, rows=[[job.job_id]]),
            result_kind=ResultKind.SUCCESS_WITH_CONTENT,
            job_id=job.job_id,
            affected_rows=job.rows_written,
        )

    def stop(self, task: Task, statement: StopJob) -> OperationResult:
        """Stop a detached job and wait for its end. Return the path of its savepoint, if any.

        Raises IllegalStatus if the job had already ended, and EngineError if the stop or the savepoint failed
        and the job continues.
        """
        operation, job_id, request = task.operation, statement.job_id, StopRequest(drop=statement.drop)
        if statement.savepoint:
            folder = self._properties(task).savepoint(job_id, uuid.uuid4().hex[:12])
            request = StopRequest(savepoint=folder, drain=statement.drain)
        operation.begin(Work(kind=OperationKind.SESSION, message="stopping the job"))
        stored = self.store.get(job_id)
        if stored is not None and stored.status not in ENDED:
            # Reject an invalid request before the stream is interrupted.
            self.streams.owner.check_stop(stored, request)
        self.streams.owner.stop(job_id, request)
        job = self._settled(operation, job_id)
        state = _state(job)
        if job.status not in ENDED:
            what = "savepoint" if statement.savepoint else "stop"
            raise EngineError(f"Job {job_id} continues, because its {what} failed: {state.refused}")
        if state.savepoint is not None:
            return content(savepoint_row(state.savepoint))
        if job.status is JobStatus.FAILED or statement.savepoint:
            raise IllegalStatus(f"Job {job_id} is {job.status} and cannot be stopped any more.")
        return DONE

    def definition(self, task: Task, members: tuple[StreamMember, ...]) -> StreamDefinition:
        """Return the definition of a job of *members* in the current state of the session."""
        context, job_id = task.context(), task.operation.planned_job_id
        state = self.engine.session_state(context)
        properties = self._properties(task)
        return StreamDefinition(
            members=members,
            catalog=state.catalog,
            namespace=state.namespace,
            zone=state.zone,
            checkpoint=properties.checkpoint(job_id),
            settings=context.properties,
            temporary=texts(task.session.temporary, state),
            jars=tuple(self.engine.jar_copies(context, task.session.jars)),
            restored_from=properties.restored_from,
            interval_ms=properties.interval_ms,
            on_source_rewrite=properties.on_source_rewrite,
        )

    def _properties(self, task: Task) -> StreamProperties:
        return StreamProperties(task.properties_in_force(), self.streams.defaults)

    def _wait(self, operation: Operation, job: Job) -> Job:
        """Wait for the end of a job and raise its error. Cancelling the operation stops the job."""
        job_id = job.job_id
        stop = self.streams.owner.stop
        operation.begin(
            Work(
                kind=OperationKind.JOB,
                message="running",
                job_id=job_id,
                stop=lambda: stop(job_id, StopRequest()),
            )
        )
        ended = self._settled(operation, job_id)
        if ended.status is JobStatus.CANCELED:
            raise Canceled(f"Job {job_id} was cancelled.")
        if ended.status is JobStatus.FAILED:
            raise EngineError(f"Job {job_id} failed: {ended.error}")
        if ended.status not in ENDED:
            # The owner refused a request to stop the job.
            raise EngineError(
                f"Job {job_id} continues, and this statement no longer waits for it: {_state(ended).refused}"
            )
        return ended

    def _settled(self, operation: Operation, job_id: str) -> Job:
        """Wait until a job has ended or refused to stop. Raises Canceled if its operation ends first."""
        while operation.status not in TERMINAL:
            job = self.streams.owner.wait_settled(job_id, POLL_S)
            if job is not None:
                return job
        raise Canceled(f"Operation {operation.handle} is {operation.status}.")


def _state(job: Job) -> StreamState:
    return job.stream or StreamState()
