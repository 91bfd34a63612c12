"""Statements about materialized tables, which the manager executes, and DESCRIBE of other relations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import get_args

from mt_core.errors import MtError
from mt_core.sessions.operations.operation import OperationKind, Work
from mt_core.sessions.ports import StatementEngine, TableCommands
from mt_core.sessions.statements.catalog_requests import Answer, CatalogRequests
from mt_core.sessions.statements.handlers import Handlers
from mt_core.sessions.statements.refresh_wait import PendingRefresh, outcome_result
from mt_core.sessions.statements.spark_work import SparkWork, Task
from mt_core.sql.kinds import Trait
from mt_core.sql.statements import TableStatement, qualify
from mt_core.tables.table_commands import CommandContext, CommandOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedTableStatements:
    """Executes statements about materialized tables. `describe` handles DESCRIBE of other relations."""

    commands: TableCommands
    engine: StatementEngine
    spark: SparkWork
    requests: CatalogRequests
    describe: Answer

    @property
    def handlers(self) -> Handlers:
        return dict.fromkeys(get_args(TableStatement), self._perform)

    def _perform(self, task: Task, statement: TableStatement) -> PendingRefresh | None:
        operation, job_id = task.operation, task.operation.planned_job_id
        operation.begin(Work(kind=OperationKind.TABLE, message="working on the table"))
        self.spark.await_engine(operation)
        if Trait.JOB in operation.statement.traits:
            operation.begin(self.spark.running(OperationKind.SPARK, job_id))
        context = self._context(task)
        cancel, session = self.engine.cancel, task.session.handle
        with self.spark.jobs.running(operation, (operation.statement,), cancel, session=session):
            outcome = self.commands.execute(statement, context)
        if outcome.wait_for is not None:
            return _pending(outcome.wait_for, statement, outcome, context)
        if outcome.passthrough:
            self.requests.finish(task, statement, answer=self.describe)
        else:
            operation.finish(outcome_result(outcome))
        return None

    def _context(self, task: Task) -> CommandContext:
        session = task.context()
        state = self.engine.session_state(session)
        return CommandContext(
            catalog=state.catalog,
            namespace=state.namespace,
            properties=session.properties,
            caller=task.operation.caller,
            zone=state.zone,
            temporary_relations=state.relations,
            temporary_functions=state.functions,
            has_variable=partial(self.engine.has_variable, session),
            job_id=task.operation.planned_job_id,
        )


def _pending(
    run_id: str, statement: TableStatement, outcome: CommandOutcome, context: CommandContext
) -> PendingRefresh:
    name = getattr(statement, "name", None)
    table = outcome.created or (qualify(name, context.catalog, context.namespace) if name else None)
    if table is None:
        raise MtError(f"{type(statement).__name__} names no table, but began the refresh of one.")
    return PendingRefresh(run_id=run_id, table=table, statement=statement, outcome=outcome)
