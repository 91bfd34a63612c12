"""Answers: the results that statements end with, in Flink's shapes."""

from __future__ import annotations

from mt_core.rowset import OK, Column, RowSet
from mt_core.sessions.operations.operation import OperationResult, ResultKind
from mt_core.sessions.ports import StatementResult
from mt_core.tables.table_commands import CommandOutcome

DONE = OperationResult(rows=OK, result_kind=ResultKind.SUCCESS)
_JOB = (Column(name="job id"),)
_PROPERTIES = (Column(name="key"), Column(name="value"))


def content(rows: RowSet) -> OperationResult:
    """Return the answer of a statement that shows *rows* without a job."""
    return OperationResult(rows=rows, result_kind=ResultKind.SUCCESS_WITH_CONTENT)


def property_rows(shown: dict[str, str]) -> OperationResult:
    """Return the answer of SET: one row for each property."""
    return content(RowSet(columns=_PROPERTIES, rows=[[key, value] for key, value in shown.items()]))


def of_spark(found: StatementResult, job_id: str, *, changing: bool) -> OperationResult:
    """Return the answer of a statement that ran in Spark; one that is *changing* data shows its job's id."""
    if found.rows is not None:
        return OperationResult(
            rows=found.rows,
            result_kind=ResultKind.SUCCESS_WITH_CONTENT,
            is_query=found.is_query,
            job_id=job_id if found.is_query or changing else None,
        )
    if not changing:
        return DONE
    rows = RowSet(columns=_JOB, rows=[[job_id]])
    return OperationResult(
        rows=rows,
        result_kind=ResultKind.SUCCESS_WITH_CONTENT,
        job_id=job_id,
        affected_rows=found.affected_rows,
    )


def of_command(outcome: CommandOutcome) -> OperationResult:
    """Return the answer of a statement about materialized tables."""
    if outcome.rows is None:
        return OperationResult(rows=OK, result_kind=ResultKind.SUCCESS, warnings=outcome.warnings)
    return OperationResult(rows=outcome.rows, result_kind=ResultKind.SUCCESS_WITH_CONTENT, warnings=outcome.warnings)
