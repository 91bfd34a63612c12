"""FakeEngine: an in-memory store of versioned tables with the real engine's rules.

These are the rules for opening, writing and publishing. The engine understands only `SELECT * FROM <source>`,
and the same with a list of columns. Tests can plan faults: a query that fails for some partitions, a commit
whose answer is lost before or after it landed, an unavailable engine, or an operation that fails. An MtError
or a BaseException is raised unchanged, any other exception inside an EngineError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from queue import Empty
from typing import Any

from mt_core.base.identifiers import Namespace, display_name, quote
from mt_core.errors import (
    Canceled,
    CommitConflict,
    CommitUnknown,
    DefinitionInvalid,
    EngineError,
    QueryFailed,
    TableExists,
)
from mt_core.incremental.shape import QueryShape
from mt_core.incremental.stages.look_ups import SourceFacts
from mt_core.incremental.strategy import ResultUnchanged, Way, check_keys
from mt_core.model.partition import PartitionSpec, Scope
from mt_core.model.progress import Progress
from mt_core.model.storage import (
    EPOCH,
    LAST_RUN,
    STATES,
    MetadataChange,
    Snapshot,
    StorageMetadata,
    state_summary,
    states_property,
    tiny_states,
)
from mt_core.model.table import Column, TableIdentifier
from mt_core.tables.definition.shape import stored_order
from mt_core.tables.engine import (
    AnalysedQuery,
    Comparison,
    ComparisonResult,
    EngineWorkload,
    Maintenance,
    Query,
    RefreshEngine,
    ShapedQuery,
    SourceChanges,
    SourceVector,
    SourceVersion,
    Staged,
    StorageSpec,
    UnreadSources,
    Write,
)
from tests.support.fake_comparison import compare_rows
from tests.support.fake_queries import parsed, selected
from tests.support.fake_sources import FakeSources
from tests.support.fake_tables import (
    NO_COMMIT,
    FakeStorage,
    Row,
    StoredSnapshot,
    inside,
    shape_of_columns,
    text_of,
    version_at,
)


class FakeEngine(FakeSources):
    """All roles of a RefreshEngine without Spark. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.unstable: str | None = None
        # The shape of queries, or the reason why they have none. None stands for the shape of a projection.
        self.shape: QueryShape | str | None = None
        self.poisoned: set[PartitionSpec] = set()
        self.writes = self.looks = 0
        # Whether a write that may be held is held, so that its snapshot is not committed to the branch.
        self.discarded: list[Snapshot] = []
        self._before_conflict: Callable[[], object] | None = None
        self.on_write: Callable[[Write], None] | None = None
        self._planned: list[tuple[str, str]] = []
        self._in_flight: tuple[TableIdentifier, StorageMetadata, MetadataChange] | None = None
        self._canceled: set[str] = set()

    @property
    def roles(self) -> RefreshEngine:
        """The port, with this fake in each role."""
        return RefreshEngine(
            catalogs=self,
            queries=self,
            sources=self,
            changes=self,
            storage=self,
            metadata=self,
            housekeeping=self,
            writes=self,
            comparisons=self,
            jobs=self,
            state=self,
        )

    # --------------------------------------------------------------------------------------- what tests steer

    def plan_lost_answer(self, what: str, *, landed: bool) -> None:
        """Make the outcome of the next commit unknown. *what* is whether it publishes, closes or leaves."""
        self._planned.append((what, "landed" if landed else "lost"))

    def plan_late_landing(self, what: str) -> None:
        """Make the outcome of the next commit unknown, and leave the commit in flight.

        *what* is whether it publishes, closes or leaves.
        """
        self._planned.append((what, "late"))

    def plan_untrue_conflict(self, what: str, then: Callable[[], object] | None = None) -> None:
        """Let the next commit land but report a conflict, as a client that has sent it twice.

        *what* is whether it publishes, closes or leaves. *then* is called before the report.
        """
        self._planned.append((what, "landed, in conflict"))
        self._before_conflict = then

    def land(self) -> bool:
        """Deliver the commit in flight.

        Return whether it could land, which it cannot if a branch that it moves has moved since.
        """
        with self._lock:
            flight, self._in_flight = self._in_flight, None
            if flight is None or flight[0] not in self.storages:
                return False
            identifier, metadata, change = flight
            can_land = _can_land(self.storages[identifier], metadata, change)
            if can_land:
                self._apply(self.storages[identifier], change)
            return can_land

    @property
    def is_committing(self) -> bool:
        """Whether a commit is in flight."""
        return self._in_flight is not None

    def forget_plans(self) -> None:
        """Drop the planned answers that no commit has used."""
        self._planned.clear()

    def forget_faults(self) -> None:
        """Drop all planned faults and the commit in flight."""
        self.poisoned, self.failing, self.away = set(), {}, False
        self._planned, self._in_flight = [], None

    def rows(self, identifier: TableIdentifier) -> list[Row]:
        """Return the table's rows as a reader sees them."""
        return list(self.storages[identifier].rows)

    # --------------------------------------------------------------------------------------------- definition

    def ready(self) -> bool:
        return not self.away

    def check_catalog(self, identifier: TableIdentifier) -> None:
        self._check("check_catalog")

    def location_of(self, identifier: TableIdentifier, table_id: str) -> str:
        return f"memory:/warehouse/{'.'.join(identifier.namespace)}/{identifier.name}-{table_id}"

    def analyse(self, query: Query) -> AnalysedQuery:
        self._check("analyse")
        path, source = self._path(query), self._source(query)[1]
        columns = selected(query, source)
        listed = ", ".join(quote(column.name) for column in columns)
        relations = frozenset({path[0].rsplit(".", 1)[-1]} if "." not in parsed(query)["name"] else ())
        return AnalysedQuery(
            columns=columns,
            expanded_query=f"SELECT {listed} FROM {path[0]}",
            sources=path[-1:],
            relations=relations,
        )

    def check_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> tuple[Column, ...]:
        self._check("check_columns")
        return tuple(columns)

    def check_assignable(self, produced: Sequence[Column], declared: Sequence[Column]) -> None:
        if any(
            pair[0].type == "string" and pair[1].type.lower() == "int"
            for pair in zip(produced, declared, strict=True)
        ):
            raise DefinitionInvalid("A column is declared INT, its query gives STRING; CAST it.")

    def read_vector(self, query: Query) -> SourceVector:
        self._check("read_vector")
        name, source = self._source(query)
        columns = {column.name: column.type for column in selected(query, source)}
        if name in self.unread:
            raise EngineError(f"{name}: {self.unread[name] or 'no answer'}")
        version: dict[str, Any] = {
            "uuid": source.uuid,
            "snapshot": None,
            "schema": source.schema,
            "columns": columns,
        }
        if source.current != NO_COMMIT:
            version |= {"snapshot": source.data_version(), "at": source.current}
        if source.committed and source.current != NO_COMMIT:
            version["committed"] = source.committed[source.data_version()].isoformat(timespec="milliseconds")
        path = self._path(query)
        views = [
            SourceVersion(name=view, kind="view", version={"hash": self.views[view]}) for view in path[:-1]
        ]
        entry = SourceVersion(name=name, kind="table", version=version, path=path)
        return SourceVector(sources=(entry, *views), unstable=self.unstable)

    def read_shape(self, query: Query) -> ShapedQuery | str:
        name, source = self._source(query)
        columns = selected(query, source)
        shape = self.unstable or self.shape or shape_of_columns(columns)
        return (
            shape if isinstance(shape, str) else ShapedQuery(shape=shape, columns=columns, readings=(name,))
        )

    def source_fingerprints(self, queries: Sequence[Query]) -> Sequence[str | UnreadSources | None]:
        self._check("look")
        self.looks += 1
        return [self._looked_at(query) for query in queries]

    def _looked_at(self, query: Query) -> str | UnreadSources | None:
        try:
            name, source = self._source(query)
        except QueryFailed as error:
            return UnreadSources(reason=error.message)
        self.looked_at.append(name)
        if (reason := self.unread.get(name)) is not None:
            return UnreadSources(reason=reason)
        return None if self.unstable else str(source.current)

    def next_commit(self, timeout_s: float) -> str | None:
        try:
            return self.committed.get(timeout=timeout_s)
        except Empty:
            return None

    def changes_since(self, query: Query, since: SourceVector, vector: SourceVector) -> SourceChanges | str:
        name, source = self._source(query)
        then, now = (each.sources[0].version or {} for each in (since, vector))
        if since.sources[0].name != name or then.get("uuid") != now.get("uuid"):
            return f"{name} was created again"
        if then.get("columns", now["columns"]) != now["columns"]:
            return f"the query reads other columns of {name} than before"
        old, new = version_at(then), version_at(now)
        shaped = self.read_shape(query)
        if isinstance(shaped, str):
            return shaped
        count = len(source.versions[new])
        return SourceChanges(
            shape=shaped.shape,
            columns=shaped.columns,
            readings=shaped.readings,
            changes={name: source.change(old, new)},
            facts={name: SourceFacts(rows=count, size=count, files=1, columns=len(shaped.columns))},
        )

    def check_changes(
        self, job_id: str, query: Query, since: SourceVector, vector: SourceVector, changes: SourceChanges
    ) -> SourceChanges:
        return changes

    def source_bytes(self, query: Query, vector: SourceVector) -> int | None:
        _, source = self._source(query)
        return len(source.versions[version_at(vector.sources[0].version)])

    def relation_exists(self, identifier: TableIdentifier) -> bool:
        return identifier in self.storages or str(identifier) in self.sources

    def namespace_exists(self, catalog: str, namespace: Namespace) -> bool:
        names = [str(identifier) for identifier in self.storages] + [*self.sources]
        return any(name.rpartition(".")[0] == display_name((catalog, *namespace)) for name in names)

    def partition_values(
        self, query: Query, identifier: TableIdentifier, column: str
    ) -> frozenset[str | None]:
        source = self._source(query)[1]
        return frozenset(
            text_of(row.get(column)) for row in (*source.versions[source.current], *self.rows(identifier))
        )

    # ------------------------------------------------------------------------------------------------ storage

    def create_storage(self, spec: StorageSpec) -> None:
        self._check("create_storage")
        with self._lock:
            there = self.storages.get(spec.identifier)
            if str(spec.identifier) in self.sources or (there and there.spec.table_id != spec.table_id):
                raise TableExists(f"{spec.identifier} exists already; choose another name.")
            if there is None:
                first = Snapshot(snapshot_id=self._next_id(), created=True)
                stored = {first.snapshot_id: StoredSnapshot(first, None, ())}
                self.storages[spec.identifier] = FakeStorage(spec, stored, first.snapshot_id, spec.columns)

    def drop_storage(self, identifier: TableIdentifier, table_id: str, location: str) -> None:
        self._check("drop_storage")
        with self._lock:
            there = self.storages.get(identifier)
            if there is not None and there.spec.table_id == table_id:
                del self.storages[identifier]

    def add_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> None:
        self._check("add_columns")
        storage = self._storage(identifier)
        known = {column.name for column in storage.columns}
        storage.columns = (*storage.columns, *(column for column in columns if column.name not in known))

    def set_properties(self, spec: StorageSpec, *, forgotten: Collection[str]) -> None:
        self._check("set_properties")
        self._storage(spec.identifier).spec = spec

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        self._check("load")
        with self._lock:
            return self._storage(identifier).metadata()

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        self._check("swap")
        with self._lock:
            storage = self._storage(identifier)
            if not _can_land(storage, metadata, change):
                raise CommitConflict(f"{identifier} has changed.")
            what = "close" if change.closes is not None else "publish" if change.publish else "leave"
            fate = self._fate(what)
            if fate in (None, "landed", "landed, in conflict"):
                self._apply(storage, change)
            if fate == "landed, in conflict":
                if self._before_conflict is not None:
                    self._before_conflict()
                raise CommitConflict(f"{identifier} has changed.")
            if fate == "late":
                self._in_flight = (identifier, metadata, change)
            if fate is not None:
                raise CommitUnknown(f"the answer of a commit to {identifier} was lost.")

    def _fate(self, what: str) -> str | None:
        planned = next((plan for plan in self._planned if plan[0] == what), None)
        self._planned = [plan for plan in self._planned if plan is not planned]
        return None if planned is None else planned[1]

    def _apply(self, storage: FakeStorage, change: MetadataChange) -> None:
        for name in change.drop:
            storage.branches.pop(name, None)
        if change.closes is not None:
            self._add_empty(storage)
        elif change.publish is not None:
            storage.main = change.publish
            storage.last_number += change.pending is not None
        storage.branches.update(change.branches)
        storage.epoch = int(change.properties.get(EPOCH, storage.epoch))
        storage.last_run = change.properties.get(LAST_RUN, storage.last_run)
        storage.states = None if STATES in change.removed else change.properties.get(STATES, storage.states)

    def _add_empty(self, storage: FakeStorage) -> None:
        main = storage.snapshots[storage.main]
        facts = replace(
            main.facts,
            snapshot_id=self._next_id(),
            replace=True,
            added_rows=0,
            deleted_rows=0,
            bytes_read=None,
            deleted_keys=0,
        )
        storage.commit(facts, main.rows)

    def discard(self, staged: Staged) -> None:
        with self._lock:
            for storage in self.storages.values():
                main = [each.snapshot_id for each in self.ancestors(storage.metadata())]
                for name, snapshot in tuple(storage.snapshots.items()):
                    if snapshot.facts is staged.snapshot:
                        assert name not in main, "files of main must not be deleted"
                        del storage.snapshots[name]
                        self.discarded.append(staged.snapshot)

    def ancestors(self, metadata: StorageMetadata) -> Iterator[Snapshot]:
        storage = next(s for s in self.storages.values() if s.spec.table_id == metadata.table_id)
        at = metadata.main
        while at is not None and at in storage.snapshots:
            yield storage.snapshots[at].facts
            at = storage.snapshots[at].parent

    # --------------------------------------------------------------------------------------------------- work

    def write(self, write: Write) -> Staged:
        self._check("write")
        if self.on_write is not None:
            self.on_write(write)
        self._refuse_canceled(write.job_id)
        self._refuse_keys(write)
        with self._lock:
            self._refuse_poisoned(write.scope)
            storage = self._storage(write.table)
            head = storage.snapshots[write.base]
            before = head.rows
            rows, kept = self._written(write, before)
            kept_files = head.facts.data_files if kept else 0
            counts = {
                "added-records": str(len(rows)),
                "deleted-records": str(len(before) - len(kept)),
                "total-data-files": str(kept_files + 1),
                "total-records": str(len(kept) + len(rows)),
            }
            states = self._states(write, storage)
            tiny = dict(sorted(states.items())[:1])
            named = state_summary({stage: states[stage] for stage in states.keys() - tiny.keys()})
            facts = Snapshot.of(self._next_id(), {**write.summary, **counts, **named})
            self.writes += 1
            staged = self._staged(write.table, facts, storage.metadata(), (*kept, *rows), write.base)
            text = None if write.stages is None else states_property(facts.publish_name or "", tiny)
            return replace(staged, states=text)

    def repeat(self, write: Write, staged: Staged, metadata: StorageMetadata) -> Staged:
        with self._lock:
            storage = self._storage(write.table)
            if write.base not in storage.snapshots:
                raise CommitConflict(f"Snapshot {write.base} of {write.table} has expired.")
            rows = storage.snapshots[staged.snapshot.snapshot_id].rows
            facts = replace(staged.snapshot, snapshot_id=self._next_id())
            repeated = self._staged(write.table, facts, metadata, rows, write.base)
            return replace(repeated, states=staged.states)

    def _states(self, write: Write, storage: FakeStorage) -> dict[str, str]:
        """Return the states that a write keeps, by stage: the version of the source from which each follows.

        The first is in the property, the others are named in the summary. Changes are applied to the states
        of the base.
        """
        if write.stages is None:
            return {}
        names = write.stages.names
        if write.maintenance is not None:
            base, versions = storage.snapshots[write.base].facts, self._source(write.query)[1].versions
            kept = {**tiny_states(storage.metadata().properties, base), **base.states}
            assert kept.keys() == names
            since = versions[version_at(write.maintenance.since.sources[0].version)]
            assert all(versions[int(state)] == since for state in kept.values())
        return dict.fromkeys(names, str(version_at(write.vector.sources[0].version)))

    def _written(self, write: Write, before: tuple[Row, ...]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        """Return the table's rows after a write that follows *before*, and the rows that it preserved."""
        _, source = self._source(write.query)
        version = version_at(write.vector.sources[0].version)
        names = stored_order(write.table, selected(write.query, source), write.columns, write.query_types)
        read = [{name: row.get(name) for name in names} for row in source.versions[version]]
        if write.maintenance is None or write.maintenance.strategy.way is Way.PARTITIONS:
            scope = write.scope if write.maintenance is None else self._touched(write, write.maintenance)
            return tuple(row for row in read if inside(row, scope)), tuple(
                row for row in before if not inside(row, scope)
            )
        if write.maintenance.strategy.way in (Way.NOTHING, Way.APPEND):
            then = source.versions[version_at(write.maintenance.since.sources[0].version)]
            return tuple(read[len(then) :]), before
        return tuple(read), ()

    def touched_partitions(
        self, job_id: str, query: Query, vector: SourceVector, maintenance: Maintenance
    ) -> frozenset[tuple[str | None, ...]]:
        self._check("touched_partitions")
        names = [maintenance.changes.columns[position].name for position in maintenance.strategy.keys]
        old, new = (version_at(each.sources[0].version) for each in (maintenance.since, vector))
        rows = self._source(query)[1].changed_rows(old, new)
        return frozenset(tuple(text_of(row.get(name)) for name in names) for row in rows)

    def _refuse_canceled(self, job_id: str) -> None:
        if job_id in self._canceled:
            raise Canceled(f"Job {job_id} was cancelled.")

    def _refuse_keys(self, write: Write) -> None:
        if write.maintenance is not None and write.maintenance.strategy.by_key:
            keys = self.touched_partitions(write.job_id, write.query, write.vector, write.maintenance)
            check_keys(write.maintenance.strategy, len(keys))

    def _touched(self, write: Write, maintenance: Maintenance) -> Scope:
        names = [maintenance.changes.columns[position].name for position in maintenance.strategy.keys]
        touched = self.touched_partitions(write.job_id, write.query, write.vector, maintenance)
        if not touched:
            raise ResultUnchanged
        return Scope.of(PartitionSpec.of(dict(zip(names, values, strict=True))) for values in touched)

    def _refuse_poisoned(self, scope: Scope) -> None:
        for spec in self.poisoned:
            if scope.overlaps(spec):
                raise QueryFailed(
                    f"division by zero in {spec}", error_class="DIVIDE_BY_ZERO", line=1, position=8
                )

    def compare(self, comparison: Comparison) -> ComparisonResult:
        self._check("compare")
        self._refuse_canceled(comparison.job_id)
        source = self._source(comparison.query)[1]
        return compare_rows(comparison, self._storage(comparison.table), source)

    def cancel(self, job_id: str) -> None:
        self._check("cancel")
        self._canceled.add(job_id)

    def progress(self, job_id: str) -> Progress | None:
        return None

    def trouble(self) -> str:
        return "The fake engine is away." if self.away else ""

    def note(self) -> str:
        return ""

    def cluster_info(self) -> Mapping[str, str]:
        return {"execution.target": "fake"}

    def workload(self) -> EngineWorkload | None:
        return None if self.away else EngineWorkload(jobs=1, tasks=2, executors=3, memory={"heap": 4})

    def starts(self) -> int:
        return 1


def _can_land(storage: FakeStorage, metadata: StorageMetadata, change: MetadataChange) -> bool:
    """Return whether the branches that *change* moves or drops are where they are in *metadata*.

    This is all that a REST catalog compares. A pending snapshot must also have the next number.
    """
    moves_main = change.publish is not None or change.closes is not None
    return (
        (not moves_main or storage.main == metadata.main)
        and (change.pending is None or storage.last_number == metadata.last_number)
        and all(
            storage.branches.get(name) == metadata.branches.get(name)
            for name in {*change.branches, *change.drop}
        )
    )
