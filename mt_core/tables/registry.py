"""The registry port: transactions over the gateway's facts, with one interface per kind of fact.

Everything that must survive a crash or be visible to other gateways is in the registry. Its transactions are
serializable, and a row that a transaction reads by key is locked until the transaction ends. In addition,
every table has a revision, and every run has a status, attempt and claim. `replace` succeeds only if these
are as expected, so that a decision made outside the transaction cannot overwrite a later change.
`in_transaction` repeats the work after a conflict, so the work must have no effects outside the transaction.

Damaged rows are listed separately (`past_unreadable`): a row that cannot be decoded must not hide the others,
but commands on it fail.
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
    """A dropped table; its storage, files or workflow may remain until the reconciler removes them."""

    table_id: str
    identifier: TableIdentifier
    location: str
    handler: str | None
    dropped_at: datetime


class StoredTables(Protocol):
    """The materialized tables, within a transaction."""

    def get(self, table_id: str) -> MaterializedTable | None:
        """Return a table, or None, and lock it until the end of the transaction."""

    def named(self, identifier: TableIdentifier) -> MaterializedTable | None:
        """Return the table with this name, or None, and lock it until the end of the transaction."""

    def with_names(self, identifiers: Collection[TableIdentifier]) -> Sequence[MaterializedTable]:
        """Return the tables with these names, sorted by identifier."""

    def page(
        self, *, after: TableIdentifier | None = None, limit: int | None = None
    ) -> Sequence[MaterializedTable]:
        """Return up to *limit* tables that follow *after* (None: from the first), sorted by identifier."""

    def continuous(self) -> Sequence[MaterializedTable]:
        """Return the tables that the source watcher refreshes, sorted by identifier."""

    def insert(self, table: MaterializedTable) -> None:
        """Insert a table; raise TableExists if another table has its name."""

    def replace(self, table: MaterializedTable) -> MaterializedTable:
        """Replace revision `table.revision` of a table with *table*, and return it with the next revision.

        Raises RevisionConflict if the stored revision differs.
        """

    def delete(self, table_id: str) -> None:
        """Delete a table; its runs remain in the ledger."""

    def next_claim(self, table_id: str) -> int:
        """Increment the table's claim number, without a new revision, and return it.

        Raises TableGone if the table was dropped.
        """


class StoredRuns(Protocol):
    """The run ledger, within a transaction."""

    def get(self, run_id: str) -> RefreshRun | None:
        """Return a run, or None, and lock it until the end of the transaction."""

    def insert(self, run: RefreshRun) -> None:
        """Insert a run.

        Raises RevisionConflict if another run of the table has its request key and is neither FAILED nor
        CANCELED.
        """

    def replace(self, run: RefreshRun, *, expected: RefreshRun) -> None:
        """Replace the run *expected* with *run*.

        Raises RevisionConflict if status, attempt or claim differ from *expected*, or if another run of the
        table is RUNNING.
        """

    def delete(self, run_ids: Iterable[str]) -> None:
        """Delete these runs; harmless for missing ones."""

    def with_key(self, table_id: str, request_key: str) -> RefreshRun | None:
        """Return the table's run with this request key, or None.

        A run that is neither FAILED nor CANCELED takes precedence over newer ones.
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
        """Return up to *limit* runs that meet all given conditions, newest first.

        None means no condition or limit. With *before*, only runs requested before that run are returned, and
        none if it was deleted.
        """

    def newest_of_each(self, table_ids: Collection[str], *, limit: int) -> Sequence[RefreshRun]:
        """Return up to *limit* refreshes for each of these tables, newest request first.

        Tables that do not exist have none.
        """

    def oldest(self, *, after: str | None = None, limit: int) -> Sequence[RefreshRun]:
        """Return up to *limit* runs requested after the run *after* (None: from the first), oldest first.

        The result is empty if *after* was deleted.
        """

    def queued(self, table_id: str) -> Sequence[RefreshRun]:
        """Return the QUEUED runs of a table, oldest first."""

    def next_claimable(self) -> RefreshRun | None:
        """Return the oldest QUEUED run that may be claimed, or None.

        It does not wait for other runs, or its wait has ended, and its table has neither a RUNNING run nor an
        exclusive intent. A solo run is returned only if there is no other run.
        """

    def waiting(self) -> Sequence[RefreshRun]:
        """Return the QUEUED runs whose start is delayed until some instant, oldest first."""

    def last_point(self, table_id: str, *, requested_by: datetime) -> datetime | None:
        """Return the latest schedule time of the table's runs requested up to *requested_by*, or None."""

    def covering(self, table_id: str, after: datetime) -> Sequence[RefreshRun]:
        """Return the SUCCEEDED and SKIPPED runs whose latest schedule time is later than *after*."""

    def covered_by(self, run_id: str) -> Sequence[RefreshRun]:
        """Return the COALESCED runs whose `covered_by` is *run_id*."""

    def expired(self) -> Sequence[RefreshRun]:
        """Return the RUNNING runs whose lease, or whose gateway's lease, has expired."""


