"""The stored materialized tables, within a transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, Executable, and_, bindparam, delete, exists, select, tuple_, update

from mt_core.base.identifiers import namespace_text
from mt_core.errors import RevisionConflict, TableExists, TableGone
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.registry.changes import note_deletion
from mt_core.registry.rows import row_of
from mt_core.registry.schema import NEXT_CHANGE, TABLES
from mt_core.registry.statements import Statements
from mt_core.tables.registry import TableChange


@dataclass(frozen=True, slots=True)
class SqlTables:
    """Implements `StoredTables`."""

    statements: Statements
    # The tables that the transaction has read one by one or written, by id.
    known: dict[str, MaterializedTable] = field(default_factory=dict)

    def get(self, table_id: str) -> MaterializedTable | None:
        return self._one(_TABLE, {"table_id": table_id})

    def named(self, identifier: TableIdentifier) -> MaterializedTable | None:
        return self._one(_TABLE_NAMED, _name_of(identifier))

    def with_names(self, identifiers: Collection[TableIdentifier]) -> Sequence[MaterializedTable]:
        names = [tuple(_name_of(each).values()) for each in identifiers]
        return self.statements.facts(MaterializedTable, _TABLES_NAMED, {"its_names": names}) if names else []

    def page(
        self, *, after: TableIdentifier | None = None, limit: int | None = None
    ) -> Sequence[MaterializedTable]:
        statement = _TABLES.limit(limit) if after is None else _TABLES_AFTER.limit(limit)
        return self.statements.facts(MaterializedTable, statement, None if after is None else _name_of(after))

    def continuous(self) -> Sequence[MaterializedTable]:
        return self.statements.facts(MaterializedTable, _CONTINUOUS)

    def insert(self, table: MaterializedTable) -> None:
        if not self.statements.insert(TABLES, row_of(table)):
            raise TableExists(
                f"Materialized table {table.identifier} already exists; DROP it or choose another name."
            )
        self._changed(table)

    def replace(self, table: MaterializedTable) -> MaterializedTable:
        row = row_of(replace(table, revision=table.revision + 1))
        # Only next_claim changes the claim number, and it does not change the revision.
        del row["claim"]
        expected = {
            "its_table_id": table.table_id,
            "its_revision": table.revision,
            **_name_of(table.identifier),
        }
        if self.statements.execute(_REPLACE, row | expected).rowcount == 0:
            named = self.named(table.identifier)
            if named is not None and named.table_id != table.table_id:
                raise TableExists(
                    f"Materialized table {table.identifier} already exists; choose another name."
                )
            raise RevisionConflict(
                f"Materialized table {table.identifier} is no longer at revision "
                f"{table.revision}; read it again."
            )
        claim = self.statements.execute(_CLAIM, {"table_id": table.table_id}).scalar_one()
        stored = replace(table, revision=table.revision + 1, claim=claim)
        self._changed(stored)
        return stored

    def delete(self, table_id: str) -> None:
        note_deletion(self.statements, TABLES, [table_id])
        if self.statements.execute(_DELETE, {"its_table_id": table_id}).rowcount:
            before = self.known.pop(table_id, None)
            self.statements.changes.append(TableChange(table_id=table_id, before=before, after=None))

    def next_claim(self, table_id: str) -> int:
        if self.statements.execute(_RAISE_CLAIM, {"its_table_id": table_id}).rowcount == 0:
            raise TableGone(f"Materialized table {table_id} was dropped; look it up by its name again.")
        claim: int = self.statements.execute(_CLAIM, {"table_id": table_id}).scalar_one()
        return claim

    def _one(self, statement: Executable, values: Mapping[str, Any]) -> MaterializedTable | None:
        table = self.statements.fact(MaterializedTable, statement, values)
        if table is not None:
            self.known[table.table_id] = table
        return table

    def _changed(self, table: MaterializedTable) -> None:
        before = self.known.get(table.table_id)
        self.statements.changes.append(TableChange(table_id=table.table_id, before=before, after=table))
        self.known[table.table_id] = table


def _name_of(identifier: TableIdentifier) -> dict[str, str]:
    namespace = namespace_text(identifier.namespace)
    return {"its_catalog": identifier.catalog, "its_namespace": namespace, "its_name": identifier.name}


def _has_name(table: Any) -> ColumnElement[bool]:
    return and_(
        table.c.catalog == bindparam("its_catalog"),
        table.c.namespace == bindparam("its_namespace"),
        table.c.name == bindparam("its_name"),
    )


# Statements are built once, because building one and its cache key takes longer than executing it.
_TABLE = select(TABLES).where(TABLES.c.table_id == bindparam("table_id"))
_NAME = (TABLES.c.catalog, TABLES.c.namespace, TABLES.c.name)
_TABLES = select(TABLES).order_by(*_NAME)
_TABLES_AFTER = _TABLES.where(
    tuple_(*_NAME) > tuple_(*map(bindparam, ("its_catalog", "its_namespace", "its_name")))
)
# The condition must be that of the partial index, because a planner does not use the index for any other.
_CONTINUOUS = _TABLES.where(TABLES.c.continuous)
_TABLE_NAMED = select(TABLES).where(_has_name(TABLES))
_TABLES_NAMED = _TABLES.where(tuple_(*_NAME).in_(bindparam("its_names", expanding=True)))
_OTHER = TABLES.alias("other")
_NAME_TAKEN = exists().where(_has_name(_OTHER), _OTHER.c.table_id != bindparam("its_table_id"))
_REPLACE = (
    update(TABLES)
    .where(
        TABLES.c.table_id == bindparam("its_table_id"),
        TABLES.c.revision == bindparam("its_revision"),
        ~_NAME_TAKEN,
    )
    .values(changed=NEXT_CHANGE)
)
_DELETE = delete(TABLES).where(TABLES.c.table_id == bindparam("its_table_id"))
_CLAIM = select(TABLES.c.claim).where(TABLES.c.table_id == bindparam("table_id"))
_RAISE_CLAIM = (
    update(TABLES)
    .where(TABLES.c.table_id == bindparam("its_table_id"))
    .values(claim=TABLES.c.claim + 1, changed=NEXT_CHANGE)
)
