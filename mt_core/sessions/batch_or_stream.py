"""Statements that run on Spark: as streams if the session is in streaming mode and they read a stream.

All others run as batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType

from mt_core.sessions.catalog.connector_table_changes import ConnectorTableChanges
from mt_core.sessions.catalog.connector_table_statements import ConnectorTableStatements
from mt_core.sessions.operations.jobs import target_of
from mt_core.sessions.statements.catalog_requests import CatalogRequests
from mt_core.sessions.statements.handlers import Handlers
from mt_core.sessions.statements.spark_work import SparkWork, Task
from mt_core.sessions.streaming.mode import StreamingMode
from mt_core.sessions.temporary_objects import TemporaryObject, check_writable
from mt_core.sql.catalog import CreateConnectorTable, SparkStatement
from mt_core.sql.kinds import Trait
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statement_types import INSERT


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrStream:
    """Runs a single statement or the members of a statement set.

    Statements about connector tables are answered from the registry, without Spark where possible.
    """

    spark: SparkWork
    mode: StreamingMode
    connector_tables: ConnectorTableStatements
    requests: CatalogRequests

    @property
    def handlers(self) -> Handlers:
        return dict.fromkeys((NoneType, SparkStatement, CreateConnectorTable), self._perform)

    def run(self, task: Task, statements: Sequence[ReadStatement], *, changing: bool = True) -> None:
        """Run statements as streams or as batch. If they are *changing* data, the result is their job id."""
        if len(statements) == 1 and self._answer(task, statements[0]):
            return
        if not self.mode.run(task, statements):
            self.run_batch(task, statements, changing=changing)

    def run_batch(self, task: Task, statements: Sequence[ReadStatement], *, changing: bool = True) -> None:
        """Run statements as batch, even if they could be streams. See `run`."""
        changes = ConnectorTableChanges(statements=self.connector_tables)
        recorders = [changes.recorder(each, task.context()) for each in statements]
        _check_targets(task.temporary(), statements)
        self.spark.run(task, statements, changing=changing, keep=lambda: [record() for record in recorders])

    def _perform(self, task: Task, _fact: SparkStatement | None) -> None:
        read = task.operation.statement
        self.run(task, (read,), changing=Trait.CHANGE in read.traits)

    def _answer(self, task: Task, read: ReadStatement) -> bool:
        """Answer a statement about a connector table. Return False for any other statement."""
        if not self.connector_tables.concern(read):
            return False
        answer = self.connector_tables.answer(read, self.requests.begin(task))
        if answer is not None:
            task.operation.finish(answer)
        return answer is not None


def _check_targets(temporary: Sequence[TemporaryObject], statements: Sequence[ReadStatement]) -> None:
    """Raise Unsupported for an INSERT into a table that only streams can write to."""
    for each in statements:
        # An INSERT names its target near the start; other statements might be tokenized to the end.
        if temporary and each.type == INSERT:
            check_writable(temporary, target_of(each))
