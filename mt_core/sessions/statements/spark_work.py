"""Work in Spark: statements that Spark performs, as one job of their operation."""

from __future__ import annotations

from collections.abc import Sequence

from mt_core.errors import Canceled, EngineUnavailable, QueryFailed
from mt_core.sessions.operations.jobs import JobLedger
from mt_core.sessions.operations.operation import TERMINAL, Operation, OperationKind, OperationStatus, Work
from mt_core.sessions.ports import StatementEngine, StatementResult
from mt_core.sessions.statements import answers
from mt_core.sessions.statements.catalog_statements import CatalogStatements
from mt_core.sessions.statements.tasks import POLL_S, Task, task_counts
from mt_core.sql.parser import ReadStatement


class SparkWork:
    """Runs tasks in Spark, listed in the ledger of jobs; waits for Spark to start up to `engine_timeout_s`."""

    def __init__(
        self, engine: StatementEngine, jobs: JobLedger, catalogs: CatalogStatements, *, engine_timeout_s: float
    ) -> None:
        self._engine, self._jobs, self._catalogs = engine, jobs, catalogs
        self._engine_timeout_s = engine_timeout_s

    def run(self, task: Task, statements: Sequence[ReadStatement], *, changing: bool) -> None:
        """Run statements one after the other as one job; what is *changing* data answers the job's id."""
        operation, engine, job_id = task.operation, self._engine, task.operation.planned_job_id
        kind = OperationKind.JOB if changing else OperationKind.SPARK
        operation.begin(Work(kind=kind, message="waiting for Spark"))
        self.await_engine(operation)
        running = Work(
            kind=kind,
            message="running",
            job_id=job_id,
            stop=lambda: engine.cancel(job_id),
            measure=lambda: task_counts(engine.progress(job_id)),
        )
        operation.begin(running)
        texts = [self._catalogs.in_spark(statement, task.context()) for statement in statements]
        single = len(texts) == 1
        with self._jobs.running(operation, statements[0], engine.cancel) as follow:
            found = self._run_one(task, texts[0]) if single else self._run_set(task, texts)
            follow(found)
        operation.finish(answers.of_spark(found, job_id, changing=changing))

    def await_engine(self, operation: Operation) -> None:
        """Wait until Spark runs or the operation has ended; raises EngineUnavailable when that takes too long."""
        waited_s = 0.0
        while operation.status not in TERMINAL and not self._engine.wait_ready(POLL_S):
            operation.tell("waiting for Spark to start")
            waited_s += POLL_S
            if waited_s >= self._engine_timeout_s:
                raise EngineUnavailable(
                    f"Spark did not start within {self._engine_timeout_s:.0f} s; see the gateway's log, then try again."
                )

    def _run_one(self, task: Task, texts: Sequence[str]) -> StatementResult:
        """Run a statement, which may be several of Spark's; returns what the first gives."""
        job_id, context = task.operation.planned_job_id, task.context()
        found = self._engine.execute(context, texts[0], job_id=job_id)
        for text in texts[1:]:
            self._engine.execute(context, text, job_id=job_id)
        return found

    def _run_set(self, task: Task, statements: Sequence[Sequence[str]]) -> StatementResult:
        """Run the statements of a set; raises QueryFailed naming the one that failed. Closing the session does not end it."""
        operation, counts = task.operation, list[int | None]()
        for number, texts in enumerate(statements, 1):
            if operation.status in (OperationStatus.CANCELED, OperationStatus.TIMEOUT):
                raise Canceled(f"Operation {operation.handle} is {operation.status}.")
            operation.tell(f"running statement {number} of {len(statements)}")
            try:
                counts.append(self._run_one(task, texts).affected_rows)
            except QueryFailed as cause:
                raise QueryFailed(
                    f"Statement {number} of {len(statements)} of the statement set failed, those before it are done: {cause}",
                    error_class=cause.error_class,
                ) from cause
        return StatementResult(is_query=False, rows=None, affected_rows=_sum(counts))


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum of *counts*, None if one of them is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
