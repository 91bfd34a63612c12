"""The registry port: transactions over the facts of the gateway, with one facet for each kind of fact.

Everything that must survive a crash or be seen by other gateways is in the registry. Its transactions are
serializable, and a row that a transaction reads by key is locked until its end. On top of that, every table
has a revision and every run a status, attempt and claim: `replace` succeeds only against the expected ones,
so that a decision made outside the transaction cannot overwrite a later change. `in_transaction` repeats the
work after a conflict, so it must have no effect outside the transaction.

Facets list damaged rows separately (`past_unreadable`): one row that cannot be decoded must not hide the
others, but commands fail on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from mt_core.errors import FactUnreadable, RevisionConflict
from mt_core.model.catalog import CreatedCatalog
from mt_core.model.connector_table import ConnectorTable
from mt_core.model.function import CreatedFunction
from mt_core.model.gateway import GatewayLease
from mt_core.model.job import Job
from mt_core.model.run import REFRESHES, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.workflow.definitions import DefinitionStore

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F")
_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A dropped table whose storage, files or workflow may remain until the reconciler removes them."""

    table_id: str
    identifier: TableIdentifier
    location: str
    handler: str | None
    dropped_at: datetime


class StoredTables(Protocol):
    """The materialized tables in a transaction."""

    def get(self, table_id: str) -> MaterializedTable | None:
        """Return a table, locked until the end of the transaction."""

    def named(self, identifier: TableIdentifier) -> MaterializedTable | None:
        """Return the table of that name, locked until the end of the transaction."""

    def with_names(self, identifiers: Collection[TableIdentifier]) -> Sequence[MaterializedTable]:
        """Return the tables with these names, ordered by identifier."""

    def page(
        self, *, after: TableIdentifier | None = None, limit: int | None = None
    ) -> Sequence[MaterializedTable]:
        """Return at most *limit* tables behind *after* (None: from the first), ordered by identifier."""

    def continuous(self) -> Sequence[MaterializedTable]:
        """Return the tables that the source watcher refreshes, ordered by identifier."""

    def insert(self, table: MaterializedTable) -> None:
        """Add a table; raise TableExists if its name is taken."""

    def replace(self, table: MaterializedTable) -> MaterializedTable:
        """Store *table* over revision `table.revision` and return it with the next one; raise
        RevisionConflict.
        """

    def delete(self, table_id: str) -> None:
        """Remove a table; its runs stay in the ledger."""

    def next_claim(self, table_id: str) -> int:
        """Increment the table's claim number, without a new revision, and return it; raise TableGone."""


class StoredRuns(Protocol):
    """The run ledger in a transaction."""

    def get(self, run_id: str) -> RefreshRun | None:
        """Return a run, locked until the end of the transaction."""

    def insert(self, run: RefreshRun) -> None:
        """Add a run.

        Raises RevisionConflict if another run of the table has its request key and is neither FAILED nor
        CANCELED.
        """

    def replace(self, run: RefreshRun, *, expected: RefreshRun) -> None:
        """Store *run* over *expected*.

        Raises RevisionConflict if status, attempt or claim differ from *expected*, or if another run of the
        table is RUNNING already.
        """

    def delete(self, run_ids: Iterable[str]) -> None:
        """Remove these runs; harmless for missing ones."""

    def with_key(self, table_id: str, request_key: str) -> RefreshRun | None:
        """Return the table's run with that request key.

        A run that is neither FAILED nor CANCELED takes precedence over newer ones; None if there is no run.
        """

    def newest(
        self,
        *,
        table_id: str | None = None,
        statuses: Iterable[RunStatus] | None = None,
        strategy: str | None = None,
        kinds: Collection[RunKind] = REFRESHES,
        before: str | None = None,
        limit: int | None = None,
    ) -> Sequence[RefreshRun]:
        """Return runs, newest request first, from before the run *before*; none if that was deleted."""

    def newest_of_each(self, table_ids: Collection[str], *, limit: int) -> Sequence[RefreshRun]:
        """Return at most *limit* refreshes of each of these tables, newest request first; missing tables have
        none.
        """

    def oldest(self, *, after: str | None = None, limit: int) -> Sequence[RefreshRun]:
        """Return runs, oldest request first, from after the run *after*; none if that was deleted."""

    def queued(self, table_id: str) -> Sequence[RefreshRun]:
        """Return the QUEUED runs of a table, oldest first."""

    def next_claimable(self) -> RefreshRun | None:
        """Return the oldest QUEUED run that may be claimed.

        It waits for no other run, or its wait has ended, and its table has no RUNNING run and no exclusive
        intent. A solo run is returned only if there is no other.
        """

    def waiting(self) -> Sequence[RefreshRun]:
        """Return the QUEUED runs that wait until some instant, oldest first."""

    def last_point(self, table_id: str, *, requested_by: datetime) -> datetime | None:
        """Return the latest point of a table's runs requested by that instant; None if no run has one."""

    def covering(self, table_id: str, after: datetime) -> Sequence[RefreshRun]:
        """Return the SUCCEEDED and SKIPPED runs whose latest point is later than *after*."""

    def covered_by(self, run_id: str) -> Sequence[RefreshRun]:
        """Return the COALESCED runs with `covered_by` = *run_id*."""

    def expired(self) -> Sequence[RefreshRun]:
        """Return the RUNNING runs whose own lease, or whose gateway's lease, has expired."""


