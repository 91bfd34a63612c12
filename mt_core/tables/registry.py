"""The registry port: transactions over the gateway's facts, with one interface per kind of fact.

Everything that must survive a crash or be visible to other gateways is in the registry. Its transactions are
serial: one begins when the previous one has ended, in whatever process. In addition, every table has a
revision, and every run has a status, attempt and claim. `replace` succeeds only if these are as expected, so
that a decision made outside the transaction cannot overwrite a later change. `in_transaction` repeats the
work after a conflict, so the work must have no effects outside the transaction.

`Registry.reading` does not take part in this order. It reads what was last committed, at the same time as a
transaction, and cannot write. What it returns is shown to users and clients, and never decided on: between
the read and the decision, a transaction may change it. Whoever shows facts learns of changes in two ways.
Every write of a table or run gives the row the next change number, across all gateways (`StoredChanges`).
And after a commit, this process's writes are passed to `Registry.on_commit`.

Damaged rows are listed separately (`past_unreadable`): a row that cannot be decoded must not hide the others,
but commands on it fail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from mt_core.errors import FactUnreadable, RevisionConflict
from mt_core.model.catalog import CreatedCatalog
from mt_core.model.connector_table import ConnectorTable
from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.function import CreatedFunction
from mt_core.model.gateway import GatewayLease
from mt_core.model.job import Job, JobStatus
from mt_core.model.run import REFRESHES, TERMINAL, RefreshRun, RunKind, RunStatus
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """A run that a transaction inserted (`before` is None) or replaced."""

    before: RefreshRun | None
    after: RefreshRun

    @property
    def ended(self) -> bool:
        """Whether the run ended with this change."""
        return self.after.status in TERMINAL and (self.before is None or self.before.status not in TERMINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """A table that a transaction inserted, replaced or deleted (`after` is None).

    `before` is None if the table was inserted, or if the transaction did not read it. A new claim number is
    not a change.
    """

    table_id: str
    before: MaterializedTable | None
    after: MaterializedTable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """A job that a transaction inserted or replaced.

    `before` is None if the job was inserted, or if the transaction did not read it.
    """

    before: Job | None
    after: Job


Change = RunChange | TableChange | JobChange

RUN_ENDED = "run_ended"
"""The kind of the notices about ended runs; `notice_of` returns their body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message that is kept until its receiver has accepted it. Numbers rise and are not reused."""

    number: int
    kind: str
    at: datetime
    body: Mapping[str, Any]


class StoredTables(Protocol):
    """The materialized tables, within a transaction."""

    def get(self, table_id: str) -> MaterializedTable | None:
        """Return a table, or None."""

    def named(self, identifier: TableIdentifier) -> MaterializedTable | None:
        """Return the table with this name, or None."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The numbers of RUNNING runs, and of QUEUED ones, which differ by whether they are solo.

    `waiting` of the queued runs wait for a refresh of another table. `oldest` is the time at which the oldest
    run was requested that could be claimed now; a key is missing if there is none.
    """

    running: int
    waiting: int
    queued: Mapping[bool, int]
    oldest: Mapping[bool, datetime]


class StoredRuns(Protocol):
    """The run ledger, within a transaction."""

    def get(self, run_id: str) -> RefreshRun | None:
        """Return a run, or None."""

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

    def backlog(self) -> Backlog:
        """Count the runs that have not ended."""

    def covered_by(self, run_id: str) -> Sequence[RefreshRun]:
        """Return the COALESCED runs whose `covered_by` is *run_id*."""

    def expired(self) -> Sequence[RefreshRun]:
        """Return the RUNNING runs whose lease, or whose gateway's lease, has expired."""


JobPlace = tuple[datetime, str]
"""The place of a job in the order of jobs: the time at which it started, and its id."""


class StoredJobs(Protocol):
    """The jobs of statements that change data, within a transaction."""

    def get(self, job_id: str) -> Job | None:
        """Return a job, or None."""

    def with_ids(self, job_ids: Collection[str]) -> Sequence[Job]:
        """Return the jobs with these ids, sorted by id."""

    def insert(self, job: Job) -> None:
        """Insert a job; raise RevisionConflict if another job has its id."""

    def replace(self, job: Job) -> Job:
        """Replace revision `job.revision` of a job with *job*, and return it with the next revision.

        Raises RevisionConflict if the stored revision differs.
        """

    def newest(
        self,
        limit: int,
        *,
        before: JobPlace | None = None,
        statuses: Collection[JobStatus] = tuple(JobStatus),
    ) -> Sequence[Job]:
        """Return the *limit* jobs with *statuses* that started last, newest first.

        If *before* is given, only those before this place.
        """

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


