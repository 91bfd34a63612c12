"""A registry in memory that fulfils the contract of the real registry."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, Generic, TypeVar

from mt_core.clock import Clock
from mt_core.errors import FactUnreadable, RegistryError, RevisionConflict, TableExists, TableGone
from mt_core.model.catalog import CreatedCatalog
from mt_core.model.connector_table import ConnectorTable
from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.function import CreatedFunction
from mt_core.model.gateway import GatewayLease
from mt_core.model.job import Job
from mt_core.model.run import DONE, REFRESHES, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.registry import (
    RUN_ENDED,
    Backlog,
    Change,
    Notice,
    RunChange,
    StoredChanges,
    StoredFacts,
    StoredFreshness,
    StoredJobs,
    StoredNotices,
    StoredRuns,
    StoredTables,
    StoredWorkflows,
    TableChange,
    Tombstone,
    notice_of,
)
from mt_core.workflow.definitions import DefinitionStore, WorkflowDefinition, shard_of
from tests.support.memory_changes import MemoryChanges, MemoryFreshness, MemoryNotices
from tests.support.memory_jobs import MemoryJobs

_Fact = TypeVar("_Fact")

SET_ASIDE = frozenset({RunStatus.FAILED, RunStatus.CANCELED})


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """All stored facts. Dictionaries are never mutated; runs are in the order of their requests."""

    tables: Mapping[str, MaterializedTable] = field(default_factory=dict)
    runs: Mapping[str, RefreshRun] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    tombstones: Mapping[str, Tombstone] = field(default_factory=dict)
    definitions: Mapping[str, WorkflowDefinition] = field(default_factory=dict)
    catalogs: Mapping[str, CreatedCatalog] = field(default_factory=dict)
    connector_tables: Mapping[str, ConnectorTable] = field(default_factory=dict)
    functions: Mapping[str, CreatedFunction] = field(default_factory=dict)
    gateways: Mapping[str, GatewayLease] = field(default_factory=dict)
    notices: Mapping[int, Notice] = field(default_factory=dict)
    last_notice: int = 0
    hours: Mapping[tuple[str, datetime], FreshnessHour] = field(default_factory=dict)
    # By table: the number of the last write of it or its runs; number and time of the last deletion.
    changed: Mapping[str, int] = field(default_factory=dict)
    deletions: Mapping[str, tuple[int, datetime]] = field(default_factory=dict)


class MemoryRegistry:
    """A `Registry` without persistence. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = _State()
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._closed = False
        self.on_commit: Callable[[tuple[Change, ...]], None] | None = None
        self.on_transaction: Callable[[float, float, bool], object] | None = None
        self.keeps_notices = False
        self.definitions: DefinitionStore = LedgerDefinitionStore(self._begin)

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        """Begin a transaction. Raises RegistryError inside another transaction of the same thread."""
        failed = False
        try:
            with self._begin() as transaction:
                yield transaction
        except RegistryError as error:
            failed = not isinstance(error, RevisionConflict | FactUnreadable)
            raise
        finally:
            if self.on_transaction is not None:
                self.on_transaction(0.0, 0.0, failed)

    @contextmanager
    def reading(self) -> Iterator[MemoryTransaction]:
        """Begin a read of the committed state."""
        self._check_open()
        transaction = MemoryTransaction(self._state, self._clock, read_only=True)
        try:
            yield transaction
        finally:
            transaction.end()

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise RegistryError("Registry in memory is closed; make another one.")

    @contextmanager
    def _begin(self) -> Iterator[MemoryTransaction]:
        if self._holder == threading.get_ident():
            raise RegistryError(
                "Registry in memory: this thread is already in a transaction; end it before the next."
            )
        with self._lock:
            self._check_open()
            self._holder = threading.get_ident()
            transaction = MemoryTransaction(self._state, self._clock)
            try:
                yield transaction
                if self.keeps_notices:
                    transaction.note_ends()
                self._state = transaction.state
                if self.on_commit is not None and transaction.written:
                    self.on_commit(tuple(transaction.written))
            finally:
                transaction.end()
                self._holder = None


