"""Workflow definitions in the database, and what is left of dropped tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select, update

from mt_core.registry.rows import definition_of, definition_row, instant_of, tombstone_of, tombstone_row
from mt_core.registry.schema import DEFINITIONS, RUNS, TABLES, TOMBSTONES
from mt_core.registry.statements import Statements
from mt_core.tables.registry import Tombstone
from mt_core.workflow.definitions import DefinitionStore, WorkflowDefinition, etag_of


class SqlWorkflows:
    """A `StoredWorkflows`."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def delete(self, workflow_id: str) -> None:
        self._statements.execute(delete(DEFINITIONS).where(DEFINITIONS.c.workflow_id == workflow_id))

    def pause(self, workflow_id: str, *, paused: bool) -> None:
        this = DEFINITIONS.c.workflow_id == workflow_id
        row = self._statements.execute(select(DEFINITIONS).where(this)).mappings().one_or_none()
        if row is not None:
            definition = replace(definition_of(row), paused=paused)
            self._statements.execute(update(DEFINITIONS).where(this).values(definition_row(definition)))

    def shard_version(self, number: int) -> str:
        rows = self._statements.execute(_SHARD, {"shard": number}).all()
        return sha256(repr([tuple(row) for row in rows]).encode()).hexdigest()

    def put_tombstone(self, tombstone: Tombstone) -> None:
        self.delete_tombstone(tombstone.table_id)
        self._statements.insert(TOMBSTONES, tombstone_row(tombstone))

    def delete_tombstone(self, table_id: str) -> None:
        self._statements.execute(delete(TOMBSTONES).where(TOMBSTONES.c.table_id == table_id))

    def tombstones(self) -> Sequence[Tombstone]:
        statement = select(TOMBSTONES).order_by(TOMBSTONES.c.dropped_at, TOMBSTONES.c.table_id)
        return [tombstone_of(row) for row in self._statements.execute(statement).mappings()]


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


# Built once: to build a statement and its cache key takes longer than to execute it.
_SHARD = (
    select(DEFINITIONS.c.body, TABLES.c.table_id, TABLES.c.revision)
    .select_from(DEFINITIONS.outerjoin(TABLES, TABLES.c.table_id == DEFINITIONS.c.workflow_id))
    .where(DEFINITIONS.c.shard == bindparam("shard"))
    .order_by(DEFINITIONS.c.workflow_id)
)