class StoredJobs(Protocol):
    """The jobs of statements that change data, in a transaction."""

    def get(self, job_id: str) -> Job | None:
        """Return a job, locked until the end of the transaction."""

    def with_ids(self, job_ids: Collection[str]) -> Sequence[Job]:
        """Return the jobs with these ids, ordered by id."""

    def insert(self, job: Job) -> None:
        """Add a job; raise RevisionConflict if its id is taken."""

    def replace(self, job: Job) -> Job:
        """Store *job* over revision `job.revision` and return it with the next; raise RevisionConflict."""

    def newest(self, limit: int) -> Sequence[Job]:
        """Return the jobs with the latest begin, newest first."""

    def open(self) -> Sequence[Job]:
        """Return the jobs that have not ended, oldest first."""

    def streams(self) -> Sequence[Job]:
        """Return the detached jobs that have not ended, oldest first."""

    def ended_streams(self, ended_before: datetime) -> Sequence[Job]:
        """Return the jobs that ended before that instant and still have their definition, oldest first."""

    def with_hooks_due(self) -> Sequence[Job]:
        """Return the jobs with a pending hook call, oldest first."""

    def forget(self, ended_before: datetime) -> int:
        """Remove the jobs that ended before that instant, and return how many.

        Jobs with a pending hook call or a definition stay.
        """


class StoredWorkflows(Protocol):
    """The workflow definitions in a transaction."""

    def delete(self, workflow_id: str) -> None:
        """Delete a workflow definition, so that schedulers stop reading it."""

    def pause(self, workflow_id: str, *, paused: bool) -> None:
        """Store in its definition whether a workflow is paused; harmless if it is missing."""

    def shard_version(self, number: int) -> str:
        """Return a text that changes with every workflow definition of the shard and the table behind it."""


class StoredFacts(Protocol[F]):
    """The facts of one kind in a transaction: tombstones, catalogs, functions, connector tables or gateway
    leases.
    """

    def all(self) -> Sequence[F]:
        """Return all facts: tombstones oldest first, leases by owner, and the others by name."""

    def put(self, fact: F) -> None:
        """Store a fact over the one with its key: the `table_id`, the lease's owner, or the name."""

    def delete(self, key: str) -> None:
        """Remove a fact; harmless if it is missing."""


class Transaction(Protocol):
    """One serializable transaction of the registry."""

    tables: StoredTables
    runs: StoredRuns
    jobs: StoredJobs
    workflows: StoredWorkflows
    tombstones: StoredFacts[Tombstone]
    catalogs: StoredFacts[CreatedCatalog]
    connector_tables: StoredFacts[ConnectorTable]
    functions: StoredFacts[CreatedFunction]
    gateways: StoredFacts[GatewayLease]

    def now(self) -> datetime:
        """Return the time by the registry's own clock (UTC), which leases use."""

    def past_unreadable(self) -> AbstractContextManager[list[FactUnreadable]]:
        """Skip unreadable rows within the block and collect their errors in the returned list.

        Outside of such a block these errors are raised.
        """


class Registry(Protocol):
    """The database of the manager's facts."""

    definitions: DefinitionStore

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction; it commits at the end of the block and rolls back on an exception."""

    def close(self) -> None: ...


def in_transaction(registry: Registry, work: Callable[[Transaction], T]) -> T:
    """Run *work* in a transaction, and again after a conflict with another transaction."""
    for _ in range(_TRIES - 1):
        try:
            with registry.transaction() as tx:
                return work(tx)
        except RevisionConflict:
            continue
    with registry.transaction() as tx:
        return work(tx)


def each_row(tx: Transaction, read: Callable[[], Sequence[T]]) -> list[T | FactUnreadable]:
    """Return the rows that *read*, one call of a facet, returns, with an error in place of each unreadable
    row.

    For statements that list rows: one damaged row must not hide the others.
    """
    with tx.past_unreadable() as unreadable:
        rows: list[T | FactUnreadable] = [*read()]
        for error in unreadable:
            rows.insert(error.position, error)
    return rows


class _WithRegistry(Protocol):
    registry: Registry


S = TypeVar("S", bound=_WithRegistry)


def transactional(work: Callable[Concatenate[S, Transaction, P], T]) -> Callable[Concatenate[S, P], T]:
    """Turn *work* into a method that runs it in one transaction of the object's `registry`, by
    `in_transaction`.
    """

    @wraps(work)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return in_transaction(self.registry, lambda tx: work(self, tx, *args, **kwargs))

    return method
