"""Statements that are answered directly by the catalogs, the registry or the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from mt_core.sessions.operations.operation import OperationKind, OperationResult, Work
from mt_core.sessions.statements.handlers import Handlers
from mt_core.sessions.statements.listings import CatalogRequest
from mt_core.sessions.statements.spark_work import SparkWork, Task
from mt_core.sql.kinds import Trait

Answer = Callable[[Any, CatalogRequest], OperationResult]
"""Performs a parsed statement, and returns its result."""
Answers = Mapping[type, Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRequests:
    """Creates requests for tasks, and finishes their operations with the answers."""

    spark: SparkWork

    def handlers(self, answers: Answers) -> Handlers:
        """Return a handler for each class of statements in *answers*."""
        return {fact: partial(self.finish, answer=answer) for fact, answer in answers.items()}

    def finish(self, task: Task, statement: object, *, answer: Answer) -> None:
        """Finish the operation of *task* with the answer to *statement*. Raises the error of *answer*."""
        request = self.begin(task)
        task.operation.finish(answer(statement, request))

    def begin(self, task: Task) -> CatalogRequest:
        """Return the request of *task*, after waiting for Spark if needed.

        The request becomes the work of the task's operation.
        """
        operation, job_id = task.operation, task.operation.planned_job_id
        stop = partial(self.spark.engine.cancel, job_id)
        operation.begin(
            Work(kind=OperationKind.SPARK, message="asking the catalogs", job_id=job_id, stop=stop)
        )
        if Trait.WITHOUT_ENGINE not in operation.statement.traits:
            self.spark.await_engine(operation)
        return CatalogRequest(session=task.session, context=task.context(), job_id=job_id)
