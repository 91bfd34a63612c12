"""One transaction on the tables of the registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import Table, delete, select

from mt_core.model.catalog import CreatedCatalog
from mt_core.model.connector_table import ConnectorTable
from mt_core.model.function import CreatedFunction
from mt_core.model.gateway import GatewayLease
from mt_core.registry.changes import SqlChanges
from mt_core.registry.freshness import SqlFreshness
from mt_core.registry.jobs import SqlJobs
from mt_core.registry.notices import SqlNotices
from mt_core.registry.rows import row_of
from mt_core.registry.runs import SqlRuns
from mt_core.registry.schema import CATALOGS, CONNECTOR_TABLES, FUNCTIONS, GATEWAYS, TOMBSTONES
from mt_core.registry.statements import Statements
from mt_core.registry.tables import SqlTables
from mt_core.registry.workflows import SqlWorkflows
from mt_core.tables.registry import (
    StoredChanges,
    StoredFacts,
    StoredFreshness,
    StoredJobs,
    StoredNotices,
    StoredRuns,
    StoredTables,
    StoredWorkflows,
    Tombstone,
)


class SqlTransaction:
    """Implements `Transaction` by executing *statements*.

    If a change is refused, the transaction remains usable and retains all earlier changes.
    """

    def __init__(self, statements: Statements) -> None:
        self.statements = statements
        self.now = statements.now
        self.past_unreadable = statements.past_unreadable
        self.tables: StoredTables = SqlTables(statements)
        self.runs: StoredRuns = SqlRuns(statements)
        self.jobs: StoredJobs = SqlJobs(statements)
        self.workflows: StoredWorkflows = SqlWorkflows(statements)
        self.tombstones: StoredFacts[Tombstone] = SqlFacts(
            statements=statements, kind=Tombstone, table=TOMBSTONES, order="dropped_at"
        )
        self.catalogs: StoredFacts[CreatedCatalog] = SqlFacts(
            statements=statements, kind=CreatedCatalog, table=CATALOGS
        )
        self.connector_tables: StoredFacts[ConnectorTable] = SqlFacts(
            statements=statements, kind=ConnectorTable, table=CONNECTOR_TABLES
        )
        self.functions: StoredFacts[CreatedFunction] = SqlFacts(
            statements=statements, kind=CreatedFunction, table=FUNCTIONS
        )
        self.changes: StoredChanges = SqlChanges(statements)
        self.notices: StoredNotices = SqlNotices(statements)
        self.freshness: StoredFreshness = SqlFreshness(statements)
        self.gateways: StoredFacts[GatewayLease] = SqlFacts(
            statements=statements, kind=GatewayLease, table=GATEWAYS
        )


F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFacts(Generic[F]):
    """Implements `StoredFacts` in *table*, whose primary key is the key of the facts.

    Rows are sorted by *order* and then by the key.
    """

    statements: Statements
    kind: type[F]
    table: Table
    order: str | None = None

    def all(self) -> Sequence[F]:
        (key,) = self.table.primary_key
        order = [key] if self.order is None else [self.table.c[self.order], key]
        return self.statements.facts(self.kind, select(self.table).order_by(*order))

    def put(self, fact: F) -> None:
        (key,) = self.table.primary_key
        row = row_of(fact)
        self.delete(row[key.name])
        self.statements.insert(self.table, row)

    def delete(self, key: str) -> None:
        (column,) = self.table.primary_key
        self.statements.execute(delete(self.table).where(column == key))