class MemoryTransaction:
    """A `Transaction` on its own copy of the state, which the registry adopts at the end."""

    def __init__(self, state: _State, clock: Clock, *, read_only: bool = False) -> None:
        self._current: _State | None = state
        self._clock = clock
        self._read_only = read_only
        self.written: list[Change] = []
        self.tables: StoredTables = MemoryTables(self)
        self.runs: StoredRuns = MemoryRuns(self)
        self.jobs: StoredJobs = MemoryJobs(self)
        self.workflows: StoredWorkflows = MemoryWorkflows(self)
        self.tombstones: StoredFacts[Tombstone] = MemoryFacts(
            self, "tombstones", order=("dropped_at", "table_id")
        )
        self.catalogs: StoredFacts[CreatedCatalog] = MemoryFacts(self, "catalogs", order=("name",))
        self.connector_tables: StoredFacts[ConnectorTable] = MemoryFacts(
            self, "connector_tables", order=("name",)
        )
        self.functions: StoredFacts[CreatedFunction] = MemoryFacts(self, "functions", order=("name",))
        self.gateways: StoredFacts[GatewayLease] = MemoryFacts(self, "gateways", order=("owner",))
        self.numbers = MemoryChanges(self)
        self.changes: StoredChanges = self.numbers
        self.notices: StoredNotices = MemoryNotices(self)
        self.freshness: StoredFreshness = MemoryFreshness(self)

    @property
    def state(self) -> _State:
        """The facts within the transaction. Raises RegistryError after its end."""
        if self._current is None:
            raise RegistryError("Registry in memory: the transaction has ended; begin another one.")
        return self._current

    def change(self, **facts: Any) -> None:
        """Replace the stored facts of the given kinds."""
        if self._read_only:
            raise RegistryError("Registry in memory: a read cannot write; begin a transaction.")
        self._current = replace(self.state, **facts)

    def note_ends(self) -> None:
        """Store a notice about each run that ended in the transaction."""
        for change in self.written:
            if isinstance(change, RunChange) and change.ended:
                self.notices.put(RUN_ENDED, notice_of(change.after))

    def end(self) -> None:
        self._current = None

    def now(self) -> datetime:
        return self._clock.now()

    @contextmanager
    def past_unreadable(self) -> Iterator[list[FactUnreadable]]:
        # Everything in memory is readable.
        yield []


class MemoryTables:
    """A `StoredTables` that uses the state of *transaction*."""

    def __init__(self, transaction: MemoryTransaction) -> None:
        self._tx = transaction

    def get(self, table_id: str) -> MaterializedTable | None:
        return self._tx.state.tables.get(table_id)

    def named(self, identifier: TableIdentifier) -> MaterializedTable | None:
        return next(
            (table for table in self._tx.state.tables.values() if table.identifier == identifier), None
        )

    def with_names(self, identifiers: Collection[TableIdentifier]) -> Sequence[MaterializedTable]:
        return [table for table in self.page() if table.identifier in identifiers]

    def page(
        self, *, after: TableIdentifier | None = None, limit: int | None = None
    ) -> Sequence[MaterializedTable]:
        tables = sorted(self._tx.state.tables.values(), key=attrgetter("identifier"))
        return [table for table in tables if after is None or table.identifier > after][:limit]

    def continuous(self) -> Sequence[MaterializedTable]:
        return [table for table in self.page() if table.is_watched]

    def insert(self, table: MaterializedTable) -> None:
        if table.table_id in self._tx.state.tables or self.named(table.identifier) is not None:
            raise TableExists(
                f"Materialized table {table.identifier} already exists; DROP it or choose another name."
            )
        self._store(table, before=None)

    def replace(self, table: MaterializedTable) -> MaterializedTable:
        current, named = self.get(table.table_id), self.named(table.identifier)
        if named is not None and named.table_id != table.table_id:
            raise TableExists(f"Materialized table {table.identifier} already exists; choose another name.")
        if current is None or current.revision != table.revision:
            raise RevisionConflict(
                f"Materialized table {table.identifier} is no longer at revision "
                f"{table.revision}; read it again."
            )
        stored = replace(table, revision=table.revision + 1, claim=current.claim)
        self._store(stored, before=current)
        return stored

    def delete(self, table_id: str) -> None:
        before = self.get(table_id)
        if before is not None:
            self._tx.numbers.note_deletions([table_id])
            self._tx.written.append(TableChange(table_id=table_id, before=before, after=None))
            state = self._tx.state
            self._tx.change(
                tables=_without(state.tables, table_id), changed=_without(state.changed, table_id)
            )

    def next_claim(self, table_id: str) -> int:
        table = self.get(table_id)
        if table is None:
            raise TableGone(f"Materialized table {table_id} was dropped; look it up by its name again.")
        self._put(replace(table, claim=table.claim + 1))
        return table.claim + 1

    def _store(self, table: MaterializedTable, *, before: MaterializedTable | None) -> None:
        _check_zones(table.created_at, table.status_at, table.covered_until, *table.failing)
        self._put(table)
        self._tx.written.append(TableChange(table_id=table.table_id, before=before, after=table))

    def _put(self, table: MaterializedTable) -> None:
        self._tx.change(tables={**self._tx.state.tables, table.table_id: table})
        self._tx.numbers.note(table.table_id)


