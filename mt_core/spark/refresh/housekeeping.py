"""Housekeeping of storage tables: expiring snapshots, removing orphan files and compacting small files.

Compaction must not block refreshes, and a refresh must not discard the work of a compaction. Rewritten
files are therefore staged like the rows of a run, and published by a commit that moves main. If the table has
changed in the meantime, `restage` repeats the commit on the new main without rewriting the files.

Rewritten files get a new sequence number, so that older delete files no longer apply to them. If the table
uses equality deletes, concurrent batches may still delete by key. The files then keep their old sequence
number, and delete files that can no longer match any data file are removed in the same commit. The summary
of the previous snapshot is repeated, so that a compaction does not hide what the last run recorded.

The state tables of a table are maintained with it. A state is kept as long as any snapshot of the table names
it, whatever its age.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import col, collect_list, count_if, when
from pyspark.sql.functions import min as least

from mt_core.errors import CommitConflict
from mt_core.model.storage import TABLE_ID, StorageMetadata, repeated_summary
from mt_core.model.table import TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import REFRESH_POOL
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes
from mt_core.spark.driver.jvm_objects import own_class, static_member, text_map
from mt_core.spark.files.catalog_files import prefix_io
from mt_core.spark.iceberg.held_commit import HeldCommit
from mt_core.spark.iceberg.metadata import Base, facts_of, metadata_of
from mt_core.spark.states.state_upkeep import names_of_states, state_tables
from mt_core.tables.engine import Fragments, Staged, TableHousekeeping

SMALL_BYTES = 16 * 1024 * 1024
_EXPIRIES, _MOVED = 3, "java.util.ConcurrentModificationException"
_EXPIRING, _REST = "freshtable.iceberg.ExpiringTable", "org.apache.iceberg.rest."
_DELETED = 2
_TARGET_BYTES = "write.target-file-size-bytes"
_BY_KEY = 2
_NUMBERED_AS_BEFORE = "use-starting-sequence-number"
# With a new sequence number, the files are newer than all delete files, which can then be removed. This is
# safe if no commit can add a delete in the meantime.
_REWRITE = {"min-input-files": "2", "delete-file-threshold": "1", _NUMBERED_AS_BEFORE: "false"}


class Housekeeping(TableHousekeeping):
    """Maintains tables. The caller must have claimed the table.

    No claim is needed for `has_expired`, `fragments` and `rewrite_files`.
    """

    def __init__(self, spark: SparkContexts) -> None:
        self._spark = spark

    def has_expired(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> bool:
        with self._spark.working():
            return bool(_old_snapshots(self._spark.catalogs.load_table(identifier), older_than) - set(keep))

    def expire(self, identifier: TableIdentifier, older_than: datetime, keep: Collection[str]) -> None:
        with self._spark.working() as session:
            self._retry(identifier, lambda table: self._expire(session, table, older_than, keep))
            table = self._spark.catalogs.load_table(identifier)
            table_id = table.properties().get(TABLE_ID)
            if table_id is not None:
                named = names_of_states(session, table)
                for name, _ in state_tables(self._spark, identifier, table_id):
                    self._retry(name, partial(self._expire_states, session, name, older_than, named))

    def _retry(self, identifier: TableIdentifier, expire: Callable[[Any], None]) -> None:
        """Load a table and *expire* snapshots of it; repeat this if main has moved."""
        for attempt in range(1, _EXPIRIES + 1):
            try:
                expire(self._spark.catalogs.load_table(identifier))
            except SPARK_ERRORS as cause:
                if java_classes(cause)[:1] != (_MOVED,):
                    raise
                if attempt == _EXPIRIES:
                    moved = f"{identifier} was changed by another commit; try again."
                    raise CommitConflict(moved) from cause
            else:
                return

    def _expire_states(
        self, session: SparkSession, name: TableIdentifier, older_than: datetime, named: Set[str], table: Any
    ) -> None:
        """Expire the old states of a state table but those *named*; drop it if it is old and none is named.

        A rollback of the materialized table may return to each snapshot that names a state.
        """
        snapshots = {str(each.snapshotId()) for each in table.snapshots()}
        # A run creates a table some time before its first snapshot.
        is_old = table.operations().current().lastUpdatedMillis() < _millis(older_than)
        if is_old and named.isdisjoint(snapshots):
            self._spark.table_catalogs.drop(name, table, with_files=True)
        elif old := _old_snapshots(table, older_than) - named:
            _expire_by_id(_expiring(session, table).expireSnapshots(), old)

    def _expire(self, session: SparkSession, table: Any, older_than: datetime, keep: Collection[str]) -> None:
        expiry, limit = _expiring(session, table).expireSnapshots(), _millis(older_than)
        retained = [table.snapshot(int(each)) for each in keep]
        if all(each is None or each.timestampMillis() >= limit for each in retained):
            expiry.expireOlderThan(limit).retainLast(1).commit()
            return
        # Expiry by age would remove the retained snapshots too. Expiry by id is slower, because Iceberg
        # reads all manifests to find unused files.
        _expire_by_id(expiry, _old_snapshots(table, older_than).difference(keep))

    def remove_orphans(self, identifier: TableIdentifier, older_than: datetime) -> None:
        with self._spark.working() as session:
            table = self._spark.catalogs.load_table(identifier)
            table_id = table.properties().get(TABLE_ID)
            states = () if table_id is None else state_tables(self._spark, identifier, table_id)
            for each in (table, *(state for _, state in states)):
                _remove_orphans(session, each, older_than)

    def fragments(self, identifier: TableIdentifier) -> Fragments:
        with (
            self._spark.driver.run_tagged(uuid4().hex, REFRESH_POOL, f"files of {identifier}"),
            self._spark.working() as session,
        ):
            limit = _small_bytes(text_map(session, self._spark.catalogs.load_table(identifier).properties()))
            entries = session.table(f"{identifier.sql}.entries").where(col("status") != _DELETED)
            named = entries.select("sequence_number", "data_file.*")
            is_data = col("content") == 0
            # Equality deletes apply only to older files, position deletes also to files of their own commit.
            newest = col("sequence_number") - when(col("content") == _BY_KEY, 1).otherwise(0)
            counted = named.groupBy("partition" if "partition" in named.columns else "spec_id").agg(
                count_if(is_data & (col("file_size_in_bytes") < limit)),
                least(when(is_data, col("sequence_number"))),
                collect_list(when(~is_data, newest)),
            )
            places = [(row[1], row[2], row[3]) for row in counted.collect()]
        # A rewrite does not remove delete files that are older than all data files of their partition. Do not
        # count them, because the table would be compacted again and again.
        deletes = [
            each for _, oldest, newest in places if oldest is not None for each in newest if each >= oldest
        ]
        return Fragments(
            small_files=sum(max(small - 1, 0) for small, _, _ in places), delete_files=len(deletes)
        )

    def rewrite_files(self, identifier: TableIdentifier, job_id: str) -> Staged | None:
        description = f"compaction of {identifier}"
        with (
            self._spark.driver.run_tagged(job_id, REFRESH_POOL, description),
            self._spark.working() as session,
        ):
            metadata = metadata_of(session, self._spark.catalogs.load_table(identifier))
            commit = _commit(session, identifier, metadata)
            actions = static_member(session, "org.apache.iceberg.spark.actions.SparkActions.get")
            action = actions(session._jsparkSession).rewriteDataFiles(commit.table)
            options = _REWRITE | {
                "min-file-size-bytes": str(_small_bytes(text_map(session, commit.table.properties())))
            }
            base: Base = metadata.base
            if int(base.summary.get("total-equality-deletes") or 0):
                # Concurrent batches may commit equality deletes, which must also apply to the rewritten
                # files.
                options[_NUMBERED_AS_BEFORE] = "true"
            for key, value in options.items():
                action = action.option(key, value)
            for key, value in commit.summary.items():
                action = action.snapshotProperty(key, value)
            action.execute()
            if commit.pending is None:
                return None
            if options[_NUMBERED_AS_BEFORE] == "true":
                idle = _idle_deletes(session, commit.table)
                if idle:
                    return _staged_again(session, identifier, metadata, commit.pending, idle)
            return _staged(commit, metadata)

    def restage(self, identifier: TableIdentifier, staged: Staged) -> Staged:
        with self._spark.working() as session:
            metadata = metadata_of(session, self._spark.catalogs.load_table(identifier))
            return _staged_again(session, identifier, metadata, staged.pending)


def _remove_orphans(session: SparkSession, table: Any, older_than: datetime) -> None:
    actions = static_member(session, "org.apache.iceberg.spark.actions.SparkActions.get")
    orphans = actions(session._jsparkSession).deleteOrphanFiles(table)
    # Another FileIO may write to a store in which Hadoop cannot list files.
    lists_by_prefix = prefix_io(session, table) is not None
    orphans.usePrefixListing(lists_by_prefix).olderThan(_millis(older_than)).execute()


def _expire_by_id(expiry: Any, snapshots: Collection[str]) -> None:
    for snapshot_id in snapshots:
        expiry.expireSnapshotId(int(snapshot_id))
    expiry.expireOlderThan(0).commit()


def _expiring(session: SparkSession, table: Any) -> Any:
    """Return *table* for one expiry, which fails if main has moved since the table was read.

    JdbcCatalog compares all metadata.
    """
    operations = str(table.operations().getClass().getName())
    return own_class(session, _EXPIRING).of(table) if operations.startswith(_REST) else table


def _idle_deletes(session: SparkSession, table: Any) -> list[Any]:
    """Return the equality delete files of main that no longer match any data file.

    They are older than all data files of their partition.
    """
    kind = static_member(session, "org.apache.iceberg.MetadataTableType.ENTRIES")
    load = static_member(session, "org.apache.iceberg.spark.SparkTableUtil.loadMetadataTable")
    entries = DataFrame(load(session._jsparkSession, table, kind), session)
    named = entries.where(col("status") != _DELETED).select("sequence_number", "data_file.*")
    places = Window.partitionBy("partition" if "partition" in named.columns else "spec_id")
    oldest = least(when(col("content") == 0, col("sequence_number"))).over(places)
    by_key = named.withColumn("oldest", oldest).where(col("content") == _BY_KEY)
    idle = by_key.where("oldest IS NULL OR sequence_number <= oldest").select("file_path").collect()
    paths = {row[0] for row in idle}
    read = static_member(session, "org.apache.iceberg.ManifestFiles.readDeleteManifest")
    files: list[Any] = []
    for manifest in table.currentSnapshot().deleteManifests(table.io()) if paths else ():
        reader = read(manifest, table.io(), table.specs())
        files += [file.copy() for file in reader.iterator() if file.location() in paths]
        reader.close()
    return files


def _commit(session: SparkSession, identifier: TableIdentifier, metadata: StorageMetadata) -> HeldCommit:
    """Return a commit that follows main and repeats its summary."""
    base: Base = metadata.base
    return HeldCommit.on(session, identifier, metadata, metadata.main, repeated_summary(base.summary))


def _staged(commit: HeldCommit, metadata: StorageMetadata) -> Staged:
    pending = commit.pending
    return Staged(snapshot=facts_of(commit.session, pending), metadata=metadata, pending=pending)


def _staged_again(
    session: SparkSession,
    identifier: TableIdentifier,
    metadata: StorageMetadata,
    written: Any,
    others: Sequence[Any] = (),
) -> Staged:
    """Repeat the rewrite of snapshot *written* on main. Files in *others* are also removed."""
    commit = _commit(session, identifier, metadata)
    files, change = commit.table.io(), commit.table.newRewrite().validateFromSnapshot(written.parentId())
    for file in (*written.removedDataFiles(files), *written.removedDeleteFiles(files), *others):
        change = change.deleteFile(file)
    for file in written.addedDataFiles(files):
        if file.dataSequenceNumber() < written.sequenceNumber():
            change = change.dataSequenceNumber(file.dataSequenceNumber())
        change = change.addFile(file)
    commit.make(change, removes=True)
    return _staged(commit, metadata)


def _old_snapshots(table: Any, older_than: datetime) -> set[str]:
    """Return the snapshots of an Iceberg table before *older_than* that no branch or tag references."""
    referenced = {str(ref.snapshotId()) for ref in table.refs().values()}
    limit = _millis(older_than)
    old = {str(each.snapshotId()) for each in table.snapshots() if each.timestampMillis() < limit}
    return old - referenced


def _small_bytes(properties: Mapping[str, str]) -> int:
    """Return the size, in bytes, below which a file counts as small."""
    return min(SMALL_BYTES, int(properties.get(_TARGET_BYTES) or SMALL_BYTES) * 3 // 4)


def _millis(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
