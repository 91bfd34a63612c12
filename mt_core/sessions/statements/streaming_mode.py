"""Streaming mode: which statements of a session run as streams, by `execution.runtime-mode` and the tables that they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mt_core.errors import Unsupported
from mt_core.model.stream import StreamMember
from mt_core.sessions.operations.operation import OperationKind, Work
from mt_core.sessions.ports import StatementEngine
from mt_core.sessions.properties.property_values import RUNTIME_MODE_KEY
from mt_core.sessions.statements.spark_work import SparkWork, Task
from mt_core.sessions.statements.streaming import StreamingStatements
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import INSERT, SELECT

STREAMING = "streaming"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingMode:
    """Runs the statements of sessions in streaming mode that read streams; `detached` makes jobs of INSERT statements, if there
    is an engine for them."""

    engine: StatementEngine
    spark: SparkWork
    detached: StreamingStatements | None

    def run(self, task: Task, statements: Sequence[ReadStatement]) -> bool:
        """Run *statements*, one query or the members of a job, as a stream, and return whether they are one.

        They are in streaming mode if one of them reads a table as a stream; else they run as batch. Raises what that raises,
        and Unsupported with the way out.
        """
        if not _may_stream(task, statements):
            return False
        operation = task.operation
        operation.begin(Work(kind=OperationKind.SPARK, message="waiting for Spark"))
        self.spark.await_engine(operation)
        context = task.context()
        members = [StreamMember(text=each.text, hints=each.hints) for each in statements]
        if not any(self.engine.reads_stream(context, member) for member in members):
            return False
        if statements[0].type == SELECT:
            self.spark.follow(task, statements[0], members[0])
        elif self.detached is None:
            raise Unsupported("This gateway runs no streaming jobs; SET 'execution.runtime-mode' = 'batch'.")
        else:
            operation.finish(self.detached.submit(task, statements))
        return True


def _may_stream(task: Task, statements: Sequence[ReadStatement]) -> bool:
    mode = task.properties_in_force().get(RUNTIME_MODE_KEY, "")
    types = {each.type for each in statements}
    return mode.strip().lower() == STREAMING and types in ({SELECT}, {INSERT})
