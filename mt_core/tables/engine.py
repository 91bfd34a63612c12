"""What the manager needs of the engine: the analysis of queries, the jobs that run them,
and storage tables.
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
    """A SELECT with all that its analysis needs: where unqualified names are looked up,
    zone and frozen settings.
    """

    text: str
    catalog: str = ""
    namespace: Namespace = ()
    zone: str = "UTC"
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedQuery:
    """What a query gives: its columns, and its text with every relation qualified and every star written out.

    `sources` are the full names of the tables it reads, also below views; `relations` and `functions`
    are the names of one part that its text has, in lower case: those that a session may hide.
    """

    columns: tuple[Column, ...]
    expanded_query: str
    sources: tuple[str, ...]
    relations: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVersion:
    """A source at its current version.

    `kind` is table, view, function or unversioned; `version` is None for the last.

    `path` has the full names of the views around a table, outermost first, and of the table;
    it is not recorded, and empty for all else.
    """

    name: str
    kind: str
    version: Mapping[str, Any] | None
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVector:
    """What a run reads. `unstable` says why equal versions may give other rows (None: they cannot);
    `unpinnable` says why the versions cannot be pinned in the query (None: they can)."""

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
        """Return the vector that `to_json()` has written; why it was unstable or could not be
        pinned is not in it.
        """
        return cls(sources=tuple(SourceVersion(**source) for source in sources))

    @classmethod
    def of_text(cls, text: str) -> SourceVector:
        """Return the vector that a snapshot has in its summary."""
        return cls.from_json(json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedQuery:
    """The shape of a query with its columns.

    `readings` has the source's name for each place where the query reads one, by its number in the shape.
    """

    shape: QueryShape
    columns: tuple[Column, ...]
    readings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChanges(ShapedQuery):
    """What happened to the sources of a query between two vectors.

    `changes` are by source; `source_bytes` is the size of all sources at the newer vector.
    """

    changes: Mapping[str, SourceChange]
    source_bytes: int

    @property
    def changed_bytes(self) -> int | None:
        """The size of what changed; None if it is not known of a source."""
        sizes = [change.size for change in self.changes.values()]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def since(self) -> datetime | None:
        """When the oldest commit of what changed was made, as far as that is known."""
        return min(
            (change.since for change in self.changes.values() if change.since is not None), default=None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpec:
    """The storage table of a materialized table: created empty, with one snapshot of ours."""

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
    """How a run applies what changed since *since*, the vector whose rows the table's snapshot `base` has.

    `in_place`: the files of the table that have no row of the change stay. `small`:
    one task rewrites it for a change of few rows.
    """

    strategy: Strategy
    changes: SourceChanges
    since: SourceVector
    base: str
    in_place: bool = False
    small: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Rows to compute and to stage on a branch: the query at *vector*, restricted to *scope*,
    overwriting exactly *scope*.

    With `maintenance` only what changed is computed, with the same result. `may_hold`:
    the snapshot may be left for publish to add.

    `summary` goes into the snapshot; `options` are the dynamic options of the write; `query_types`
    are the types that the columns of the query had when it was defined (empty: an earlier release
    did not record them).
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
    may_hold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What was written: the branch's snapshot, and the table's metadata as read after that.

    `held`: the branch does not have the snapshot, which a publish adds to exactly this metadata.
    """

    snapshot: Snapshot
    metadata: StorageMetadata
    held: Any | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A query at *vector* to compare with the rows of a snapshot of its table, both restricted to *scope*,
    as multisets.

    Rows of *besides* are left out. `percent` is the share of the keys to compare. With `in_buckets`
    only the numbers of rows and the sums of hashes are compared, for each bucket of keys. At most `most`
    differences are returned.
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
class Compared:
    """How the rows of a table differ from those of its query.

    `differences` has columns `difference` (missing or unexpected), `copies`, and the table's, the most copies
    first; `different` counts all that there are, or the buckets that differ. `rows` are those of the table
    that were compared. `left_out` says for each column that was not compared why.
    """

    differences: RowSet
    different: int
    rows: int
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragments:
    """The files of main that a compaction takes away: small data files where a partition has several,
    and delete files.
    """

    small_files: int
    delete_files: int

    def __str__(self) -> str:
        return f"{self.small_files} small files, {self.delete_files} delete files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Small files, and those with deletes, to be written anew on a branch that is at main."""

    job_id: str
    table: TableIdentifier
    branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadSources:
    """Why a source of a query could not be looked at; "" while the look goes on,
    which a later one may find done.
    """

    reason: str


class CatalogLookup(Protocol):
    """The catalogs that the engine knows."""

    def check_catalog(self, identifier: TableIdentifier) -> None:
        """Raise CatalogUnsupported unless the catalog swaps metadata by compare-and-set;
        DefinitionInvalid if it is unknown.
        """

    def namespace_exists(self, catalog: str, namespace: Namespace) -> bool:
        """Return whether the catalog has that namespace; raises DefinitionInvalid
        if there is no such catalog.
        """

    def relation_exists(self, identifier: TableIdentifier) -> bool:
        """Return whether a table or view of that name is in its catalog."""


