"""The services that all commands on materialized tables use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from queue import SimpleQueue

from mt_core.clock import Clock
from mt_core.model.partition import WHOLE, Scope
from mt_core.model.run import RefreshRun, RunKind
from mt_core.model.table import MaterializedTable, TableDefinition, TableIdentifier
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.engine import Query, RefreshEngine, StorageSpec
from mt_core.tables.events import Events
from mt_core.tables.intents import Intents
from mt_core.tables.keeper import Keeper, KeeperReport
from mt_core.tables.overview.overview import Overview
from mt_core.tables.registry import Registry, Transaction
from mt_core.tables.repeated_errors import RepeatedErrors
from mt_core.tables.runs.at_work import AtWork
from mt_core.tables.runs.decide import all_computed
from mt_core.tables.runs.ledger import Ledger
from mt_core.tables.settings import ManagerSettings
from mt_core.tables.signal import Signal

_STORAGE_OPTIONS = ("write.", "commit.", "history.", "read.", "format-version")
_STRIPES = 64


@dataclass(frozen=True, slots=True)
class NameLocks:
    """Locks by table name, because storage is created and dropped by name, and a name can be reused."""

    stripes: tuple[threading.Lock, ...] = field(
        default_factory=lambda: tuple(threading.Lock() for _ in range(_STRIPES))
    )

    def lock(self, identifier: TableIdentifier) -> AbstractContextManager[object]:
        """Return the lock for *identifier*, which it may share with other names."""
        return self.stripes[hash(identifier) % _STRIPES]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableServices:
    """The registry, engine, keeper and other services, which the application creates once.

    `signal` wakes workers when the ledger changes, and `events` reports changes to listeners. `overview` has
    what is shown of all tables. `reports` maps table ids to the keeper's last report and its time. `fresh_at`
    maps the ids of CONTINUOUS tables to a time at which they are known to have been fresh. Threads may read
    and write single items of both without a lock. The queue `changed_tables` contains the names of tables
    with new rows. `names` serializes CREATE and DROP of the same name, `at_work` tracks refreshes that must
    be alone, and `errors` contains the last errors in the log.
    """

    registry: Registry
    engine: RefreshEngine
    keeper: Keeper
    settings: ManagerSettings
    clock: Clock
    ledger: Ledger
    intents: Intents
    new_id: Callable[[], str]
    signal: Signal
    events: Events
    overview: Overview
    reports: dict[str, tuple[datetime, KeeperReport]] = field(default_factory=dict)
    fresh_at: dict[str, datetime] = field(default_factory=dict)
    changed_tables: SimpleQueue[str] = field(default_factory=SimpleQueue)
    names: NameLocks = field(default_factory=NameLocks)
    errors: RepeatedErrors = field(default_factory=RepeatedErrors)
    at_work: AtWork = field(default_factory=AtWork)

    def new_run(
        self,
        table: MaterializedTable,
        kind: RunKind,
        now: datetime,
        *,
        requested_by: str | None,
        scope: Scope = WHOLE,
    ) -> RefreshRun:
        """Return a new run over *scope*; *requested_by* is the name of the requester's token, or None."""
        return RefreshRun(
            run_id=self.new_id(),
            table_id=table.table_id,
            kind=kind,
            scope=scope,
            requested_at=now,
            requested_by=requested_by,
        )

    def request_rebuild(
        self, tx: Transaction, table: MaterializedTable, requested_by: str | None
    ) -> RefreshRun:
        """Queue a run that recomputes all of *table*, unless one is already queued, and return it."""
        run = self.new_run(table, RunKind.REBUILD, tx.now(), requested_by=requested_by)
        return self.ledger.request_in(tx, table, run)

    def end_doubt(self, table: MaterializedTable) -> Callable[[MaterializedTable], MaterializedTable]:
        """Return a function that ends the doubt about *table* in a transaction.

        If the table still contains rows in doubt, the function requires a rebuild instead, which ends the
        doubt.
        """
        metadata = self.engine.metadata
        if table.doubt is None or all_computed(metadata.ancestors(metadata.load(table.identifier))):
            return lambda now: replace(now, doubt=None)
        return lambda now: replace(now, rebuild_due=fingerprint_of(now.definition))


def storage_spec(table: MaterializedTable) -> StorageSpec:
    """Return the specification for creating the storage table of *table*."""
    definition = table.definition
    return StorageSpec(
        identifier=table.identifier,
        table_id=table.table_id,
        columns=definition.columns,
        partition_keys=definition.partition_keys,
        transforms=definition.transforms,
        comment=definition.comment,
        location=table.location,
        properties={
            key: value for key, value in definition.options.items() if key.startswith(_STORAGE_OPTIONS)
        },
    )


def query_of(definition: TableDefinition, text: str | None = None) -> Query:
    """Return the query of a definition for the engine; *text* replaces its text if given."""
    return Query(
        text=text if text is not None else definition.expanded_query,
        catalog=definition.catalog,
        namespace=definition.namespace,
        zone=definition.zone,
        settings=definition.settings,
    )
