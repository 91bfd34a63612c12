"""Change numbers: every write of a table or run gets the next one, so that a reader finds what changed.

A number is one more than the highest in the columns `changed` of tables, runs and deletions. It is computed
in the statement that writes, from the ends of three indexes. Transactions are serial, so numbers become
visible in their order: a reader that has seen a number has seen all lower ones. A deletion is a row of its
own, one for each table, since retention deletes as many runs as are written. The newest is never forgotten,
because it may have the highest number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Executable, Table, bindparam, delete, func, select, union
from sqlalchemy.dialects import postgresql, sqlite

from mt_core.registry.rows import instant_text
from mt_core.registry.schema import DELETIONS, LAST_CHANGE, NEXT_CHANGE, RUNS, TABLES
from mt_core.registry.statements import Statements


@dataclass(frozen=True, slots=True)
class SqlChanges:
    """Implements `StoredChanges`."""

    statements: Statements

    def newest(self) -> int:
        newest: int = self.statements.execute(_NEWEST).scalar_one()
        return newest

    def tables_after(self, number: int) -> Collection[str]:
        return set(self.statements.execute(_TABLES_AFTER, {"number": number}).scalars())

    def forget(self, before: datetime) -> None:
        self.statements.execute(_FORGET, {"before": instant_text(before)})


def note_deletion(statements: Statements, table: Table, keys: Collection[str]) -> None:
    """Store for their tables that these rows of *table*, runs or tables, are about to be deleted."""
    values = {"its_keys": list(keys), "deleted_at": instant_text(statements.now())}
    statements.execute(_NOTE_DELETION[statements.connection.dialect.name, table], values)


# Statements are built once, because building one and its cache key takes longer than executing it.
_NEWEST = select(LAST_CHANGE)
_TABLES_AFTER = union(
    *(
        select(table.c.table_id).where(table.c.changed > bindparam("number"))
        for table in (TABLES, RUNS, DELETIONS)
    )
)
_OTHER = DELETIONS.alias("other")
_FORGET = delete(DELETIONS).where(
    DELETIONS.c.deleted_at < bindparam("before"),
    DELETIONS.c.changed < select(func.max(_OTHER.c.changed)).scalar_subquery(),
)


def _noting_deletion(insert: Callable[..., Any], table: Table, key: Column[Any]) -> Executable:
    deleted = (
        select(table.c.table_id, NEXT_CHANGE, bindparam("deleted_at"))
        .where(key.in_(bindparam("its_keys", expanding=True)))
        .distinct()
    )
    statement = insert(DELETIONS).from_select(["table_id", "changed", "deleted_at"], deleted)
    latest = {name: statement.excluded[name] for name in ("changed", "deleted_at")}
    noting: Executable = statement.on_conflict_do_update(index_elements=["table_id"], set_=latest)
    return noting


_NOTE_DELETION = {
    (dialect, table): _noting_deletion(insert, table, key)
    for dialect, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
    for table, key in ((TABLES, TABLES.c.table_id), (RUNS, RUNS.c.run_id))
}