class MemoryRuns:
    """A `StoredRuns` that uses the state of *transaction*."""

    def __init__(self, transaction: MemoryTransaction) -> None:
        self._tx = transaction

    def get(self, run_id: str) -> RefreshRun | None:
        return self._tx.state.runs.get(run_id)

    def insert(self, run: RefreshRun) -> None:
        if run.run_id in self._tx.state.runs or self._key_taken(run) or self._running_elsewhere(run):
            raise RevisionConflict(
                f"Refresh {run.run_id} was not added: its id or request key {run.request_key!r} is already "
                f"in use, or another refresh of table {run.table_id} is RUNNING too; read the ledger again."
            )
        self._store(run, before=None)

    def replace(self, run: RefreshRun, *, expected: RefreshRun) -> None:
        current = self.get(expected.run_id)
        if current is None or _guard(current) != _guard(expected) or self._running_elsewhere(run):
            raise RevisionConflict(
                f"Refresh {run.run_id} was not stored as {run.status}: it is no longer "
                f"{expected.status} at attempt {expected.attempt} with claim {expected.claim}, "
                f"or another refresh of table {run.table_id} is RUNNING; read it again."
            )
        self._store(run, before=expected)

    def with_key(self, table_id: str, request_key: str) -> RefreshRun | None:
        keyed = self._where(lambda run: (run.table_id, run.request_key) == (table_id, request_key))
        live = [run for run in keyed if run.status not in SET_ASIDE]
        found = live or keyed
        return found[-1] if found else None

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
        wanted = frozenset(RunStatus if statuses is None else statuses)
        found = self._where(
            lambda run: table_id in (None, run.table_id) and run.status in wanted and run.kind in kinds
        )
        if strategy is not None:
            found = [run for run in found if run.strategy == strategy]
        if before is not None:
            places = list(self._tx.state.runs)
            behind = set(places[places.index(before) :]) if before in places else set(places)
            found = [run for run in found if run.run_id not in behind]
        return found[::-1][:limit]

    def newest_of_each(self, table_ids: Collection[str], *, limit: int) -> Sequence[RefreshRun]:
        places = {run_id: place for place, run_id in enumerate(self._tx.state.runs)}
        stored = (table_id for table_id in table_ids if table_id in self._tx.state.tables)
        found = [run for table_id in stored for run in self.newest(table_id=table_id, limit=limit)]
        return sorted(found, key=lambda run: places[run.run_id], reverse=True)

    def oldest(self, *, after: str | None = None, limit: int) -> Sequence[RefreshRun]:
        places = list(self._tx.state.runs)
        first = 0 if after is None else places.index(after) + 1 if after in places else len(places)
        return [self._tx.state.runs[run_id] for run_id in places[first : first + limit]]

    def delete(self, run_ids: Iterable[str]) -> None:
        gone = frozenset(run_ids)
        runs = self._tx.state.runs
        if deleted := {run.table_id for run_id, run in runs.items() if run_id in gone}:
            self._tx.numbers.note_deletions(deleted)
            self._tx.change(runs={run_id: run for run_id, run in runs.items() if run_id not in gone})

    def queued(self, table_id: str) -> Sequence[RefreshRun]:
        return self._where(lambda run: run.table_id == table_id and run.status is RunStatus.QUEUED)

    def next_claimable(self) -> RefreshRun | None:
        return next(iter(sorted(self._claimable(), key=attrgetter("solo"))), None)

    def _claimable(self) -> list[RefreshRun]:
        held = {run.table_id for run in self._tx.state.runs.values() if run.status is RunStatus.RUNNING}
        held |= {
            each.table_id for each in self._tx.state.tables.values() if each.intent and each.intent.exclusive
        }
        queued = (run for run in self._tx.state.runs.values() if run.status is RunStatus.QUEUED)
        now = self._tx.now()
        waiting = {
            run.run_id for run in self.waiting() if run.waits_until is not None and run.waits_until > now
        }
        return [run for run in queued if run.table_id not in held and run.run_id not in waiting]

    def waiting(self) -> Sequence[RefreshRun]:
        return self._where(lambda run: run.status is RunStatus.QUEUED and run.waits_until is not None)

    def backlog(self) -> Backlog:
        queued = self._where(lambda run: run.status is RunStatus.QUEUED)
        now = self._tx.now()
        oldest: dict[bool, datetime] = {}
        for run in self._claimable():
            oldest[run.solo] = min(run.requested_at, oldest.get(run.solo, run.requested_at))
        return Backlog(
            running=len(self._where(lambda run: run.status is RunStatus.RUNNING)),
            waiting=sum(run.waits_until is not None and run.waits_until > now for run in queued),
            queued=Counter(run.solo for run in queued),
            oldest=oldest,
        )

    def last_point(self, table_id: str, *, requested_by: datetime) -> datetime | None:
        runs = self._where(lambda run: run.table_id == table_id and run.requested_at <= requested_by)
        return max((point for run in runs for point in run.points), default=None)

    def covering(self, table_id: str, after: datetime) -> Sequence[RefreshRun]:
        done = self._where(lambda run: run.table_id == table_id and run.status in DONE)
        return [run for run in done if run.points and max(run.points) > after]

    def covered_by(self, run_id: str) -> Sequence[RefreshRun]:
        return self._where(lambda run: run.covered_by == run_id and run.status is RunStatus.COALESCED)

    def expired(self) -> Sequence[RefreshRun]:
        now = self._tx.now()
        ended = {
            None,
            *(gateway.owner for gateway in self._tx.state.gateways.values() if gateway.lease_until <= now),
        }
        running = self._where(lambda run: run.status is RunStatus.RUNNING)
        return [
            run for run in running if run.owner in ended or run.lease_until is None or run.lease_until < now
        ]

    def _store(self, run: RefreshRun, *, before: RefreshRun | None) -> None:
        _check_zones(
            run.requested_at, run.schedule_time, run.lease_until, run.started_at, run.finished_at, *run.points
        )
        self._tx.change(runs={**self._tx.state.runs, run.run_id: run})
        self._tx.numbers.note(run.table_id)
        self._tx.written.append(RunChange(before=before, after=run))

    def _where(self, wanted: Callable[[RefreshRun], bool]) -> list[RefreshRun]:
        return [run for run in self._tx.state.runs.values() if wanted(run)]

    def _key_taken(self, run: RefreshRun) -> bool:
        if run.request_key is None or run.status in SET_ASIDE:
            return False
        holder = self.with_key(run.table_id, run.request_key)
        return holder is not None and holder.status not in SET_ASIDE

    def _running_elsewhere(self, run: RefreshRun) -> bool:
        if run.status is not RunStatus.RUNNING:
            return False
        others = self._where(lambda other: other.table_id == run.table_id and other.run_id != run.run_id)
        return any(other.status is RunStatus.RUNNING for other in others)