class QueryAnalysis(Protocol):
    """The columns of queries and of tables."""

    def analyse(self, query: Query) -> AnalysedQuery:
        """Analyse *query* without running it; raises QueryFailed with line and position."""

    def check_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return *columns* with the types storage will give them;
        raises DefinitionInvalid naming a type it cannot store.
        """

    def check_assignable(self, produced: Sequence[Column], declared: Sequence[Column]) -> None:
        """Raise DefinitionInvalid naming a column whose rows cannot be stored as its declared type;
        matched by position.
        """

    def partition_values(
        self, query: Query, identifier: TableIdentifier, column: str
    ) -> frozenset[str | None]:
        """Return the values of a partition column (None: NULL) that *query* gives now,
        and those in the storage table.
        """


class SourceReader(Protocol):
    """The sources of queries as they are now."""

    def read_vector(self, query: Query) -> SourceVector:
        """Return what the query would read now; starts no Spark job when nothing but versions changed."""

    def look(self, queries: Sequence[Query]) -> Sequence[str | UnreadSources | None]:
        """Return for each query a text that changes when its sources or views do;
        None if they change without a version.

        Reads each source once and starts no Spark job. A source that cannot be read, or that does not answer,
        holds up no other.
        """

    def next_commit(self, timeout_s: float) -> str | None:
        """Wait until this engine has committed rows to a table, and return its name as a source;
        None if it did not in time.

        What other processes commit is not heard of, nor what the engine committed before the first call.
        For one thread.
        """


class ChangeReader(Protocol):
    """What happened to the sources of queries between versions, from metadata; starts no Spark job."""

    def read_shape(self, query: Query) -> ShapedQuery | str:
        """Return the shape of *query*, or why no change of its sources can be applied,
        whatever their versions.
        """

    def changes_since(self, query: Query, since: SourceVector, vector: SourceVector) -> SourceChanges | str:
        """Return what happened to the sources of *query* from one vector to another,
        or why that cannot be said.
        """

    def source_bytes(self, query: Query, vector: SourceVector) -> int | None:
        """Return the size of all that *query* reads at *vector*; None if a source has no versions."""


class TableStorage(Protocol):
    """Storage tables: created, changed and dropped."""

    def create_storage(self, spec: StorageSpec) -> None:
        """Create the storage table; harmless if it is there with our table id, raises TableExists
        if it is another table.
        """

    def drop_storage(self, identifier: TableIdentifier, table_id: str, location: str) -> None:
        """Remove the table, if it carries our table id, and the files under *location*;
        harmless if they are gone.
        """

    def add_columns(self, identifier: TableIdentifier, columns: Sequence[Column]) -> None:
        """Append nullable columns; those that are there already stay."""

    def set_properties(self, spec: StorageSpec, *, forgotten: Collection[str]) -> None:
        """Give the storage table the properties and the comment of *spec*,
        and take those *forgotten* away.
        """


class TableMetadata(Protocol):
    """The metadata of storage tables, as the refresh protocol reads and replaces it."""

    def load(self, identifier: TableIdentifier) -> StorageMetadata:
        """Read the metadata; raises StorageMissing."""

    def swap(self, identifier: TableIdentifier, metadata: StorageMetadata, change: MetadataChange) -> None:
        """Apply *change* to exactly *metadata*; raises CommitConflict if it is no longer current,
        CommitUnknown if unclear.
        """

    def ancestors(self, metadata: StorageMetadata) -> Iterator[Snapshot]:
        """Yield main and its ancestors, newest first, as far as they have not expired."""


class TableHousekeeping(Protocol):
    """Old snapshots of storage tables, files that belong to none, and files that are too small."""

    def has_expired(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> bool:
        """Return whether `expire` would delete a snapshot."""

    def expire(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> None:
        """Delete snapshots of before *older_than*, with their files, but not main,
        *keep* and those that a branch or tag names.
        """

    def remove_orphans(self, identifier: TableIdentifier, older_than: datetime) -> None:
        """Remove files written before *older_than* that no snapshot refers to."""

    def fragments(self, identifier: TableIdentifier) -> Fragments:
        """Count the files that a compaction would take away."""

    def rewrite_files(self, rewrite: Rewrite) -> Staged:
        """Stage main's rows in fewer files, if they can be, by a `replace` commit that says what main's
        snapshot says; blocks.
        """

    def stage_again(self, rewrite: Rewrite, staged: Staged) -> Staged:
        """Stage the files of *staged* on main as it is now, without a job;
        EngineError if a file that goes has changed.
        """


class RowWriter(Protocol):
    """The jobs that compute rows of storage tables."""

    def write(self, write: Write) -> Staged:
        """Stage rows; blocks; raises QueryFailed when the query fails, Canceled after `cancel(job_id)`,
        and NotApplied.
        """

    def touched_partitions(
        self, job_id: str, query: Query, vector: SourceVector, maintenance: Maintenance
    ) -> frozenset[tuple[str | None, ...]]:
        """Return the values of the key columns of *maintenance* that rows of the query have
        which changed up to *vector*.

        They may have values besides whose rows stayed as they were. Blocks, and raises as `write` does.
        """


class RowComparison(Protocol):
    """The jobs that compare storage tables with their queries."""

    def compare(self, comparison: Comparison) -> Compared:
        """Compare a table with its query; blocks; raises QueryFailed, Canceled after `cancel(job_id)`,
        and Incomparable.
        """


class EngineJobs(Protocol):
    """The jobs that writes, comparisons and housekeeping run, each known by its id."""

    def cancel(self, job_id: str) -> None:
        """End the job's work soon; harmless when there is none."""

    def progress(self, job_id: str) -> Progress | None:
        """Return how far the job is, or None for a job that has not begun, or has ended."""


class EngineState(Protocol):
    """Whether the engine works, and where."""

    def ready(self) -> bool:
        """Whether the engine accepts work now."""

    def trouble(self) -> str:
        """Return why the engine accepts no work, or does none; empty when it works."""

    def note(self) -> str:
        """Return what the engine does more slowly than it could, and why; empty if nothing."""

    def cluster_info(self) -> Mapping[str, str]:
        """Return where jobs run, e.g. {"execution.target": "local[*]"}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshEngine:
    """The engine, by its roles.

    Unless a method says otherwise, any thread may call it, and it may raise EngineUnavailable
    (starting, or lost) and EngineError.
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
