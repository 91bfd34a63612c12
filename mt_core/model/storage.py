"""What a storage table itself records, in version 1: keys of its properties and of a snapshot's summary,
names of branches.

Tables written by any release carry these names: a key never gets another meaning,
and what needs one gets a new key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from mt_core.model.partition import DoubtedPartitions, Scope

# Properties of the table.
TABLE_ID = "freshtable.table-id"
EPOCH = "freshtable.epoch"
LAST_RUN = "freshtable.last-run"
FENCE = "freshtable.fence"
# An option of materialized tables, with its only value: refreshes replace rows by key.
UPSERT = "write.upsert"
EQUALITY_DELETE = "equality-delete"
# Followed by the id of a job: what a table says of a stream that writes it.
STREAM = "freshtable.stream."

# Iceberg's columns of a row's place in the files: it reads no table that has a column of its own
# with one of these names.
METADATA_COLUMNS = frozenset(
    {"_deleted", "_file", "_last_updated_sequence_number", "_partition", "_pos", "_row_id", "_spec_id"}
)

# The summary of a snapshot.
CREATED = "freshtable.created"
RUN_ID = "freshtable.run-id"
JOB_ID = "freshtable.job-id"
BATCH = "freshtable.batch"
PARTITIONS = "freshtable.partitions"
SOURCES = "freshtable.sources"
FINGERPRINT = "freshtable.fingerprint"
SCHEDULE_TIME = "freshtable.schedule-time"
STRATEGY = "freshtable.strategy"
BYTES_READ = "freshtable.bytes-read"
LATE = "freshtable.late"
DOUBTED = "freshtable.doubted"
IN_VAIN = "freshtable.in-vain"
COPIED = "freshtable.copied-rows"

# Of a source's version in SOURCES: the snapshot that is read, and when its rows were committed last (UTC).
# Both may differ between versions with the same rows.
PIN = "at"
COMMITTED = "committed"
# A hash of the columns that the query reads of a source; the id of all its columns,
# which were all that earlier releases recorded.
COLUMNS = "columns"
SCHEMA = "schema"
# The version of a table to which nobody has committed.
EMPTY = ""

_REPEATED = frozenset(
    {RUN_ID, BATCH, PARTITIONS, SOURCES, FINGERPRINT, SCHEDULE_TIME, STRATEGY, LATE, DOUBTED, IN_VAIN}
)
_BRANCH_PREFIX = "run_"


@dataclass(frozen=True, slots=True, kw_only=True)
class InVain:
    """What a run read of a change of `size` bytes before it computed all rows after all,
    and so many `recomputed` since.

    `what` is what told it: `keys` or `values`.
    """

    what: str
    size: int
    recomputed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One ancestor of main. `run_id` is None for a foreign commit, `batch` for a run that publishes once;
    `replace` commits change no rows: ours repeat what the snapshot before them says, those of others
    say nothing; `created` marks our empty first one; `pinned`: its rows are exactly those of its query
    at its sources' versions.

    `strategy` is how its run got the rows; `added_rows` and `deleted_rows` count also rows that a run
    copies, but for those that it says it did. `bytes_read` are those of the sources, None if not known.
    `deleted_keys` are those of which it deleted all rows, whose number no snapshot tells. `total_rows`,
    `total_bytes`, `data_files` and `delete_files` are the table's. `late` are the partitions whose rows were
    not those of the query at `sources` after the run, None if it did not look for them. `doubted` are those
    of which that was not known then, None if there were none, or it did not look. `in_vain` is the last try
    to apply a change instead, None since one was applied.
    """

    snapshot_id: str
    run_id: str | None = None
    batch: int | None = None
    scope: Scope | None = None
    sources: str | None = None
    fingerprint: str | None = None
    replace: bool = False
    created: bool = False
    pinned: bool = False
    strategy: str | None = None
    added_rows: int = 0
    deleted_rows: int = 0
    bytes_read: int | None = None
    total_rows: int = 0
    total_bytes: int = 0
    late: Scope | None = None
    doubted: DoubtedPartitions | None = None
    data_files: int = 0
    delete_files: int = 0
    deleted_keys: int = 0
    in_vain: InVain | None = None

    @property
    def tells(self) -> bool:
        """Whether it says whose the rows of the table are."""
        return not self.replace or self.run_id is not None

    @classmethod
    def of(cls, snapshot_id: str, summary: Mapping[str, str], *, replace: bool = False) -> Snapshot:
        """Return the snapshot of that id with the facts of its *summary*."""
        run_id, partitions, bytes_read = summary.get(RUN_ID), summary.get(PARTITIONS), summary.get(BYTES_READ)

        def count(key: str) -> int:
            return int(summary.get(key) or 0)

        return cls(
            snapshot_id=snapshot_id,
            run_id=run_id,
            batch=int(summary[BATCH]) if BATCH in summary else None,
            scope=None if run_id is None or partitions is None else Scope.from_json(json.loads(partitions)),
            sources=summary.get(SOURCES),
            fingerprint=summary.get(FINGERPRINT),
            replace=replace,
            created=summary.get(CREATED) is not None,
            pinned=STRATEGY in summary,
            strategy=summary.get(STRATEGY),
            added_rows=count("added-records") - count(COPIED),
            # A file that goes takes the rows with it that a delete file had deleted before.
            deleted_rows=count("deleted-records")
            + count("added-position-deletes")
            - count("removed-position-deletes")
            - count(COPIED),
            bytes_read=None if bytes_read is None else int(bytes_read),
            total_rows=count("total-records"),
            total_bytes=count("total-files-size"),
            late=Scope.from_json(json.loads(summary[LATE])) if LATE in summary else None,
            doubted=DoubtedPartitions.from_json(json.loads(summary[DOUBTED])) if DOUBTED in summary else None,
            data_files=count("total-data-files"),
            delete_files=count("total-delete-files"),
            deleted_keys=count("added-equality-deletes"),
            in_vain=InVain(**json.loads(summary[IN_VAIN])) if IN_VAIN in summary else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageMetadata:
    """The metadata of a table as it was read: snapshots by their ids, `branches` without main.

    `base` is the engine's own handle on exactly this version.
    """

    location: str
    properties: Mapping[str, str]
    main: str | None
    branches: Mapping[str, str]
    columns: tuple[str, ...] = ()
    base: Any = field(default=None, repr=False, compare=False)

    @property
    def table_id(self) -> str | None:
        """The id of the materialized table whose rows it stores, None for another table."""
        return self.properties.get(TABLE_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataChange:
    """One strict compare-and-set of a table's metadata.

    `properties` are set and `removed` ones go; `publish` (a snapshot id) becomes main; `branch` is made or
    set at what is main then; `drop` are branches to remove. `held` is the engine's form of the snapshot to
    publish, if the metadata does not have it.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    publish: str | None = None
    branch: str | None = None
    drop: tuple[str, ...] = ()
    held: Any | None = field(default=None, repr=False)


def run_summary(
    *,
    run_id: str,
    scope: Scope,
    sources: Iterable[Mapping[str, Any]],
    fingerprint: str | None,
    schedule_time: datetime | None,
    strategy: str | None,
) -> dict[str, str]:
    """Return what the snapshot of a run says of it; *sources* is the JSON of the source vector
    that the run has read.

    *strategy* is how the run got the rows (`maintenance.strategy.Way`), None unless it has read
    exactly these versions.
    """
    return {
        RUN_ID: run_id,
        PARTITIONS: json.dumps(scope.to_json()),
        SOURCES: json.dumps(tuple(sources)),
        FINGERPRINT: fingerprint or "",
        SCHEDULE_TIME: schedule_time.isoformat() if schedule_time else "",
        **({} if strategy is None else {STRATEGY: strategy}),
    }


def repeated_summary(summary: Mapping[str, str]) -> dict[str, str]:
    """Return what the snapshot of a compaction says: that of main, whose *summary* is given,
    may expire before it.
    """
    return {key: value for key, value in summary.items() if key in _REPEATED}


def batch_summary(batch: int | None) -> dict[str, str]:
    """Return what the snapshot of a run that publishes several times says besides; None:
    it publishes once.
    """
    return {} if batch is None else {BATCH: str(batch)}


def late_summary(late: Scope | None, doubted: DoubtedPartitions | None = None) -> dict[str, str]:
    """Return what the snapshot of a run says of the partitions that it leaves behind,
    and of those that are in doubt.

    None: it did not look for them.
    """
    if late is None:
        return {}
    return {LATE: json.dumps(late.to_json())} | ({DOUBTED: json.dumps(doubted.to_json())} if doubted else {})


def in_vain_summary(in_vain: InVain | None) -> dict[str, str]:
    """Return what the snapshot of a recomputation says of the last try to apply a change;
    None: there was none.
    """
    return (
        {}
        if in_vain is None
        else {IN_VAIN: json.dumps(asdict(replace(in_vain, recomputed=in_vain.recomputed + 1)))}
    )


def publish_name(run_id: str, batch: int | None) -> str:
    """Return what `last-run` is after the publish of a run, or of one of its batches."""
    return run_id if batch is None else f"{run_id}/{batch}"


def run_branch(run_id: str, attempt: int) -> str:
    """Return the branch on which that attempt of a run stages its rows."""
    return f"{_BRANCH_PREFIX}{run_id.replace('-', '')}_{attempt}"


def is_run_branch(name: str) -> bool:
    """Return whether a branch is that of a run."""
    return name.startswith(_BRANCH_PREFIX)


def run_branches(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of *names* that are branches of runs, in order."""
    return tuple(sorted(filter(is_run_branch, names)))
