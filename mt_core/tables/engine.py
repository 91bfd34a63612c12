"""The engine port: what the manager needs from an engine to analyse queries, run jobs and store tables.

Everything that depends on Spark or Iceberg is behind these protocols, one for each role, so that the refresh
protocol runs against a fake engine in tests. The types describe requests and results without objects of the
engine: a query is text with the context of its analysis, a version of a source is JSON, and metadata is
`StorageMetadata`.

The port rests on two promises. Metadata changes only by compare-and-set (`TableMetadata.swap`), which is what
the fence is built on. And a method whose docstring says that it starts no Spark job only reads metadata, so
that it may be called while a statement waits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from mt_core.base.identifiers import Namespace
from mt_core.base.rowset import RowSet
from mt_core.incremental.changes import SourceChange
from mt_core.incremental.shape import QueryShape
from mt_core.incremental.strategy import Strategy
from mt_core.model.partition import NOTHING, Scope
from mt_core.model.progress import Progress
from mt_core.model.storage import MetadataChange, Snapshot, StorageMetadata
from mt_core.model.table import Column, TableIdentifier
from mt_core.model.transform import Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A SELECT with the context of its analysis: current catalog and namespace, time zone and frozen
    settings.
    """

    text: str
    catalog: str = ""
    namespace: Namespace = ()
    zone: str = "UTC"
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedQuery:
    """The columns of a query, and its text with every relation qualified and every star expanded.

    `sources` are the full names of the tables that it reads, also through views. `relations` and `functions`
    are the unqualified names in its text, in lower case: a session may hide them.
    """

    columns: tuple[Column, ...]
    expanded_query: str
    sources: tuple[str, ...]
    relations: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVersion:
    """A source at its current version.

    `kind` is table, view, function or unversioned; `version` is None for the last. `path` has the full names
    of the views around a table, outermost first, and of the table; it is not recorded, and is empty for other
    kinds.
    """

    name: str
    kind: str
    version: Mapping[str, Any] | None
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVector:
    """The versions of all sources that a run reads.

    `unstable` says why equal versions may return different rows, `unpinnable` why the versions cannot be
    pinned in the query; both are None otherwise.
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
        """Return the vector that `to_json()` wrote, without `unstable`, `unpinnable` and paths."""
        return cls(sources=tuple(SourceVersion(**source) for source in sources))

    @classmethod
    def of_text(cls, text: str) -> SourceVector:
        """Return the vector in a snapshot summary."""
        return cls.from_json(json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedQuery:
    """The shape of a query, with its columns.

    `readings` has the source name for each place where the query reads a source, by its number in the shape.
    """

    shape: QueryShape
    columns: tuple[Column, ...]
    readings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChanges(ShapedQuery):
    """The changes of the sources of a query between two vectors.

    `changes` are by source name; `source_bytes` is the size of all sources at the newer vector.
    """

    changes: Mapping[str, SourceChange]
    source_bytes: int

    @property
    def changed_bytes(self) -> int | None:
        """The size of the changes; None if it is unknown for any source."""
        sizes = [change.size for change in self.changes.values()]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def since(self) -> datetime | None:
        """The time of the oldest commit among the changes, as far as it is known."""
        return min(
            (change.since for change in self.changes.values() if change.since is not None), default=None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpec:
    """The storage table of a materialized table, which is created with one empty snapshot."""

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
    """How a run applies the changes since *since*, the vector of the table's snapshot `base`.

    `in_place`: files without any changed row stay. `small`: the change is small enough for one task to
    rewrite the table.
    """

    strategy: Strategy
    changes: SourceChanges
    since: SourceVector
    base: str
    in_place: bool = False
    small: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Rows to compute and to stage on a branch: the query at *vector*, restricted to *scope*, overwriting
    exactly *scope*.

    With `maintenance` only the changes are computed, with the same result.

    If `may_stay_pending`, the snapshot may stay pending until the publish adds it.

    `summary` becomes part of the snapshot; `options` are the dynamic options of the write; `query_types` are
    the types that the query's columns had when it was defined.
    """

    job_id: str
    table: TableIdentifier
    branch: str
    query: Query
    columns: tuple[Column, ...]
    vector: SourceVector
    scope: Scope
    summary: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    query_types: Mapping[str, str] = field(default_factory=dict)
    maintenance: Maintenance | None = None
    may_stay_pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The snapshot that a write has staged, and the table's metadata as read after it.

    `pending` is set for a pending snapshot: the branch does not have it yet, and a publish adds it to exactly
    this metadata.
    """

    snapshot: Snapshot
    metadata: StorageMetadata
    pending: Any | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A query at *vector* to compare, as a multiset, with a snapshot of its table, both restricted to
    *scope*.

    Rows of *besides* are excluded. `percent` is the share of the keys to compare. With `in_buckets` only row
    counts and hash sums are compared, for each bucket of keys. At most `most` differences are returned.
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

    `differences` has the columns `difference` (missing or unexpected), `copies`, and the table's, with the
    most copies first. `different` counts all differences, or the buckets that differ. `rows` is the number of
    table rows compared. `left_out` has the reason for each column that was not compared.
    """

    differences: RowSet
    different: int
    rows: int
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragments:
    """The numbers of files that a compaction would remove: delete files, and small data files in partitions
    that have several.
    """

    small_files: int
    delete_files: int

    def __str__(self) -> str:
        return f"{self.small_files} small files, {self.delete_files} delete files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A rewrite of small data files, and of files with deletes, on a branch that is at main."""

    job_id: str
    table: TableIdentifier
    branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadSources:
    """Why the sources of a query could not be read; "" while the read is still running, which a later poll
    may find done.
    """

    reason: str


