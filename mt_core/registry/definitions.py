"""The store of workflow definitions in the registry's database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, insert, select, update

from mt_core.registry.rows import definition_of, definition_row, instant_text
from mt_core.registry.schema import DEFINITIONS, RUNS
from mt_core.registry.transaction import SqlTransaction
from mt_core.workflow.definitions import DefinitionStore, WorkflowDefinition, etag_of


@dataclass(frozen=True)
class SqlDefinitionStore(DefinitionStore):
    """A store in which each method runs in its own transaction, begun with *begin*.

    Methods fail if they are called inside another transaction.
    """

    begin: Callable[[], AbstractContextManager[SqlTransaction]]

    def put(self, definition: WorkflowDefinition) -> None:
        row = definition_row(definition)
        this = DEFINITIONS.c.workflow_id == definition.workflow_id
        with self.begin() as transaction:
            if transaction.statements.execute(update(DEFINITIONS).where(this).values(row)).rowcount == 0:
                transaction.statements.execute(insert(DEFINITIONS).values(row))

    def get(self, workflow_id: str) -> WorkflowDefinition | None:
        definitions = self._read(select(DEFINITIONS).where(DEFINITIONS.c.workflow_id == workflow_id))
        return definitions[0] if definitions else None

    def delete(self, workflow_id: str) -> None:
        with self.begin() as transaction:
            transaction.workflows.delete(workflow_id)

    def all(self) -> list[WorkflowDefinition]:
        return self._read(select(DEFINITIONS))

    def shard(self, number: int) -> tuple[str, list[WorkflowDefinition]]:
        definitions = self._read(select(DEFINITIONS).where(DEFINITIONS.c.shard == number))
        return etag_of(definitions), definitions

    def latest_schedule_times(self) -> Mapping[str, datetime]:
        # One index lookup per workflow: grouping a ledger of a million runs would read all of them.
        covering = (RUNS.c.table_id == DEFINITIONS.c.workflow_id) & RUNS.c.last_point.is_not(None)
        with self.begin() as transaction:
            covering &= RUNS.c.requested_at <= instant_text(transaction.now())
            last = select(RUNS.c.last_point).where(covering).order_by(RUNS.c.last_point.desc()).limit(1)
            latest = last.scalar_subquery().label("latest")
            rows = transaction.statements.execute(select(DEFINITIONS.c.workflow_id, latest)).mappings().all()
        return {
            row["workflow_id"]: datetime.fromisoformat(row["latest"])
            for row in rows
            if row["latest"] is not None
        }

    def _read(self, statement: Select[tuple[str, int, str]]) -> list[WorkflowDefinition]:
        with self.begin() as transaction:
            rows = (
                transaction.statements.execute(statement.order_by(DEFINITIONS.c.workflow_id)).mappings().all()
            )
        return [definition_of(dict(row)) for row in rows]
