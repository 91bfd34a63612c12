"""The stored workflow definitions, within a transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from sqlalchemy import bindparam, delete, select, update

from mt_core.registry.rows import definition_of, definition_row
from mt_core.registry.schema import DEFINITIONS, TABLES
from mt_core.registry.statements import Statements


@dataclass(frozen=True, slots=True)
class SqlWorkflows:
    """Implements `StoredWorkflows`."""

    statements: Statements

    def delete(self, workflow_id: str) -> None:
        self.statements.execute(delete(DEFINITIONS).where(DEFINITIONS.c.workflow_id == workflow_id))

    def pause(self, workflow_id: str, *, paused: bool) -> None:
        this = DEFINITIONS.c.workflow_id == workflow_id
        row = self.statements.execute(select(DEFINITIONS).where(this)).mappings().one_or_none()
        if row is not None:
            definition = replace(definition_of(row), paused=paused)
            self.statements.execute(update(DEFINITIONS).where(this).values(definition_row(definition)))

    def shard_version(self, number: int) -> str:
        rows = self.statements.execute(_SHARD, {"shard": number}).all()
        return sha256(repr([tuple(row) for row in rows]).encode()).hexdigest()


# Statements are built once, because building one and its cache key takes longer than executing it.
_SHARD = (
    select(DEFINITIONS.c.body, TABLES.c.table_id, TABLES.c.revision)
    .select_from(DEFINITIONS.outerjoin(TABLES, TABLES.c.table_id == DEFINITIONS.c.workflow_id))
    .where(DEFINITIONS.c.shard == bindparam("shard"))
    .order_by(DEFINITIONS.c.workflow_id)
)
