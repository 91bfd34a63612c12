"""Statements about a single job: DESCRIBE JOB and STOP JOB."""

from __future__ import annotations

from dataclasses import dataclass

from mt_core.model.job import Job
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.operations.operation import DONE, OperationResult, content
from mt_core.sessions.statements.catalog_requests import Answers, CatalogRequests
from mt_core.sessions.statements.handlers import Handlers
from mt_core.sessions.statements.listings import CatalogRequest, job_rows, savepoint_row
from mt_core.sessions.statements.spark_work import Task
from mt_core.sessions.streaming.streaming_statements import StreamingStatements
from mt_core.sql.catalog import DescribeJob, StopJob


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatements:
    """Describes and stops jobs."""

    jobs: Jobs

    @property
    def answers(self) -> Answers:
        return {DescribeJob: self._describe, StopJob: self._stop}

    def handlers(self, requests: CatalogRequests, detached: StreamingStatements) -> Handlers:
        """Return the handlers. *detached* stops streaming jobs."""

        def stop(task: Task, statement: StopJob) -> None:
            if _is_stream(self.jobs.job(statement.job_id)):
                task.operation.finish(detached.stop(task, statement))
            else:
                requests.finish(task, statement, answer=self._stop)

        return {**requests.handlers(self.answers), StopJob: stop}

    def _describe(self, statement: DescribeJob, request: CatalogRequest) -> OperationResult:
        return content(job_rows([self.jobs.job(statement.job_id)], request, described=True))

    def _stop(self, statement: StopJob, _request: CatalogRequest) -> OperationResult:
        savepoint = self.jobs.stop(statement.job_id, savepoint=statement.savepoint, drop=statement.drop)
        return DONE if savepoint is None else content(savepoint_row(savepoint))


def _is_stream(job: Job) -> bool:
    """Return whether a job is an independent stream.

    A stream that maintains a table is stopped through it.
    """
    return job.definition is not None and job.definition.keeps is None