class MemoryWorkflows:
    """A `StoredWorkflows` that uses the state of *transaction*."""

    def __init__(self, transaction: MemoryTransaction) -> None:
        self._tx = transaction

    def put(self, definition: WorkflowDefinition) -> None:
        self._tx.change(definitions={**self._tx.state.definitions, definition.workflow_id: definition})

    def delete(self, workflow_id: str) -> None:
        self._tx.change(definitions=_without(self._tx.state.definitions, workflow_id))

    def pause(self, workflow_id: str, *, paused: bool) -> None:
        definition = self._tx.state.definitions.get(workflow_id)
        if definition is not None:
            self.put(replace(definition, paused=paused))

    def shard_version(self, number: int) -> str:
        definitions = sorted(self._tx.state.definitions.values(), key=attrgetter("workflow_id"))
        shard = [definition for definition in definitions if shard_of(definition.workflow_id) == number]
        tables = [self._tx.tables.get(definition.workflow_id) for definition in shard]
        return repr(
            [(definition, table and table.revision) for definition, table in zip(shard, tables, strict=True)]
        )


class MemoryFacts(Generic[_Fact]):
    """A `StoredFacts` that uses the facts named *kind* in the state of *transaction*.

    The key is the last field of *order*.
    """

    def __init__(self, transaction: MemoryTransaction, kind: str, *, order: tuple[str, ...]) -> None:
        self._tx = transaction
        self._kind = kind
        self._order = order

    def all(self) -> Sequence[_Fact]:
        return sorted(self._facts().values(), key=attrgetter(*self._order))

    def put(self, fact: _Fact) -> None:
        if isinstance(fact, GatewayLease):
            _check_zones(fact.lease_until)
        key = getattr(fact, self._order[-1])
        self._tx.change(**{self._kind: {**self._facts(), key: fact}})

    def delete(self, key: str) -> None:
        self._tx.change(**{self._kind: _without(self._facts(), key)})

    def _facts(self) -> Mapping[str, _Fact]:
        facts: Mapping[str, _Fact] = getattr(self._tx.state, self._kind)
        return facts


