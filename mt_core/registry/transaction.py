"""One transaction on the tables of the registry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Connection,
    CursorResult,
    Executable,
    Select,
    Table,
    and_,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from mt_core.clock import Clock
from mt_core.errors import RevisionConflict, TableExists, TableGone
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.registry import rows
from mt_core.registry.failures import translated
from mt_core.registry.schema import DEFINITIONS, RUNS, TABLES, TOMBSTONES, word
from mt_core.tables.ports import Tombstone

QUEUED, RUNNING, COALESCED = word(RunStatus.QUEUED), word(RunStatus.RUNNING), word(RunStatus.COALESCED)
DONE = (word(RunStatus.SUCCEEDED), word(RunStatus.SKIPPED))
SET_ASIDE = (word(RunStatus.FAILED), word(RunStatus.CANCELED))


class SqlTransaction:
    """A `Transaction` over *connection*; after a change that was refused it goes on as if nobody had asked for it."""

    def __init__(self, connection: Connection, *, name: str, clock: Clock | None) -> None:
        self._connection = connection
        self._name = name
        self._clock = clock

    def now(self) -> datetime:
        if self._clock is not None:
            return self._clock.now()
        if self._connection.dialect.name == "sqlite":
            return rows.instant_of(self._execute(select(func.strftime("%Y-%m-%dT%H:%M:%fZ", "now"))).scalar_one())
        now: datetime = self._execute(select(func.clock_timestamp())).scalar_one()
        return now.astimezone(UTC)

    # ---------------------------------------------------------------------------------------------------------- tables

    def table(self, table_id: str) -> MaterializedTable | None:
        return self._table(select(TABLES).where(TABLES.c.table_id == table_id).with_for_update())

    def table_named(self, identifier: TableIdentifier) -> MaterializedTable | None:
        return self._table(select(TABLES).where(_named(TABLES, identifier)).with_for_update())

    def tables(self) -> Sequence[MaterializedTable]:
        statement = select(TABLES).order_by(TABLES.c.catalog, TABLES.c.namespace, TABLES.c.name)
        return [rows.table_of(row) for row in self._execute(statement).mappings()]

    def insert_table(self, table: MaterializedTable) -> None:
        if not self._insert(TABLES, rows.table_row(table)):
            raise TableExists(f"Materialized table {table.identifier} exists already; DROP it or choose another name.")

    def replace_table(self, table: MaterializedTable) -> MaterializedTable:
        row = rows.table_row(replace(table, revision=table.revision + 1))
        # The claim number has a writer of its own, next_claim, which leaves the revision as it is.
        del row["claim"]
        other = TABLES.alias("other")
        taken = exists().where(_named(other, table.identifier), other.c.table_id != table.table_id)
        current = (TABLES.c.table_id == table.table_id) & (TABLES.c.revision == table.revision)
        if self._execute(update(TABLES).where(current, ~taken).values(row)).rowcount == 0:
            raise self._why_not_replaced(table)
        claim = self._execute(select(TABLES.c.claim).where(TABLES.c.table_id == table.table_id)).scalar_one()
        return replace(table, revision=table.revision + 1, claim=claim)

    def delete_table(self, table_id: str) -> None:
        self._execute(delete(TABLES).where(TABLES.c.table_id == table_id))

    def next_claim(self, table_id: str) -> int:
        this = TABLES.c.table_id == table_id
        if self._execute(update(TABLES).where(this).values(claim=TABLES.c.claim + 1)).rowcount == 0:
            raise TableGone(f"Materialized table {table_id} was dropped; look it up by its name again.")
        claim: int = self._execute(select(TABLES.c.claim).where(this)).scalar_one()
        return claim

    # ------------------------------------------------------------------------------------------------------------ runs

    def run(self, run_id: str) -> RefreshRun | None:
        return self._run(select(RUNS).where(RUNS.c.run_id == run_id).with_for_update())

    def insert_run(self, run: RefreshRun) -> None:
        if not self._insert(RUNS, rows.run_row(run)):
            raise RevisionConflict(
                f"Refresh {run.run_id} was not added: its id or request key {run.request_key!r} is taken, "
                f"or it is RUNNING and another refresh of table {run.table_id} is too; read the ledger again."
            )

    def replace_run(self, run: RefreshRun, *, expected: RefreshRun) -> None:
        current = and_(
            RUNS.c.run_id == expected.run_id,
            RUNS.c.status == expected.status.value,
            RUNS.c.attempt == expected.attempt,
            RUNS.c.claim == expected.claim,
        )
        if run.status is RunStatus.RUNNING:
            current &= ~_running_elsewhere(run)
        if self._execute(update(RUNS).where(current).values(rows.run_row(run))).rowcount == 0:
            raise RevisionConflict(
                f"Refresh {run.run_id} was not stored as {run.status}: it is no longer {expected.status} at attempt "
                f"{expected.attempt} with claim {expected.claim}, or another refresh of table {run.table_id} is "
                "RUNNING; read it again."
            )

    def run_with_key(self, request_key: str) -> RefreshRun | None:
        keyed = select(RUNS).where(RUNS.c.request_key == request_key)
        return self._run(keyed.order_by(RUNS.c.status.in_(SET_ASIDE), RUNS.c.seq.desc()).limit(1))

    def runs(
        self, *, table_id: str | None = None, statuses: Iterable[RunStatus] | None = None, limit: int | None = None
    ) -> Sequence[RefreshRun]:
        statement = select(RUNS).order_by(RUNS.c.seq.desc()).limit(limit)
        if table_id is not None:
            statement = statement.where(RUNS.c.table_id == table_id)
        if statuses is not None:
            statement = statement.where(RUNS.c.status.in_(sorted(status.value for status in statuses)))
        return self._runs(statement)

    def queued(self, table_id: str) -> Sequence[RefreshRun]:
        of_table = select(RUNS).where(RUNS.c.table_id == table_id, RUNS.c.status == QUEUED)
        return self._runs(of_table.order_by(RUNS.c.seq))

    def next_claimable(self) -> RefreshRun | None:
        return self._run(_NEXT_CLAIMABLE)

    def covering_runs(self, table_id: str, after: datetime) -> Sequence[RefreshRun]:
        later = RUNS.c.last_point > rows.instant_text(after)
        statement = select(RUNS).where(RUNS.c.table_id == table_id, later, RUNS.c.status.in_(DONE))
        return self._runs(statement.order_by(RUNS.c.seq))

    def covered_runs(self, run_id: str) -> Sequence[RefreshRun]:
        covered = select(RUNS).where(RUNS.c.covered_by == run_id, RUNS.c.status == COALESCED)
        return self._runs(covered.order_by(RUNS.c.seq))

    def expired_runs(self, owner: str) -> Sequence[RefreshRun]:
        lapsed = or_(
            RUNS.c.lease_until.is_(None),
            RUNS.c.lease_until < rows.instant_text(self.now()),
            RUNS.c.owner.is_distinct_from(owner),
        )
        return self._runs(select(RUNS).where(RUNS.c.status == RUNNING, lapsed).order_by(RUNS.c.seq))

    # -------------------------------------------------------------------------------------- tombstones and definitions

    def put_tombstone(self, tombstone: Tombstone) -> None:
        self.delete_tombstone(tombstone.table_id)
        self._insert(TOMBSTONES, rows.tombstone_row(tombstone))

    def delete_tombstone(self, table_id: str) -> None:
        self._execute(delete(TOMBSTONES).where(TOMBSTONES.c.table_id == table_id))

    def tombstones(self) -> Sequence[Tombstone]:
        statement = select(TOMBSTONES).order_by(TOMBSTONES.c.dropped_at, TOMBSTONES.c.table_id)
        return [rows.tombstone_of(row) for row in self._execute(statement).mappings()]

    def delete_definition(self, workflow_id: str) -> None:
        self._execute(delete(DEFINITIONS).where(DEFINITIONS.c.workflow_id == workflow_id))

    # ------------------------------------------------------------------------------------------------------ statements

    def _execute(self, statement: Executable) -> CursorResult[Any]:
        with translated(self._name):
            return self._connection.execute(statement)

    def _insert(self, into: Table, row: dict[str, Any]) -> bool:
        """Add *row* and return True; return False, and go on, when a unique index refuses it."""
        dialect = sqlite if self._connection.dialect.name == "sqlite" else postgresql
        statement = dialect.insert(into).values(row).on_conflict_do_nothing()
        return self._execute(statement.execution_options(preserve_rowcount=True)).rowcount > 0

    def _table(self, statement: Select[Any]) -> MaterializedTable | None:
        row = self._execute(statement).mappings().one_or_none()
        return None if row is None else rows.table_of(row)

    def _run(self, statement: Select[Any]) -> RefreshRun | None:
        row = self._execute(statement).mappings().one_or_none()
        return None if row is None else rows.run_of(row)

    def _runs(self, statement: Select[Any]) -> list[RefreshRun]:
        return [rows.run_of(row) for row in self._execute(statement).mappings()]

    def _why_not_replaced(self, table: MaterializedTable) -> TableExists | RevisionConflict:
        named = self.table_named(table.identifier)
        if named is not None and named.table_id != table.table_id:
            return TableExists(f"Materialized table {table.identifier} exists already; choose another name.")
        return RevisionConflict(
            f"Materialized table {table.identifier} is no longer at revision {table.revision}; read it again."
        )


def _named(table: Any, identifier: TableIdentifier) -> Any:
    return and_(
        table.c.catalog == identifier.catalog,
        table.c.namespace == identifier.namespace,
        table.c.name == identifier.name,
    )


def _running_elsewhere(run: RefreshRun) -> Any:
    other = RUNS.alias("other")
    return exists().where(other.c.table_id == run.table_id, other.c.status == RUNNING, other.c.run_id != run.run_id)


def _next_claimable() -> Select[Any]:
    # NOT IN, because few tables are busy or held: they are collected once, not looked for at each queued run.
    running = RUNS.alias("running")
    busy = select(running.c.table_id).where(running.c.status == RUNNING)
    held = select(TABLES.c.table_id).where(TABLES.c.exclusive)
    free = and_(RUNS.c.table_id.not_in(busy), RUNS.c.table_id.not_in(held))
    return select(RUNS).where(RUNS.c.status == QUEUED, free).order_by(RUNS.c.seq).limit(1)


_NEXT_CLAIMABLE = _next_claimable()
