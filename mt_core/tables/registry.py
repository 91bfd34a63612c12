"""What the manager needs of the registry: transactions over its facts, one facet for each kind of fact."""

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
    """A dropped table of which storage, files or workflow may be left, until the reconciler removes them."""

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
        """Return the tables of these names, ordered by identifier."""

    def page(
        self, *, after: TableIdentifier | None = None, limit: int | None = None
    ) -> Sequence[MaterializedTable]:
        """Return the tables, ordered by identifier: those behind *after* (None: from the first),
        at most *limit*.
        """

    def continuous(self) -> Sequence[MaterializedTable]:
        """Return the tables that refreshes keep when their sources change, ordered by identifier."""

    def insert(self, table: MaterializedTable) -> None:
        """Add a table; raises TableExists when its name is taken."""

    def replace(self, table: MaterializedTable) -> MaterializedTable:
        """Store *table* over revision `table.revision` and return it with the next revision;
        raises RevisionConflict.
        """

    def delete(self, table_id: str) -> None:
        """Remove a table; its runs stay in the ledger."""

    def next_claim(self, table_id: str) -> int:
        """Raise the table's claim number (its revision stays) and return it; raises TableGone."""


class StoredRuns(Protocol):
    """The run ledger in a transaction."""

    def get(self, run_id: str) -> RefreshRun | None:
        """Return a run, locked until the end of the transaction."""

    def insert(self, run: RefreshRun) -> None:
        """Add a run; raises RevisionConflict when its key is taken by a run of the table not FAILED
        or CANCELED.
        """

    def replace(self, run: RefreshRun, *, expected: RefreshRun) -> None:
        """Store *run*; raises RevisionConflict unless status, attempt and claim in the ledger are those
        of *expected*, or when another run of the table is RUNNING already."""

    def delete(self, run_ids: Iterable[str]) -> None:
        """Remove these runs; harmless for those that are not there."""

    def with_key(self, table_id: str, request_key: str) -> RefreshRun | None:
        """Return the table's run of that key which is not FAILED or CANCELED, else the newest with it,
        else None.
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
        """Return runs, newest request first; only those requested before the run *before*,
        none if that was deleted.
        """

    def newest_of_each(self, table_ids: Collection[str], *, limit: int) -> Sequence[RefreshRun]:
        """Return the refreshes of these tables, of those that are there, newest request first,
        at most *limit* of each.
        """

    def oldest(self, *, after: str | None = None, limit: int) -> Sequence[RefreshRun]:
        """Return runs, oldest request first; only those requested after the run *after*,
        none if that was deleted.
        """

    def queued(self, table_id: str) -> Sequence[RefreshRun]:
        """Return the QUEUED runs of a table, oldest first."""

    def next_claimable(self) -> RefreshRun | None:
        """Return the oldest QUEUED run that waits for nothing, or no longer, and whose table has no RUNNING
        run and no exclusive intent; a solo one only if there is no other."""

    def waiting(self) -> Sequence[RefreshRun]:
        """Return the QUEUED runs that have an instant until which they wait, oldest first."""

    def last_point(self, table_id: str, *, requested_by: datetime) -> datetime | None:
        """Return the latest point of the runs of a table that were requested by that instant,
        None if none has one.
        """

    def covering(self, table_id: str, after: datetime) -> Sequence[RefreshRun]:
        """Return the SUCCEEDED and SKIPPED runs whose latest point is later than *after*."""

    def covered_by(self, run_id: str) -> Sequence[RefreshRun]:
        """Return the COALESCED runs with `covered_by` = *run_id*."""

    def expired(self) -> Sequence[RefreshRun]:
        """Return RUNNING runs whose lease has lapsed, or that of the gateway which owns them."""


class StoredJobs(Protocol):
    """The jobs of statements that change data, in a transaction."""

    def get(self, job_id: str) -> Job | None:
        """Return a job, locked until the end of the transaction."""

    def with_ids(self, job_ids: Collection[str]) -> Sequence[Job]:
        """Return the jobs of these ids, ordered by id."""

    def insert(self, job: Job) -> None:
        """Add a job; raises RevisionConflict when its id is taken."""

    def replace(self, job: Job) -> Job:
        """Store *job* over revision `job.revision` and return it with the next revision;
        raises RevisionConflict.
        """

    def newest(self, limit: int) -> Sequence[Job]:
        """Return the jobs that began last, the newest first."""

    def open(self) -> Sequence[Job]:
        """Return the jobs that have not ended, oldest first."""

    def streams(self) -> Sequence[Job]:
        """Return the detached jobs that have not ended, oldest first."""

    def ended_streams(self, ended_before: datetime) -> Sequence[Job]:
        """Return the jobs that ended before that instant and still have their definition, oldest first."""

    def with_hooks_due(self) -> Sequence[Job]:
        """Return the jobs with a hook that has to be called, oldest first."""

    def forget(self, ended_before: datetime) -> int:
        """Remove the jobs that ended before that instant and have no hook to call and no definition;
        return how many.
        """


class StoredWorkflows(Protocol):
    """Workflow definitions in a transaction."""

    def delete(self, workflow_id: str) -> None:
        """Delete a workflow definition, so that no scheduler reads it any more."""

    def pause(self, workflow_id: str, *, paused: bool) -> None:
        """Store whether a workflow is paused in its definition; harmless when there is none."""

    def shard_version(self, number: int) -> str:
        """Return a text that changes whenever a workflow definition of the shard changes,
        or the table behind one.
        """


class StoredFacts(Protocol[F]):
    """The facts of a kind in a transaction: tombstones, catalogs, functions, tables with a connector,
    or leases of gateways.
    """

    def all(self) -> Sequence[F]:
        """Return all facts: tombstones with the oldest first, catalogs, functions and tables by name,
        leases by owner.
        """

    def put(self, fact: F) -> None:
        """Store a fact, in place of one of its key: a tombstone's `table_id`, a lease's owner,
        else the name.
        """

    def delete(self, key: str) -> None:
        """Remove a fact; harmless when it is not there."""


class Transaction(Protocol):
    """One transaction of the registry: all of it happens or nothing;
    concurrent ones behave as if one after the other.
    """

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
        """Return the registry's own clock (UTC): leases use it."""

    def past_unreadable(self) -> AbstractContextManager[list[FactUnreadable]]:
        """Leave rows that cannot be read out in the block, which gets their errors;
        outside of it they are raised.
        """


class Registry(Protocol):
    """Where the manager's facts live."""

    definitions: DefinitionStore

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction; it commits at the end of the block and is undone by an exception."""

    def close(self) -> None: ...


def in_transaction(registry: Registry, work: Callable[[Transaction], T]) -> T:
    """Run *work* in a transaction, and again after a conflict with another one."""
    for _ in range(_TRIES - 1):
        try:
            with registry.transaction() as tx:
                return work(tx)
        except RevisionConflict:
            continue
    with registry.transaction() as tx:
        return work(tx)


def each_row(tx: Transaction, read: Callable[[], Sequence[T]]) -> list[T | FactUnreadable]:
    """Return what *read*, one call of a facet, gives, with the error in the place of each row
    that cannot be read.

    For statements that list: one damaged row must not hide the others.
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
    """Make a method of *work*: each call is one transaction of the object's `registry`,
    as by `in_transaction`.
    """

    @wraps(work)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return in_transaction(self.registry, lambda tx: work(self, tx, *args, **kwargs))

    return method