class StoredChanges(Protocol):
    """The change numbers, within a transaction.

    Each write of a table or run, including a claim and a deletion, has a number that is higher than all
    before, whichever gateway wrote. A reader that knows a number asks for the tables that changed after it.
    """

    def newest(self) -> int:
        """Return the number of the last change, 0 if there was none."""

    def tables_after(self, number: int) -> Collection[str]:
        """Return the ids of the tables that were written or deleted, or whose runs were, after *number*."""

    def forget(self, before: datetime) -> None:
        """Forget the deletions before this instant, except the last one, so that numbers never fall."""


class StoredNotices(Protocol):
    """The outbox: notices that their receiver has not yet accepted, within a transaction."""

    def put(self, kind: str, body: Mapping[str, Any]) -> None:
        """Store a notice."""

    def oldest(self, limit: int) -> Sequence[Notice]:
        """Return up to *limit* notices, oldest first."""

    def delete(self, numbers: Collection[int]) -> None:
        """Delete the notices with these numbers; harmless for missing ones."""

    def count(self) -> int:
        """Return the number of notices."""


class StoredFreshness(Protocol):
    """The hours of tables that were late, failed or CONTINUOUS, within a transaction."""

    def add(self, hour: FreshnessHour) -> None:
        """Store an hour, merged with the stored part of it.

        The result has the higher `worst_s`, the sums of the other numbers, and the new `fault` unless it is
        None.
        """

    def of(self, table_id: str, since: datetime) -> Sequence[FreshnessHour]:
        """Return the table's hours that begin at *since* or later, oldest first."""

    def forget(self, before: datetime) -> None:
        """Delete the hours that begin before this instant."""


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
    """A transaction of the registry."""

    tables: StoredTables
    runs: StoredRuns
    jobs: StoredJobs
    workflows: StoredWorkflows
    tombstones: StoredFacts[Tombstone]
    catalogs: StoredFacts[CreatedCatalog]
    connector_tables: StoredFacts[ConnectorTable]
    functions: StoredFacts[CreatedFunction]
    gateways: StoredFacts[GatewayLease]
    changes: StoredChanges
    notices: StoredNotices
    freshness: StoredFreshness

    def now(self) -> datetime:
        """Return the time of the registry's own clock (UTC), which leases use."""

    def past_unreadable(self) -> AbstractContextManager[list[FactUnreadable]]:
        """Skip unreadable rows in the block and collect their errors in the returned list.

        Outside the block, these errors are raised.
        """


class Registry(Protocol):
    """The database that stores the gateway's facts.

    `on_commit`, if any, is called with the changes of each transaction that wrote some, after its commit, in
    its thread and before the next transaction of this process begins. It must return at once, must not raise,
    and cannot begin a transaction. If `keeps_notices` is true, a transaction in which a run ends stores a
    notice about it (`RUN_ENDED`), which is committed or rolled back with the run's end.

    `on_transaction`, if any, is called after each transaction: for how many seconds it waited until it began,
    for how many it lasted, and whether the registry failed. It must return at once and must not raise.
    """

    definitions: DefinitionStore
    on_commit: Callable[[tuple[Change, ...]], None] | None
    on_transaction: Callable[[float, float, bool], object] | None
    keeps_notices: bool

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction; it is committed at the end of the block, and rolled back on an exception."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """Begin a read of what is committed, which neither waits for transactions nor delays them.

        All reads in the block see the same state, and writes raise RegistryError. What is read here is only
        shown: a decision reads in a transaction.
        """

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


def notice_of(run: RefreshRun) -> dict[str, Any]:
    """Return the body of the notice that *run* has ended: what the run was, why, and how it ended."""
    instants = {
        "requested_at": run.requested_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
    }
    return {
        "version": 1,
        "run_id": run.run_id,
        "table_id": run.table_id,
        "kind": run.kind.value,
        "status": run.status.value,
        "attempt": run.attempt,
        **{name: None if at is None else at.isoformat() for name, at in instants.items()},
        "reason": run.why,
        "reason_code": run.reason_code,
        "error": run.error,
        "by_query": run.by_query,
        "strategy": run.strategy,
        "rows": run.rows,
        "steps": dict(run.steps),
    }


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
