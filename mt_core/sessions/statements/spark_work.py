"""Statements that Spark performs, each as one job of its operation.

A statement in Flink's syntax may become several statements of Spark, and a statement set has several members.
A client nevertheless sees one operation with one job id, which SHOW JOBS lists and STOP JOB cancels.
Therefore all Spark jobs of an operation share its planned job id, which is known before anything runs. A
statement that cannot be translated leaves no job. The members of a set run one after the other and are not a
transaction: if one fails, the changes of earlier members remain, and the error says so. If Spark is still
starting, the operation waits for up to `engine_timeout_s` and can be cancelled meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mt_core.base.rowset import Column, RowSet
from mt_core.errors import Canceled, EngineUnavailable, QueryFailed
from mt_core.model.stream import StreamMember
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.operations.operation import (
    DONE,
    POLL_S,
    TERMINAL,
    Operation,
    OperationKind,
    OperationResult,
    ResultKind,
    Work,
)
from mt_core.sessions.ports import SessionContext, StatementEngine, StatementResult
from mt_core.sessions.session import Session
from mt_core.sessions.statements.table_creations import TableCreations
from mt_core.sessions.statements.translation import in_spark
from mt_core.sessions.temporary_objects import TemporaryObject
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import CREATE_TABLE_AS, REPLACE_TABLE_AS

JOB_COLUMNS = (Column(name="job id"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A separate engine session for one statement, with its temporary objects."""

    session_id: str
    temporary: Sequence[TemporaryObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One statement to perform, in the state that its session has when the statement's turn begins.

    If `place` is given, the statement runs in that engine session, with the properties of its own session.
    """

    session: Session
    operation: Operation
    properties: Mapping[str, str]
    place: Place | None = None

    def context(self) -> SessionContext:
        context = self.session.context(self.properties)
        return context if self.place is None else replace(context, session_id=self.place.session_id)

    def temporary(self) -> Sequence[TemporaryObject]:
        """Return the temporary objects that the statement can see."""
        return self.session.temporary if self.place is None else self.place.temporary

    def properties_in_force(self) -> Mapping[str, str]:
        """Return the session's properties, overridden by those of the statement."""
        return {**self.session.properties, **self.properties}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWork:
    """Runs tasks in Spark, each as one job, and waits for up to `engine_timeout_s` for Spark to start."""

    engine: StatementEngine
    jobs: Jobs
    creations: TableCreations
    engine_timeout_s: float

    def run(
        self,
        task: Task,
        statements: Sequence[ReadStatement],
        *,
        changing: bool,
        keep: Callable[[], object] = lambda: None,
    ) -> None:
        """Run statements one after the other as one job, then call *keep*. An error of *keep* fails the job.

        If the statements are *changing* data, the result is the job id.
        """
        operation, engine, job_id = task.operation, self.engine, task.operation.planned_job_id
        kind = OperationKind.JOB if changing else OperationKind.SPARK
        operation.begin(Work(kind=kind, message="waiting for Spark"))
        self.await_engine(operation)
        operation.begin(replace(self.running(kind, job_id), statements=len(statements)))
        texts = [in_spark(statement, engine, task.context()) for statement in statements]
        session, properties = task.session.handle, task.properties_in_force()
        with self.jobs.running(
            operation, statements, engine.cancel, session=session, properties=properties
        ) as follow:
            members = list(zip(statements, texts, strict=True))
            result = self._run_one(task, *members[0]) if len(members) == 1 else self._run_set(task, members)
            keep()
            follow(result)
        operation.finish(_answer(result, job_id, changing=changing))

    def follow(self, task: Task, statement: ReadStatement, query: StreamMember) -> None:
        """Finish the operation with the unbounded rows of a streaming SELECT."""
        operation, job_id = task.operation, task.operation.planned_job_id
        operation.begin(self.running(OperationKind.SPARK, job_id))
        with self.jobs.running(
            operation, (statement,), self.engine.cancel, session=task.session.handle
        ) as ends_with:
            rows = self.engine.follow(task.context(), query, job_id=job_id)
            result = StatementResult(is_query=True, rows=rows)
            ends_with(result)
        operation.finish(_answer(result, job_id, changing=False))

    def running(self, kind: OperationKind, job_id: str) -> Work:
        """Return the work of an operation whose job runs in Spark."""
        engine = self.engine
        return Work(
            kind=kind,
            message="running",
            job_id=job_id,
            stop=lambda: engine.cancel(job_id),
            measure=lambda: engine.progress(job_id),
        )

    def await_engine(self, operation: Operation) -> None:
        """Wait until Spark is ready or the operation has ended.

        Raises EngineUnavailable after the timeout.
        """
        waited_s = 0.0
        while operation.status not in TERMINAL and not self.engine.wait_ready(POLL_S):
            operation.report("waiting for Spark to start")
            waited_s += POLL_S
            if waited_s >= self.engine_timeout_s:
                raise EngineUnavailable(
                    f"Spark did not start within {self.engine_timeout_s:.0f} s; "
                    "see the gateway's log, then try again."
                )

    def _run_one(self, task: Task, statement: ReadStatement, texts: Sequence[str]) -> StatementResult:
        """Run the Spark statements of one statement and return the result of the first."""
        job_id, context = task.operation.planned_job_id, task.context()
        fact = statement.fact
        if isinstance(fact, CreateConnectorTable) and not fact.has_statement:
            self.engine.create_unbounded(context, fact)
            return StatementResult(is_query=False, rows=None)
        if statement.type in (CREATE_TABLE_AS, REPLACE_TABLE_AS):
            first = self.creations.run(context, texts[0], job_id)
        else:
            first = self.engine.execute(context, texts[0], job_id=job_id)
        for text in texts[1:]:
            self.engine.execute(context, text, job_id=job_id)
        return first

    def _run_set(self, task: Task, members: Sequence[tuple[ReadStatement, Sequence[str]]]) -> StatementResult:
        """Run the members of a statement set. Raises QueryFailed naming the member that failed.

        Closing the session does not stop them.
        """
        operation, results = task.operation, list[StatementResult]()
        for number, member in enumerate(members, 1):
            if operation.cancelled:
                raise Canceled(f"Operation {operation.handle} is {operation.status}.")
            operation.report(f"running statement {number} of {len(members)}")
            try:
                results.append(self._run_one(task, *member))
            except QueryFailed as cause:
                raise cause.reworded(
                    f"Statement {number} of {len(members)} of the statement set failed, "
                    f"those before it are done: {cause}"
                ) from cause
        return StatementResult(
            is_query=False,
            rows=None,
            affected_rows=_sum([result.affected_rows for result in results]),
            # All members run under one job id, so the count of the last one includes the others.
            rows_read=results[-1].rows_read,
        )


def _sum(counts: Sequence[int | None]) -> int | None:
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if len(numbers) == len(counts) else None


def _answer(result: StatementResult, job_id: str, *, changing: bool) -> OperationResult:
    """Return the result of a statement that ran in Spark, with the job id if it was *changing* data."""
    if result.rows is not None:
        return OperationResult(
            rows=result.rows,
            result_kind=ResultKind.SUCCESS_WITH_CONTENT,
            is_query=result.is_query,
            job_id=job_id if result.is_query or changing else None,
        )
    if not changing:
        return replace(DONE, warnings=result.warnings) if result.warnings else DONE
    return OperationResult(
        rows=RowSet(columns=JOB_COLUMNS, rows=[[job_id]]),
        result_kind=ResultKind.SUCCESS_WITH_CONTENT,
        job_id=job_id,
        affected_rows=result.affected_rows,
    )