class LedgerDefinitionStore(DefinitionStore):
    """The workflow definitions of a registry in memory. Every method is a separate transaction."""

    def __init__(self, begin: Callable[[], AbstractContextManager[MemoryTransaction]]) -> None:
        self._begin = begin

    def put(self, definition: WorkflowDefinition) -> None:
        with self._begin() as transaction:
            MemoryWorkflows(transaction).put(definition)

    def get(self, workflow_id: str) -> WorkflowDefinition | None:
        with self._begin() as transaction:
            return transaction.state.definitions.get(workflow_id)

    def delete(self, workflow_id: str) -> None:
        with self._begin() as transaction:
            transaction.workflows.delete(workflow_id)

    def all(self) -> list[WorkflowDefinition]:
        with self._begin() as transaction:
            return sorted(transaction.state.definitions.values(), key=attrgetter("workflow_id"))

    def latest_schedule_times(self) -> Mapping[str, datetime]:
        latest: dict[str, datetime] = {}
        with self._begin() as transaction:
            state, now = transaction.state, transaction.now()
        for run in state.runs.values():
            if run.table_id in state.definitions and run.points and run.requested_at <= now:
                latest[run.table_id] = max(*run.points, latest.get(run.table_id, run.points[0]))
        return latest


def _check_zones(*instants: datetime | None) -> None:
    for instant in instants:
        if instant is not None and instant.tzinfo is None:
            raise RegistryError(
                f"Instant {instant.isoformat()} has no zone; the registry only stores UTC instants."
            )


def _guard(run: RefreshRun) -> tuple[RunStatus, int, int]:
    return run.status, run.attempt, run.claim


def _without(facts: Mapping[str, _Fact], key: str) -> dict[str, _Fact]:
    return {each: fact for each, fact in facts.items() if each != key}
