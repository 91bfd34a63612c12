"""Workflow definitions in the registry's database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from mt_core.registry.rows import definition_of, definition_row, instant_of
from mt_core.registry.schema import DEFINITIONS, RUNS
from mt_core.workflow.definitions import DefinitionStore, WorkflowDefinition, etag_of


class SqlDefinitionStore(DefinitionStore):
    """Every method is a transaction of its own, begun with *begin*; inside another transaction it is refused."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._begin = begin

    def put(self, definition: WorkflowDefinition) -> None:
        row = definition_row(definition)
        with self._begin() as connection:
            known = DEFINITIONS.c.workflow_id == definition.workflow_id
            if connection.execute(update(DEFINITIONS).where(known).values(row)).rowcount == 0:
                connection.execute(insert(DEFINITIONS).values(row))

    def get(self, workflow_id: str) -> WorkflowDefinition | None:
        found = self._read(select(DEFINITIONS).where(DEFINITIONS.c.workflow_id == workflow_id))
        return found[0] if found else None

    def delete(self, workflow_id: str) -> None:
        with self._begin() as connection:
            connection.execute(delete(DEFINITIONS).where(DEFINITIONS.c.workflow_id == workflow_id))

    def all(self) -> list[WorkflowDefinition]:
        return self._read(select(DEFINITIONS))

    def shard(self, number: int) -> tuple[str, list[WorkflowDefinition]]:
        found = self._read(select(DEFINITIONS).where(DEFINITIONS.c.shard == number))
        return etag_of(found), found

    def latest_schedule_times(self) -> Mapping[str, datetime]:
        # One look into the index per workflow: grouping a ledger of a million runs would read all of it.
        its = (RUNS.c.table_id == DEFINITIONS.c.workflow_id) & RUNS.c.last_point.is_not(None)
        latest = select(func.max(RUNS.c.last_point)).where(its).scalar_subquery()
        with self._begin() as connection:
            found = connection.execute(select(DEFINITIONS.c.workflow_id, latest)).all()
        return {workflow_id: instant_of(text) for workflow_id, text in found if text is not None}

    def _read(self, statement: Select[tuple[str, int, str]]) -> list[WorkflowDefinition]:
        with self._begin() as connection:
            rows = connection.execute(statement.order_by(DEFINITIONS.c.workflow_id)).mappings().all()
        return [definition_of(dict(row)) for row in rows]
