"""Streaming mode: which statements run as streams.

The property `execution.runtime-mode` and the tables that a statement reads decide this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mt_core.model.stream import StreamMember
from mt_core.sessions.operations.operation import OperationKind, Work
from mt_core.sessions.ports import SessionContext, StatementEngine
from mt_core.sessions.properties.property_values import RUNTIME_MODE_KEY
from mt_core.sessions.statements.spark_work import SparkWork, Task
from mt_core.sessions.statements.translation import member_in_spark
from mt_core.sessions.streaming.streaming_statements import StreamingStatements
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import CREATE_TABLE_AS, INSERT, REPLACE_TABLE_AS, SELECT
from mt_core.sql.temporal_joins import check_temporal_joins

STREAMING = "streaming"
TABLE_OF_QUERY = frozenset({CREATE_TABLE_AS, REPLACE_TABLE_AS})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingMode:
    """Runs statements that read streams, in streaming mode. `detached` submits INSERTs as jobs."""

    engine: StatementEngine
    spark: SparkWork
    detached: StreamingStatements

    def run(self, task: Task, statements: Sequence[ReadStatement]) -> bool:
        """Run *statements*, a query or the members of one job, as streams if one of them reads a stream.

        Returns False if they must run as batch. Raises the errors of running them, and Unsupported with an
        alternative.
        """
        properties, operation = task.properties_in_force(), task.operation
        if not may_stream(properties, statements):
            return False
        operation.begin(Work(kind=OperationKind.SPARK, message="waiting for Spark"))
        self.spark.await_engine(operation)
        members = stream_members(self.engine, task.context(), statements)
        if not members:
            return False
        if statements[0].type in TABLE_OF_QUERY:
            return self._create(task, statements[0], members[0])
        if statements[0].type == SELECT:
            self.spark.follow(task, statements[0], members[0])
        else:
            operation.finish(self.detached.submit(task, statements))
        return True

    def _create(self, task: Task, statement: ReadStatement, member: StreamMember) -> bool:
        """Start the job that creates a table from a stream. Return False if the table need not be created."""
        operation = task.operation
        reservation = self.engine.reserve(task.context(), member.text, job_id=operation.planned_job_id)
        if reservation is not None:
            operation.finish(self.detached.create(task, statement, member, reservation))
        return reservation is not None


def stream_members(
    engine: StatementEngine, context: SessionContext, statements: Sequence[ReadStatement]
) -> Sequence[StreamMember]:
    """Return *statements* as stream members, or nothing if none of them reads a stream.

    Raises Unsupported for a temporal join that is not supported.
    """
    for each in statements:
        # Spark's parser would reject a temporal join without a helpful message.
        check_temporal_joins(each.text)
    members = [
        member_in_spark(each, engine, context)
        if each.type in TABLE_OF_QUERY
        else StreamMember(text=each.text, hints=each.hints)
        for each in statements
    ]
    return members if any(engine.reads_stream(context, member) for member in members) else ()


def may_stream(properties: Mapping[str, str], statements: Sequence[ReadStatement]) -> bool:
    """Return whether *properties* let *statements* run as streams if one of them reads a stream."""
    types = {each.type for each in statements}
    alone = len(statements) == 1 and types <= TABLE_OF_QUERY
    is_streaming = properties.get(RUNTIME_MODE_KEY, "").strip().lower() == STREAMING
    return is_streaming and (types in ({SELECT}, {INSERT}) or alone)