class StoredJobs(Protocol):
    """The jobs of statements that change data, within a transaction."""

    def get(self, job_id: str) -> Job | None:
        """Return a job, or None, and lock it until the end of the transaction."""

    def with_ids(self, job_ids: Collection[str]) -> Sequence[Job]:
        """Return the jobs with these ids, sorted by id."""

    def insert(self, job: Job) -> None:
        """Insert a job; raise RevisionConflict if another job has its id."""

    def replace(self, job: Job) -> Job:
        """Replace revision `job.revision` of a job with *job*, and return it with the next revision.

        Raises RevisionConflict if the stored revision differs.
        """

    def newest(self, limit: int) -> Sequence[Job]:
        """Return the *limit* jobs that started last, newest first."""

    def open(self) -> Sequence[Job]:
        """Return the jobs that have not ended, oldest first."""

    def streams(self) -> Sequence[Job]:
        """Return the detached jobs that have not ended, oldest first."""

    def ended_streams(self, ended_before: datetime) -> Sequence[Job]:
        """Return the jobs that ended before this instant and still have their definition, oldest first."""

    def with_hooks_due(self) -> Sequence[Job]:
        """Return the jobs with a pending hook call, oldest first."""

    def forget(self, ended_before: datetime) -> int:
        """Delete the jobs that ended before this instant and return their number.

        Jobs with a pending hook call or a definition are not deleted.
        """


class StoredWorkflows(Protocol):
    """The workflow definitions, within a transaction."""

    def delete(self, workflow_id: str) -> None:
        """Delete a workflow definition, so that schedulers no longer find it."""

    def pause(self, workflow_id: str, *, paused: bool) -> None:
        """Store in its definition whether a workflow is paused; harmless if there is no definition."""

    def shard_version(self, number: int) -> str:
        """Return text that changes whenever a workflow definition of the shard or its table changes."""


class StoredFacts(Protocol[F]):
    """The facts of one kind, within a transaction.

    Kinds are tombstones, catalogs, functions, connector tables and gateway leases.
    """

    def all(self) -> Sequence[F]:
        """Return all facts: tombstones oldest first, leases by owner, and all others by name."""

    def put(self, fact: F) -> None:
        """Insert a fact, or replace the one with its key: the `table_id`, the lease's owner, or the name."""

    def delete(self, key: str) -> None:
        """Delete a fact; harmless if it is missing."""


class Transaction(Protocol):
    """A serializable transaction of the registry."""

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
        """Return the time of the registry's own clock (UTC), which leases use."""

    def past_unreadable(self) -> AbstractContextManager[list[FactUnreadable]]:
        """Skip unreadable rows in the block and collect their errors in the returned list.

        Outside the block, these errors are raised.
        """


class Registry(Protocol):
    """The database that stores the gateway's facts."""

    definitions: DefinitionStore

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction; it is committed at the end of the block, and rolled back on an exception."""

    def close(self) -> None: ...


def in_transaction(registry: Registry, work: Callable[[Transaction], T]) -> T:
    """Run *work* in a transaction, and run it again after a conflict with another transaction.

    After `_TRIES` attempts, RevisionConflict is raised.
    """
    for _ in range(_TRIES - 1):
        try:
            with registry.transaction() as tx:
                return work(tx)
        except RevisionConflict:
            continue
    with registry.transaction() as tx:
        return work(tx)


def each_row(tx: Transaction, read: Callable[[], Sequence[T]]) -> list[T | FactUnreadable]:
    """Return the rows that *read* returns, with an error in place of each unreadable row.

    *read* must run a single query. This is for statements that list rows: a damaged row must not hide the
    others.
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
    """Turn *work* into a method that runs it in one transaction of the object's `registry`."""

    @wraps(work)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return in_transaction(self.registry, lambda tx: work(self, tx, *args, **kwargs))

    return method
