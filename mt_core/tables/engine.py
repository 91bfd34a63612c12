"""The engine port: what the table manager needs from an engine.

An engine analyses queries, runs jobs and stores tables. Everything that depends on Spark or Iceberg is behind
these protocols, one per role, so that tests can run the refresh protocol against a fake engine. The types
describe requests and results without objects of the engine. A query is text with the context of its analysis,
a version of a source is JSON, and metadata is `StorageMetadata`.

Two guarantees are essential. A commit moves a branch only from where it was read (`TableMetadata.swap`), on
which the fence is built. A method whose docstring says that it starts no Spark job only reads metadata, so it
may be called while a statement waits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from mt_core.base.identifiers import Namespace
from mt_core.base.rowset import RowSet
from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.shape import QueryShape
from mt_core.incremental.stages.joined_sources import ChangedReadings, JoinedSources
from mt_core.incremental.stages.look_ups import NO_FACTS, SourceFacts
from mt_core.incremental.stages.stage_plan import StagePlan
from mt_core.incremental.strategy import Strategy
from mt_core.model.partition import NOTHING, Scope
from mt_core.model.progress import Progress
from mt_core.model.storage import MetadataChange, Snapshot, StorageMetadata
from mt_core.model.table import Column, TableIdentifier
from mt_core.model.transform import Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A SELECT with the context of its analysis: current catalog and namespace, time zone and settings."""

    text: str
    catalog: str = ""
    namespace: Namespace = ()
    zone: str = "UTC"
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedQuery:
    """The columns of a query, and its text with all names qualified and every star expanded.

    `sources` are the full names of the tables that it reads, including those behind views. `relations` and
    `functions` are the unqualified names in its text, in lower case; a session may have other objects with
    these names.
    """

    columns: tuple[Column, ...]
    expanded_query: str
    sources: tuple[str, ...]
    relations: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVersion:
    """A source at its current version.

    `kind` is table, view, function or unversioned; `version` is None if it is unversioned. `path` lists the
    full names of the views around a table, outermost first, and of the table itself. It is empty for other
    kinds, and not recorded.
    """

    name: str
    kind: str
    version: Mapping[str, Any] | None
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVector:
    """The versions of all sources that a run reads.

    `unstable` is the reason why equal versions may return different rows, and `unpinnable` the reason why the
    query cannot be pinned to these versions. Each is None if this is not the case.
    """

    sources: tuple[SourceVersion, ...]
    unstable: str | None = None
    unpinnable: str | None = None

    @property
    def unversioned(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources if source.version is None)

    def to_json(self) -> tuple[dict[str, Any], ...]:
        return tuple(
            {
                "name": each.name,
                "kind": each.kind,
                "version": dict(each.version) if each.version is not None else None,
            }
            for each in self.sources
        )

    @classmethod
    def from_json(cls, sources: Iterable[Mapping[str, Any]]) -> SourceVector:
        """Return the vector for the JSON of `to_json()`, without `unstable`, `unpinnable` and paths."""
        return cls(sources=tuple(SourceVersion(**source) for source in sources))

    @classmethod
    def of_text(cls, text: str) -> SourceVector:
        """Return the source vector that a snapshot summary contains as text."""
        return cls.from_json(json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedQuery:
    """The shape of a query, with its columns.

    `readings` lists the source name of each relation of the query, in the order in which the shape numbers
    them.
    """

    shape: QueryShape
    columns: tuple[Column, ...]
    readings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChanges(ShapedQuery):
    """How the sources of a query have changed between two vectors.

    `changes` is keyed by source name, and so are `facts`, those of the sources at the newer vector.
    `unaffected` are the readings of changed sources of which it is known that the query reads no value that
    changed, by their positions in `readings`.
    """

    changes: Mapping[str, SourceChange]
    facts: Mapping[str, SourceFacts]
    unaffected: frozenset[int] = frozenset()

    def by_reading(self) -> dict[int, SourceChange]:
        """Return the change of each reading, which is UNREAD if the reading is not affected."""
        return {
            number: replace(self.changes[source], kind=ChangeKind.UNREAD)
            if number in self.unaffected
            else self.changes[source]
            for number, source in enumerate(self.readings)
            if source in self.changes
        }

    @property
    def changed_readings(self) -> frozenset[int]:
        """The readings whose rows have changed."""
        return frozenset(number for number, each in self.by_reading().items() if each.kind.changes_rows)

    @property
    def affecting(self) -> Mapping[str, SourceChange]:
        """The changes of the sources that have an affected reading, or of which no reading is known."""
        readings = dict[str, set[int]]()
        for number, source in enumerate(self.readings):
            readings.setdefault(source, set()).add(number)
        return {
            source: change
            for source, change in self.changes.items()
            if source not in readings or not readings[source] <= self.unaffected
        }

    @property
    def changed_bytes(self) -> int | None:
        """The size of the changes that concern the query, in bytes; None if it is unknown for any source."""
        sizes = [change.size for change in self.affecting.values()]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def source_bytes(self) -> int:
        """The size of all sources."""
        return sum(each.size for each in self.facts.values())

    def joined_by(self, strategy: Strategy) -> JoinedSources:
        """Return what a run by *strategy* joins with the changed rows, as far as this is planned."""
        readings = ChangedReadings(
            names=self.readings,
            changes={number: each for number, each in self.by_reading().items() if each.kind.changes_rows},
            facts={number: self.facts.get(name, NO_FACTS) for number, name in enumerate(self.readings)},
            scopes=self.shape.scopes,
        )
        if strategy.stages is not None:
            return readings.joined_by(strategy.stages)
        return JoinedSources(size=0) if strategy.rows is None else readings.joined_by_rows(strategy.rows)

    @property
    def since(self) -> datetime | None:
        """The time of the oldest known commit among the changes, or None."""
        return min(
            (change.since for change in self.changes.values() if change.since is not None), default=None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpec:
    """The storage table of a materialized table; it is created with one empty snapshot."""

    identifier: TableIdentifier
    table_id: str
    columns: tuple[Column, ...]
    partition_keys: tuple[str, ...] = ()
    transforms: tuple[Transform, ...] = ()
    comment: str | None = None
    location: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """How a run applies the changes since the vector *since*, which the table's snapshot `base` records.

    `in_place`: files without changed rows are kept. `most_in_place`: they are also kept if it turns out that
    at most this number of rows changed. `small`: the change is so small that a single task can rewrite the
    table.
    """

    strategy: Strategy
    changes: SourceChanges
    since: SourceVector
    base: str
    in_place: bool = False
    most_in_place: int = 0
    small: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Rows to compute and to stage: the query at *vector*, restricted to *scope*.

    They follow the snapshot *base* of main. With `maintenance`, only the changes are computed; the resulting
    rows are the same.

    `summary` becomes part of the snapshot; `options` are the dynamic options of the write; `query_types` are
    the types that the query's columns had when it was defined. `stages` are the stages of the query whose
    states are kept at *vector*, None for a write without states.
    """

    job_id: str
    table: TableIdentifier
    base: str
    query: Query
    columns: tuple[Column, ...]
    vector: SourceVector
    scope: Scope
    summary: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    query_types: Mapping[str, str] = field(default_factory=dict)
    maintenance: Maintenance | None = None
    stages: StagePlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The snapshot that a write has staged, and the table's metadata as it was.

    The table does not contain the snapshot yet. A publish adds `pending`, the engine's form of it, to this
    metadata, or to later metadata with the same last sequence number. `states` is the value of the property
    STATES that the publish sets, None for a write without states.
    """

    snapshot: Snapshot
    metadata: StorageMetadata
    pending: Any = field(repr=False)
    states: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison, as multisets, of a query at *vector* with a snapshot of its table, both within *scope*.

    Rows in the scope *besides* are excluded. *percent* is the share of keys to compare. With *in_buckets*,
    only row counts and sums of hashes are compared, per bucket of keys. The result contains up to *most*
    differences.
    """

    job_id: str
    table: TableIdentifier
    snapshot_id: str
    query: Query
    columns: tuple[Column, ...]
    vector: SourceVector
    scope: Scope
    besides: Scope = NOTHING
    percent: float = 100.0
    in_buckets: bool = False
    most: int = 1000
    query_types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """The differences between the rows of a table and those of its query.

    The columns of `differences` are `difference` (missing or unexpected), `copies`, and those of the table,
    sorted by copies in descending order. `different` is the number of all differences, or of buckets that
    differ. `rows` is the number of table rows compared. `left_out` contains the reason for each column that
    was not compared.
    """

    differences: RowSet
    different: int
    rows: int
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragments:
    """The numbers of files that a compaction would remove.

    These are delete files, and small data files in partitions that contain several.
    """

    small_files: int
    delete_files: int

    def __str__(self) -> str:
        return f"{self.small_files} small files, {self.delete_files} delete files"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadSources:
    """Why the sources of a query could not be read.

    `reason` is "" while the read is still running; a later poll may then find the result.
    """

    reason: str


class CatalogLookup(Protocol):
    """The catalogs that the engine knows."""

    def check_catalog(self, identifier: TableIdentifier) -> None:
        """Raise CatalogUnsupported unless the catalog can hold the storage table of *identifier*.

        The first check of a catalog may create and drop a table in the namespace of *identifier*. Raises
        DefinitionInvalid if the catalog or the namespace does not exist.
        """

    def location_of(self, identifier: TableIdentifier, table_id: str) -> str:
        """Return where the files of a new storage table will be, or "" if its catalog decides that."""

    def namespace_exists(self, catalog: str, namespace: Namespace) -> bool:
        """Return whether *catalog* contains *namespace*; raise DefinitionInvalid for an unknown catalog."""

    def relation_exists(self, identifier: TableIdentifier) -> bool:
        """Return whether the catalog contains a table or view with this name."""


class QueryAnalysis(Protocol):
    """The columns of queries and tables."""

    def analyse(self, query: Query) -> AnalysedQuery:
        """Analyse *query* without running it; raise QueryFailed with the line and position of an error."""

    def check_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return *columns* with storage types; raise DefinitionInvalid for a type that cannot be stored."""

    def check_assignable(self, produced: Sequence[Column], declared: Sequence[Column]) -> None:
        """Raise DefinitionInvalid naming a column whose values cannot be stored as its declared type.

        Columns are matched by position.
        """

    def partition_values(
        self, query: Query, identifier: TableIdentifier, column: str
    ) -> frozenset[str | None]:
        """Return the current values of a partition column in *query* and in its table; None is NULL."""


class SourceReader(Protocol):
    """The current state of the sources of a query."""

    def read_vector(self, query: Query) -> SourceVector:
        """Return the versions that the query would read now.

        Starts no Spark job if nothing but versions has changed since the last call.
        """

    def source_fingerprints(self, queries: Sequence[Query]) -> Sequence[str | UnreadSources | None]:
        """Return, for each query, a fingerprint that changes when its sources or views do.

        The fingerprint is None if a source can change without a new version. Each source is read once, and no
        Spark job is started. A source that cannot be read, or does not respond, does not delay the others.
        """

    def next_commit(self, timeout_s: float) -> str | None:
        """Wait up to *timeout_s* seconds for this engine's next commit; return its source name or None.

        Commits of other processes, and commits before the first call, are not reported. Only one thread may
        call this method.
        """


class ChangeReader(Protocol):
    """The changes of sources between versions, read from metadata; starts no Spark job."""

    def read_shape(self, query: Query) -> ShapedQuery | str:
        """Return the shape of *query*, or why changes of its sources can never be applied incrementally."""

    def changes_since(self, query: Query, since: SourceVector, vector: SourceVector) -> SourceChanges | str:
        """Return how the sources of *query* have changed between two vectors, or why this is unknown."""

    def check_changes(
        self, job_id: str, query: Query, since: SourceVector, vector: SourceVector, changes: SourceChanges
    ) -> SourceChanges:
        """Return *changes* with the readings that small changes do not affect.

        The rows of small changes are read, as work of job *job_id*. Raises Canceled after `cancel(job_id)`.
        """

    def source_bytes(self, query: Query, vector: SourceVector) -> int | None:
        """Return how many bytes *query* reads at *vector*, or None if a source has no versions."""


class TableStorage(Protocol):
    """Creates, alters and drops storage tables."""

    def create_storage(self, spec: StorageSpec) -> None:
        """Create the storage table; raise TableExists if another table has its name.

        Harmless if the table already exists with the same table id.
        """

    def drop_storage(self, identifier: TableIdentifier, table_id: str, location: str) -> None:
        """Remove the table if it has this table id, its states, and the files under *location*.

        Harmless if they do not exist.
        """

    def add_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> None:
        """Append nullable columns; existing columns do not change."""

    def set_properties(self, spec: StorageSpec, *, forgotten: Collection[str]) -> None:
        """Set the properties and the comment of *spec* on the storage table; remove those *forgotten*."""


class TableMetadata(Protocol):
    """The metadata of storage tables, which the refresh protocol reads and changes."""

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        """Return the metadata; raise StorageMissing if there is no storage table."""

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        """Apply *change* to *metadata* in one commit.

        Raises CommitConflict if main or another branch that *change* moves or drops is no longer where it is
        in *metadata*, and CommitUnknown if the outcome is unknown. A catalog may refuse the commit for any
        other difference too.
        """

    def discard(self, staged: Staged) -> None:
        """Delete the files of *staged*, of which no publish was sent, or only one that failed.

        Files that cannot be deleted are left to `remove_orphans`.
        """

    def ancestors(self, metadata: StorageMetadata) -> Iterator[Snapshot]:
        """Yield main and its ancestors, newest first, except expired ones."""


class TableHousekeeping(Protocol):
    """Expires snapshots of storage tables, deletes orphan files and compacts small files."""

    def has_expired(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> bool:
        """Return whether `expire` would delete any snapshot."""

    def expire(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> None:
        """Delete snapshots older than *older_than*, with their files.

        Main, the snapshots in *keep*, and those that a branch or tag refers to are retained. Old states are
        deleted too, unless a remaining snapshot names them.
        """

    def remove_orphans(self, identifier: TableIdentifier, older_than: datetime) -> None:
        """Delete files of the table and its states, written before *older_than*, to which nothing refers."""

    def fragments(self, identifier: TableIdentifier) -> Fragments:
        """Count the files that a compaction would remove."""

    def rewrite_files(self, identifier: TableIdentifier, job_id: str) -> Staged | None:
        """Stage the rows of main in fewer files, as a `replace` commit with main's summary.

        Small data files are rewritten, and data files with deletes. Returns None if there are none. Blocks
        until the job ends.
        """

    def restage(self, identifier: TableIdentifier, staged: Staged) -> Staged:
        """Stage the files of *staged* on the current main, without a Spark job.

        Raises EngineError if a file that the rewrite replaces has changed.
        """


class RowWriter(Protocol):
    """The Spark jobs that compute the rows of storage tables."""

    def write(self, write: Write) -> Staged:
        """Compute and stage rows. Blocks until the job ends.

        Raises QueryFailed if the query fails, Canceled after `cancel(job_id)`, NotApplied if the maintenance
        turns out to be impossible or too expensive, ResultUnchanged if the query reads nothing of what
        changed, and CommitConflict if the table no longer has the base.
        """

    def repeat(self, write: Write, staged: Staged, metadata: StorageMetadata) -> Staged:
        """Stage the files of *staged*, which *write* has staged, with the next sequence number of *metadata*.

        Starts no job. Raises CommitConflict if the table no longer has the base.
        """

    def touched_partitions(
        self, job_id: str, query: Query, vector: SourceVector, maintenance: Maintenance
    ) -> frozenset[tuple[str | None, ...]]:
        """Return the values of *maintenance*'s key columns in changed rows of the query; None is NULL.

        Rows count if they changed between the base of *maintenance* and *vector*. The result may include
        values whose rows have not changed. Blocks, and raises the same errors as `write`.
        """


class RowComparison(Protocol):
    """The Spark jobs that compare storage tables with their queries."""

    def compare(self, comparison: Comparison) -> ComparisonResult:
        """Compare a table with its query. Blocks until the job ends.

        Raises QueryFailed, Incomparable, and Canceled after `cancel(job_id)`.
        """


class EngineJobs(Protocol):
    """The Spark jobs of writes, comparisons and housekeeping, keyed by job id."""

    def cancel(self, job_id: str) -> None:
        """Request cancellation of the job's work; harmless if it has none."""

    def progress(self, job_id: str) -> Progress | None:
        """Return the progress of the job, or None if it has not begun or has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineWorkload:
    """What the engine does at one instant: its running jobs and tasks, and its executors.

    `memory` is the number of bytes that its process uses, by area of the memory.
    """

    jobs: int
    tasks: int
    executors: int
    memory: Mapping[str, int]


class EngineState(Protocol):
    """Whether the engine is available, where its jobs run, and what it does."""

    def ready(self) -> bool:
        """Return whether the engine accepts work now."""

    def trouble(self) -> str:
        """Return why the engine accepts no work or makes no progress, or "" if it works."""

    def note(self) -> str:
        """Return what makes the engine slower than necessary, and why, or "" if nothing does."""

    def cluster_info(self) -> Mapping[str, str]:
        """Return where Spark jobs run, for example {"execution.target": "local[*]"}."""

    def workload(self) -> EngineWorkload | None:
        """Return what the engine does, or None if it does not answer within some seconds.

        Only one thread at a time may call this.
        """

    def starts(self) -> int:
        """Return how often the engine has started. Never waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshEngine:
    """The engine, divided into roles.

    Unless its docstring says otherwise, a method is thread-safe, and may raise EngineError, or
    EngineUnavailable if the engine is starting or was lost.
    """

    catalogs: CatalogLookup
    queries: QueryAnalysis
    sources: SourceReader
    changes: ChangeReader
    storage: TableStorage
    metadata: TableMetadata
    housekeeping: TableHousekeeping
    writes: RowWriter
    comparisons: RowComparison
    jobs: EngineJobs
    state: EngineState