class CatalogLookup(Protocol):
    """The catalogs known to the engine."""

    def check_catalog(self, identifier: TableIdentifier) -> None:
        """Raise CatalogUnsupported unless the catalog swaps metadata by compare-and-set; DefinitionInvalid if
        it is unknown.
        """

    def namespace_exists(self, catalog: str, namespace: Namespace) -> bool:
        """Return whether the catalog has that namespace; raise DefinitionInvalid for an unknown catalog."""

    def relation_exists(self, identifier: TableIdentifier) -> bool:
        """Return whether the catalog has a table or view of that name."""


class QueryAnalysis(Protocol):
    """The columns of queries and tables."""

    def analyse(self, query: Query) -> AnalysedQuery:
        """Analyse *query* without running it; raise QueryFailed with line and position."""

    def check_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return *columns* with their storage types; raise DefinitionInvalid naming a type that cannot be
        stored.
        """

    def check_assignable(self, produced: Sequence[Column], declared: Sequence[Column]) -> None:
        """Raise DefinitionInvalid naming a column whose values cannot be stored as its declared type.

        Columns are matched by position.
        """

    def partition_values(
        self, query: Query, identifier: TableIdentifier, column: str
    ) -> frozenset[str | None]:
        """Return the current values of a partition column in *query* and in its table; None is NULL."""


class SourceReader(Protocol):
    """The current state of the sources of queries."""

    def read_vector(self, query: Query) -> SourceVector:
        """Return the versions that the query would read now; starts no Spark job if only versions changed."""

    def source_fingerprints(self, queries: Sequence[Query]) -> Sequence[str | UnreadSources | None]:
        """Return for each query a fingerprint that changes when its sources or views do.

        None if a source changes without a version. Each source is read once, and no Spark job starts. A
        source that cannot be read, or does not respond, does not delay the others.
        """

    def next_commit(self, timeout_s: float) -> str | None:
        """Wait for the next commit of this engine and return the source name of its table; None after
        *timeout_s*.

        Commits of other processes, and those before the first call, are not reported. Only one thread may
        call it.
        """


class ChangeReader(Protocol):
    """The changes of the sources of queries between versions, read from metadata; starts no Spark job."""

    def read_shape(self, query: Query) -> ShapedQuery | str:
        """Return the shape of *query*, or why changes of its sources can never be applied."""

    def changes_since(self, query: Query, since: SourceVector, vector: SourceVector) -> SourceChanges | str:
        """Return the changes of the sources of *query* between two vectors, or why they are unknown."""

    def source_bytes(self, query: Query, vector: SourceVector) -> int | None:
        """Return the size of everything that *query* reads at *vector*; None if a source has no versions."""


class TableStorage(Protocol):
    """Creates, alters and drops storage tables."""

    def create_storage(self, spec: StorageSpec) -> None:
        """Create the storage table; raise TableExists if another table has its name.

        Harmless if the table already exists with the same table id.
        """

    def drop_storage(self, identifier: TableIdentifier, table_id: str, location: str) -> None:
        """Remove the table, if it has that table id, and the files under *location*.

        Harmless if they are gone.
        """

    def add_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> None:
        """Append nullable columns; existing ones stay unchanged."""

    def set_properties(self, spec: StorageSpec, *, forgotten: Collection[str]) -> None:
        """Set the properties and the comment of *spec* on the storage table, and remove the *forgotten*
        properties.
        """


class TableMetadata(Protocol):
    """The metadata of storage tables, as the refresh protocol reads and replaces it."""

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        """Return the metadata; raise StorageMissing."""

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        """Apply *change* to exactly *metadata*.

        Raises CommitConflict if it is not current anymore, and CommitUnknown if the outcome is unknown.
        """

    def ancestors(self, metadata: StorageMetadata) -> Iterator[Snapshot]:
        """Yield main and its ancestors, newest first, except those that have expired."""


class TableHousekeeping(Protocol):
    """Expires snapshots of storage tables, deletes orphan files and compacts small ones."""

    def has_expired(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> bool:
        """Return whether `expire` would delete a snapshot."""

    def expire(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> None:
        """Delete snapshots from before *older_than*, with their files.

        Main, the snapshots in *keep*, and those that a branch or tag refers to are retained.
        """

    def remove_orphans(self, identifier: TableIdentifier, older_than: datetime) -> None:
        """Remove files written before *older_than* that no snapshot refers to."""

    def fragments(self, identifier: TableIdentifier) -> Fragments:
        """Count the files that a compaction would remove."""

    def rewrite_files(self, rewrite: Rewrite) -> Staged:
        """Stage main's rows in fewer files, if possible, as a `replace` commit with main's snapshot summary.

        Blocks.
        """

    def restage(self, rewrite: Rewrite, staged: Staged) -> Staged:
        """Stage the files of *staged* on the current main, without a Spark job.

        Raises EngineError if a file that the rewrite replaces has changed.
        """


class RowWriter(Protocol):
    """The Spark jobs that compute rows of storage tables."""

    def write(self, write: Write) -> Staged:
        """Stage rows. Blocks.

        Raises QueryFailed when the query fails, Canceled after `cancel(job_id)`, and NotApplied if the
        maintenance turns out to be impossible or too expensive.
        """

    def touched_partitions(
        self, job_id: str, query: Query, vector: SourceVector, maintenance: Maintenance
    ) -> frozenset[tuple[str | None, ...]]:
        """Return the values that the key columns of *maintenance* have in changed rows of the query, up to
        *vector*.

        The result may include values whose rows did not change. Blocks, and raises as `write` does.
        """


class RowComparison(Protocol):
    """The Spark jobs that compare storage tables with their queries."""

    def compare(self, comparison: Comparison) -> ComparisonResult:
        """Compare a table with its query. Blocks; raises QueryFailed, Incomparable, and Canceled after
        `cancel(job_id)`.
        """


class EngineJobs(Protocol):
    """The Spark jobs of writes, comparisons and housekeeping, by job id."""

    def cancel(self, job_id: str) -> None:
        """Cancel the job's work soon; harmless if it has none."""

    def progress(self, job_id: str) -> Progress | None:
        """Return the progress of the job; None if it has not begun or has ended."""


class EngineState(Protocol):
    """Whether the engine works, and where."""

    def ready(self) -> bool:
        """Return whether the engine accepts work now."""

    def trouble(self) -> str:
        """Return why the engine accepts no work, or makes no progress; "" when it works."""

    def note(self) -> str:
        """Return what makes the engine slower than it could be, and why; "" if nothing does."""

    def cluster_info(self) -> Mapping[str, str]:
        """Return where Spark jobs run, e.g. {"execution.target": "local[*]"}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshEngine:
    """The engine, by its roles.

    Unless its docstring says otherwise, a method is thread-safe, and may raise EngineUnavailable (starting,
    or lost) and EngineError.
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
