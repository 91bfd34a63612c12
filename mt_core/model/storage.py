"""What a storage table records about itself: keys of properties and snapshots, and names of branches.

The registry may be older than the last commit of a table, because a gateway can be killed between the two. So
each commit contains its own facts. The table properties identify the materialized table and what was
published last (`fence.py`), and contain the tiny states of the query. The summary of a published snapshot
records its run, scope, source vector and fingerprint. A snapshot that changes no rows repeats them, because
the snapshot before it may expire first. Invariant: the latest snapshot that `describes_rows` states which
sources and which definition the rows on main come from.

This is version 1. Tables written by any release contain these names: the meaning of a key never changes, and
a new fact gets a new key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from mt_core.model.partition import DoubtedPartitions, Scope

# Properties of the table.
TABLE_ID = "freshtable.table-id"
EPOCH = "freshtable.epoch"
LAST_RUN = "freshtable.last-run"
# The option that makes refreshes of a materialized table replace rows by key, and its only value.
UPSERT = "write.upsert"
EQUALITY_DELETE = "equality-delete"
# A prefix, followed by a job id: the mark of a stream that writes the table.
STREAM = "freshtable.stream."
# The tiny states of the stages of the query, with the name of the publish to which they belong.
STATES = "freshtable.states"
MOST_TINY = 16 * 1024
"""The maximum length of the texts of all tiny states of a table together."""
# The property of a state table: the id of the materialized table to which it belongs.
STATE_OF = "freshtable.state-of"
_STATE_TABLE = "_freshtable_state_"
STATE_TABLE_NAME = _STATE_TABLE + "[0-9a-f]{32}_[0-9a-f]{16}"
"""The regular expression of the names of state tables."""

# Iceberg's metadata columns. Iceberg cannot read a table that has its own column with one of these names.
METADATA_COLUMNS = frozenset(
    {"_deleted", "_file", "_last_updated_sequence_number", "_partition", "_pos", "_row_id", "_spec_id"}
)

# Keys of the summary of a snapshot.
CREATED = "freshtable.created"
CLOSED = "freshtable.closed"
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
# A prefix, followed by the name of a stage: the snapshot of its state table that has its state.
STATE = "freshtable.state."
# Set by a recomputation without states whose change could have been applied to states.
WANTS_STATES = "freshtable.wants-states"
# In a state table: the number of rows of the last snapshot that replaced all rows.
STATE_GROUPS = "freshtable.state-groups"
# The key that Iceberg's draft of materialized views defines, and ours for what the draft has no place for.
ICEBERG_REFRESH_STATE = "refresh-state"
REFRESH_STATE = "freshtable.refresh-state"

# Keys of a source version in SOURCES: the snapshot that is read, and the last commit time of its rows (UTC).
# Two versions with the same rows may differ in both.
PIN = "at"
COMMITTED = "committed"
# A hash of the source columns that the query reads; and the schema id of the source, which decides where a
# vector lacks the hash.
COLUMNS = "columns"
SCHEMA = "schema"
# The version of a table that has no commits.
EMPTY = ""

_REPEATED = frozenset(
    {
        CREATED,
        RUN_ID,
        BATCH,
        PARTITIONS,
        SOURCES,
        FINGERPRINT,
        SCHEDULE_TIME,
        STRATEGY,
        LATE,
        DOUBTED,
        IN_VAIN,
        WANTS_STATES,
        ICEBERG_REFRESH_STATE,
        REFRESH_STATE,
    }
)
_BRANCH_PREFIX = "run_"


@dataclass(frozen=True, slots=True, kw_only=True)
class InVain:
    """The last attempt to apply a change incrementally that ended in a recomputation of all rows.

    `size` is the number of bytes of the change that had been read by then. `recomputed` is the number of
    recomputations since. `what` is the part of the change that required recomputation, such as `keys` or
    `values`, or `states` if all rows were computed without the states that should have been kept.
    """

    what: str
    size: int
    recomputed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot on main.

    `run_id` is None for a foreign commit, and `batch` for a run that publishes once. `replace` commits change
    no rows: ours, which are compactions and the snapshots with which a run closes a table, repeat the facts
    of the snapshot before them; foreign ones have no facts. `created` marks the empty first snapshot, which
    the gateway commits. `pinned` is True if the rows are
    exactly those of the query at its source versions.

    `strategy` is how the run computed the rows. `added_rows` and `deleted_rows` exclude rows that the run
    reports as copied, but include any other rows that it rewrote. `bytes_read` is the number of source bytes,
    None if unknown. `deleted_keys` is the number of keys deleted by equality; no snapshot records how many
    rows had these keys. `total_rows`, `total_bytes`, `data_files` and `delete_files` describe the whole
    table.

    `late` are the partitions that differed from the query at `sources` after the run, None if the run did not
    check. `doubted` are the partitions for which this was unknown, None if there were none or if the run did
    not check. `in_vain` is the last attempt to apply a change that ended in a recomputation, None once an
    attempt has succeeded.
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
    states: Mapping[str, str] = field(default_factory=dict)
    wants_states: bool = False

    @property
    def describes_rows(self) -> bool:
        """Whether the snapshot states where the rows of the table come from."""
        return not self.replace or self.run_id is not None or self.created

    @property
    def publish_name(self) -> str | None:
        """The name of the publish that made the rows of the snapshot, or None for a foreign commit."""
        return None if self.run_id is None else publish_name(self.run_id, self.batch)

    @classmethod
    def of(cls, snapshot_id: str, summary: Mapping[str, str], *, replace: bool = False) -> Snapshot:
        """Return the snapshot *snapshot_id* with the facts in its *summary*."""
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
            # Removing a data file also removes rows that a delete file had already deleted.
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
            states={
                key.removeprefix(STATE): value for key, value in summary.items() if key.startswith(STATE)
            },
            wants_states=WANTS_STATES in summary,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageMetadata:
    """One version of a table's metadata: its properties, main, and its other branches.

    `branches` maps their names to snapshot ids. `last_number` is the highest sequence number of a snapshot.
    `base` is the engine's own handle on exactly this version.
    """

    location: str
    properties: Mapping[str, str]
    main: str | None
    branches: Mapping[str, str]
    last_number: int = 0
    columns: tuple[str, ...] = ()
    base: Any = field(default=None, repr=False, compare=False)

    @property
    def table_id(self) -> str | None:
        """The id of the materialized table that this table stores, or None for any other table."""
        return self.properties.get(TABLE_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataChange:
    """A change of a table's metadata in one commit.

    It makes the snapshot `publish` main, sets `branches` to snapshots, drops the branches `drop`, sets
    `properties` to values and deletes the `removed` properties. The commit fails if a branch that it sets,
    also to where it was, or drops is no longer where it was; main counts as a branch.

    `pending` is the engine's form of a snapshot to publish that the metadata does not contain yet. With
    `closes`, the snapshot to publish is a new one: it is empty, repeats the summary of main, and has the
    additional entries `closes`.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    publish: str | None = None
    pending: Any | None = field(default=None, repr=False)
    closes: Mapping[str, str] | None = None
    branches: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()


