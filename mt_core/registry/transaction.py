"""One transaction on the tables of the registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Executable,
    ScalarSelect,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from mt_core.clock import Clock
from mt_core.errors import RevisionConflict, TableExists, TableGone
from mt_core.identifiers import namespace_text
from mt_core.model.catalog import CreatedCatalog
from mt_core.model.gateway import GatewayLease
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.registry import rows
from mt_core.registry.failures import translated
from mt_core.registry.schema import CATALOGS, DEFINITIONS, GATEWAYS, RUNS, TABLES, TOMBSTONES, word
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
            return rows.instant_of(self._execute(_SQLITE_NOW).scalar_one())
        now: datetime = self._execute(select(func.clock_timestamp())).scalar_one()
        return now.astimezone(UTC)

    # ---------------------------------------------------------------------------------------------------------- tables

    def table(self, table_id: str) -> MaterializedTable | None:
        return self._table(_TABLE, {"table_id": table_id})

    def table_named(self, identifier: TableIdentifier) -> MaterializedTable | None:
        return self._table(_TABLE_NAMED, _name_of(identifier))

    def tables(self, *, after: TableIdentifier | None = None, limit: int | None = None) -> Sequence[MaterializedTable]:
        statement = _TABLES.limit(limit) if after is None else _TABLES_BEHIND.limit(limit)
        found = self._execute(statement, None if after is None else _name_of(after))
        return [rows.table_of(row) for row in found.mappings()]

    def insert_table(self, table: MaterializedTable) -> None:
        if not self._insert(TABLES, rows.table_row(table)):
            raise TableExists(f"Materialized table {table.identifier} exists already; DROP it or choose another name.")

    def replace_table(self, table: MaterializedTable) -> MaterializedTable:
        row = rows.table_row(replace(table, revision=table.revision + 1))
        # The claim number has a writer of its own, next_claim, which leaves the revision as it is.
        del row["claim"]
        expected = {"its_table_id": table.table_id, "its_revision": table.revision, **_name_of(table.identifier)}
        if self._execute(_REPLACE_TABLE, row | expected).rowcount == 0:
            raise self._why_not_replaced(table)
        claim = self._execute(_CLAIM, {"table_id": table.table_id}).scalar_one()
        return replace(table, revision=table.revision + 1, claim=claim)

    def delete_table(self, table_id: str) -> None:
        self._execute(delete(TABLES).where(TABLES.c.table_id == table_id))

    def next_claim(self, table_id: str) -> int:
        if self._execute(_RAISE_CLAIM, {"its_table_id": table_id}).rowcount == 0:
            raise TableGone(f"Materialized table {table_id} was dropped; look it up by its name again.")
        claim: int = self._execute(_CLAIM, {"table_id": table_id}).scalar_one()
        return claim

    # ------------------------------------------------------------------------------------------------------------ runs

    def run(self, run_id: str) -> RefreshRun | None:
        return self._run(_RUN, {"run_id": run_id})

    def insert_run(self, run: RefreshRun) -> None:
        if not self._insert(RUNS, rows.run_row(run)):
            raise RevisionConflict(
                f"Refresh {run.run_id} was not added: its id or request key {run.request_key!r} is taken, "
                f"or it is RUNNING and another refresh of table {run.table_id} is too; read the ledger again."
            )

    def replace_run(self, run: RefreshRun, *, expected: RefreshRun) -> None:
        statement = _REPLACE_RUNNING if run.status is RunStatus.RUNNING else _REPLACE_RUN
        guard = {
            "its_run_id": expected.run_id,
            "its_table_id": run.table_id,
            "its_status": expected.status.value,
            "its_attempt": expected.attempt,
            "its_claim": expected.claim,
        }
        if self._execute(statement, rows.run_row(run) | guard).rowcount == 0:
            raise RevisionConflict(
                f"Refresh {run.run_id} was not stored as {run.status}: it is no longer {expected.status} at attempt "
                f"{expected.attempt} with claim {expected.claim}, or another refresh of table {run.table_id} is "
                "RUNNING; read it again."
            )

    def run_with_key(self, table_id: str, request_key: str) -> RefreshRun | None:
        return self._run(_RUN_WITH_KEY, {"table_id": table_id, "request_key": request_key})

    def runs(
        self,
        *,
        table_id: str | None = None,
        statuses: Iterable[RunStatus] | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Sequence[RefreshRun]:
        statement = select(RUNS).order_by(RUNS.c.seq.desc()).limit(limit)
        if before is not None:
            statement = statement.where(RUNS.c.seq < _place_of(before))
        if table_id is not None:
            statement = statement.where(RUNS.c.table_id == table_id)
        if statuses is not None:
            statement = statement.where(RUNS.c.status.in_(sorted(status.value for status in statuses)))
        return self._runs(statement)

    def oldest_runs(self, *, after: str | None = None, limit: int) -> Sequence[RefreshRun]:
        statement = select(RUNS).order_by(RUNS.c.seq).limit(limit)
        return self._runs(statement if after is None else statement.where(RUNS.c.seq > _place_of(after)))

    def delete_runs(self, run_ids: Iterable[str]) -> None:
        self._execute(delete(RUNS).where(RUNS.c.run_id.in_(list(run_ids))))

    def queued(self, table_id: str) -> Sequence[RefreshRun]:
        return self._runs(_QUEUED_OF_TABLE, {"table_id": table_id})

    def next_claimable(self) -> RefreshRun | None:
        return self._run(_NEXT_CLAIMABLE)

    def covering_runs(self, table_id: str, after: datetime) -> Sequence[RefreshRun]:
        later = RUNS.c.last_point > rows.instant_text(after)
        statement = select(RUNS).where(RUNS.c.table_id == table_id, later, RUNS.c.status.in_(DONE))
        return self._runs(statement.order_by(RUNS.c.seq))

    def covered_runs(self, run_id: str) -> Sequence[RefreshRun]:
        return self._runs(_COVERED_BY, {"run_id": run_id})

    def expired_runs(self) -> Sequence[RefreshRun]:
        now = rows.instant_text(self.now())
        ended = select(GATEWAYS.c.owner).where(GATEWAYS.c.lease_until <= now)
        lapsed = or_(
            RUNS.c.lease_until.is_(None), RUNS.c.lease_until < now, RUNS.c.owner.is_(None), RUNS.c.owner.in_(ended)
        )
        return self._runs(select(RUNS).where(RUNS.c.status == RUNNING, lapsed).order_by(RUNS.c.seq))

    # ----------------------------------------------------------------- gateways, tombstones, definitions and catalogs

    def gateways(self) -> Sequence[GatewayLease]:
        return [rows.gateway_of(row) for row in self._execute(select(GATEWAYS).order_by(GATEWAYS.c.owner)).mappings()]

    def put_gateway(self, lease: GatewayLease) -> None:
        self.delete_gateway(lease.owner)
        self._insert(GATEWAYS, rows.gateway_row(lease))

    def delete_gateway(self, owner: str) -> None:
        self._execute(delete(GATEWAYS).where(GATEWAYS.c.owner == owner))

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

    def shard_version(self, number: int) -> str:
        found = self._execute(_SHARD, {"shard": number}).all()
        return sha256(repr([tuple(row) for row in found]).encode()).hexdigest()

    def put_catalog(self, catalog: CreatedCatalog) -> None:
        self.delete_catalog(catalog.name)
        self._insert(CATALOGS, rows.catalog_row(catalog))

    def delete_catalog(self, name: str) -> None:
        self._execute(delete(CATALOGS).where(CATALOGS.c.name == name))

    def catalogs(self) -> Sequence[CreatedCatalog]:
        return [rows.catalog_of(row) for row in self._execute(select(CATALOGS).order_by(CATALOGS.c.name)).mappings()]

    def pause_definition(self, workflow_id: str, *, paused: bool) -> None:
        known = DEFINITIONS.c.workflow_id == workflow_id
        row = self._execute(select(DEFINITIONS).where(known)).mappings().one_or_none()
        if row is not None:
            changed = replace(rows.definition_of(row), paused=paused)
            self._execute(update(DEFINITIONS).where(known).values(rows.definition_row(changed)))

    # ------------------------------------------------------------------------------------------------------ statements

    def _execute(self, statement: Executable, values: Mapping[str, Any] | None = None) -> CursorResult[Any]:
        with translated(self._name):
            return self._connection.execute(statement, values)

    def _insert(self, into: Table, row: dict[str, Any]) -> bool:
        """Add *row* and return True; return False, and go on, when a unique index refuses it."""
        return self._execute(_INSERTS[self._connection.dialect.name, into], row).rowcount > 0

    def _table(self, statement: Select[Any], values: Mapping[str, Any]) -> MaterializedTable | None:
        row = self._execute(statement, values).mappings().one_or_none()
        return None if row is None else rows.table_of(row)

    def _run(self, statement: Select[Any], values: Mapping[str, Any] | None = None) -> RefreshRun | None:
        row = self._execute(statement, values).mappings().one_or_none()
        return None if row is None else rows.run_of(row)

    def _runs(self, statement: Select[Any], values: Mapping[str, Any] | None = None) -> list[RefreshRun]:
        return [rows.run_of(row) for row in self._execute(statement, values).mappings()]

    def _why_not_replaced(self, table: MaterializedTable) -> TableExists | RevisionConflict:
        named = self.table_named(table.identifier)
        if named is not None and named.table_id != table.table_id:
            return TableExists(f"Materialized table {table.identifier} exists already; choose another name.")
        return RevisionConflict(
            f"Materialized table {table.identifier} is no longer at revision {table.revision}; read it again."
        )


def _place_of(run_id: str) -> ScalarSelect[Any]:
    return select(RUNS.c.seq).where(RUNS.c.run_id == run_id).scalar_subquery()


def _name_of(identifier: TableIdentifier) -> dict[str, str]:
    namespace = namespace_text(identifier.namespace)
    return {"its_catalog": identifier.catalog, "its_namespace": namespace, "its_name": identifier.name}


def _named(table: Any) -> ColumnElement[bool]:
    return and_(
        table.c.catalog == bindparam("its_catalog"),
        table.c.namespace == bindparam("its_namespace"),
        table.c.name == bindparam("its_name"),
    )


def _replace_table() -> Update:
    other = TABLES.alias("other")
    taken = exists().where(_named(other), other.c.table_id != bindparam("its_table_id"))
    this = (TABLES.c.table_id == bindparam("its_table_id")) & (TABLES.c.revision == bindparam("its_revision"))
    return update(TABLES).where(this, ~taken)


def _replace_run() -> Update:
    return update(RUNS).where(
        RUNS.c.run_id == bindparam("its_run_id"),
        RUNS.c.status == bindparam("its_status"),
        RUNS.c.attempt == bindparam("its_attempt"),
        RUNS.c.claim == bindparam("its_claim"),
    )


def _replace_running() -> Update:
    other = RUNS.alias("other")
    others = (other.c.table_id == bindparam("its_table_id"), other.c.run_id != bindparam("its_run_id"))
    return _replace_run().where(~exists().where(*others, other.c.status == RUNNING))


def _next_claimable() -> Select[Any]:
    # NOT IN, because few tables are busy or held: they are collected once, not looked for at each queued run.
    running = RUNS.alias("running")
    busy = select(running.c.table_id).where(running.c.status == RUNNING)
    held = select(TABLES.c.table_id).where(TABLES.c.exclusive)
    free = and_(RUNS.c.table_id.not_in(busy), RUNS.c.table_id.not_in(held))
    return select(RUNS).where(RUNS.c.status == QUEUED, free).order_by(RUNS.c.solo, RUNS.c.seq).limit(1)


# Made once: to build a statement and its cache key anew takes longer than to run it.
_NEXT_CLAIMABLE = _next_claimable()
_TABLE = select(TABLES).where(TABLES.c.table_id == bindparam("table_id")).with_for_update()
_NAME = (TABLES.c.catalog, TABLES.c.namespace, TABLES.c.name)
_TABLES = select(TABLES).order_by(*_NAME)
_TABLES_BEHIND = _TABLES.where(tuple_(*_NAME) > tuple_(*map(bindparam, ("its_catalog", "its_namespace", "its_name"))))
_TABLE_NAMED = select(TABLES).where(_named(TABLES)).with_for_update()
_REPLACE_TABLE = _replace_table()
_DEFINED = DEFINITIONS.outerjoin(TABLES, TABLES.c.table_id == DEFINITIONS.c.workflow_id)
_SHARD = (
    select(DEFINITIONS.c.body, TABLES.c.table_id, TABLES.c.revision)
    .select_from(_DEFINED)
    .where(DEFINITIONS.c.shard == bindparam("shard"))
    .order_by(DEFINITIONS.c.workflow_id)
)
_CLAIM = select(TABLES.c.claim).where(TABLES.c.table_id == bindparam("table_id"))
_RAISE_CLAIM = update(TABLES).where(TABLES.c.table_id == bindparam("its_table_id")).values(claim=TABLES.c.claim + 1)
_RUN = select(RUNS).where(RUNS.c.run_id == bindparam("run_id")).with_for_update()
_REPLACE_RUN, _REPLACE_RUNNING = _replace_run(), _replace_running()
_KEYED = select(RUNS).where(RUNS.c.table_id == bindparam("table_id"), RUNS.c.request_key == bindparam("request_key"))
_RUN_WITH_KEY = _KEYED.order_by(RUNS.c.status.in_(SET_ASIDE), RUNS.c.seq.desc()).limit(1)
_OF_TABLE = select(RUNS).where(RUNS.c.table_id == bindparam("table_id"))
_QUEUED_OF_TABLE = _OF_TABLE.where(RUNS.c.status == QUEUED).order_by(RUNS.c.seq)
_COVERED = select(RUNS).where(RUNS.c.covered_by == bindparam("run_id"), RUNS.c.status == COALESCED)
_COVERED_BY = _COVERED.order_by(RUNS.c.seq)
_SQLITE_NOW = select(func.strftime("%Y-%m-%dT%H:%M:%fZ", "now"))
_INSERTS = {
    (dialect, table): insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    for dialect, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
    for table in (TABLES, RUNS, TOMBSTONES, CATALOGS, GATEWAYS)
}