def run_summary(
    *,
    run_id: str,
    scope: Scope,
    sources: Iterable[Mapping[str, Any]],
    fingerprint: str | None,
    schedule_time: datetime | None,
    strategy: str | None,
) -> dict[str, str]:
    """Return the summary of a run's snapshot; *sources* is the source vector that the run read, as JSON.

    *strategy* is how the run computed the rows (`maintenance.strategy.Way`), or None unless it read exactly
    these versions.
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
    """Return the summary of a snapshot that changes no rows; *summary* is that of main, which may expire
    first.
    """
    return {key: value for key, value in summary.items() if key in _REPEATED or key.startswith(STATE)}


def batch_summary(batch: int | None) -> dict[str, str]:
    """Return the summary entry for the batch of a run; *batch* is None for a run that publishes once."""
    return {} if batch is None else {BATCH: str(batch)}


def late_summary(late: Scope | None, doubted: DoubtedPartitions | None = None) -> dict[str, str]:
    """Return the summary entries for the partitions that a run leaves *late* or *doubted*.

    *late* is None if the run did not check.
    """
    if late is None:
        return {}
    return {LATE: json.dumps(late.to_json())} | ({DOUBTED: json.dumps(doubted.to_json())} if doubted else {})


def in_vain_summary(in_vain: InVain | None) -> dict[str, str]:
    """Return the summary entry that counts one more recomputation since the attempt *in_vain*.

    *in_vain* is None if there was no such attempt.
    """
    return (
        {}
        if in_vain is None
        else {IN_VAIN: json.dumps(asdict(replace(in_vain, recomputed=in_vain.recomputed + 1)))}
    )


def publish_name(run_id: str, batch: int | None) -> str:
    """Return the value of `last-run` after a run, or one of its batches, was published."""
    return run_id if batch is None else f"{run_id}/{batch}"


def state_table_name(table_id: str, stage: str = "") -> str:
    """Return the name of the table that keeps the state of a stage, or how the names of all these begin."""
    return f"{_STATE_TABLE}{table_id.replace('-', '')}_{stage}"


def is_state_table(name: str) -> bool:
    """Return whether a table with this name may keep a state; the property STATE_OF says whether it does."""
    return re.fullmatch(STATE_TABLE_NAME, name) is not None


def state_summary(states: Mapping[str, str]) -> dict[str, str]:
    """Return the summary entries that name the snapshots of state tables, keyed by stage."""
    return {f"{STATE}{stage}": snapshot for stage, snapshot in states.items()}


def states_property(publish: str, texts: Mapping[str, str]) -> str:
    """Return the value of the property of tiny states: their *texts*, keyed by stage, after *publish*.

    It is set even if there are none, as long as the table has states. Another form of the texts needs other
    names of stages, by which earlier releases leave them alone.
    """
    body = {"version": 1, "publish": publish, "states": dict(texts)}
    return json.dumps(body, separators=(",", ":"))


def tiny_states(properties: Mapping[str, str], describing: Snapshot) -> dict[str, str]:
    """Return the texts of the tiny states of a table, keyed by stage.

    *describing* is the latest snapshot of main that describes its rows. There are none if the property was
    set by another publish: main was rolled back, or another writer has changed the rows.
    """
    body = json.loads(properties.get(STATES) or "{}")
    is_of_main = describing.publish_name is not None and body.get("publish") == describing.publish_name
    return body["states"] if is_of_main else {}


def is_run_branch(name: str) -> bool:
    """Return whether a branch belongs to a run or a compaction of release 0.1.0."""
    return name.startswith(_BRANCH_PREFIX)
