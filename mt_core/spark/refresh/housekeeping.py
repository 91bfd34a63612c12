"""Housekeeping of storage tables: expiring snapshots, removing orphan files and compacting small files.

Compaction must not block refreshes, and a refresh must not discard the work of a compaction. Rewritten
files are therefore staged on a branch like the rows of a run, and published by the same fenced swap. If the
table has changed in the meantime, `restage` repeats the commit on the new branch head without rewriting the
files.

Rewritten files get a new sequence number, so that older delete files no longer apply to them. If the table
uses equality deletes, concurrent batches may still delete by key. The files then keep their old sequence
number, and delete files that can no longer match any data file are removed in the same commit. The summary
of the previous snapshot is repeated, so that a compaction does not hide what the last run recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession, Window
from pyspark.sql.functions import col, collect_list, count_if, when
from pyspark.sql.functions import min as least

from mt_core.errors import EngineError
from mt_core.model.storage import repeated_summary
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.storage_catalogs import Catalogs
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import IO_IMPL, REFRESH_POOL
from mt_core.spark.driver.jvm_objects import static_member, text_map
from mt_core.spark.iceberg.metadata import facts_of, metadata_of
from mt_core.tables.engine import Fragments, Rewrite, Staged, TableHousekeeping

SMALL_BYTES = 16 * 1024 * 1024
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
        with self._spark.working():
            table = self._spark.catalogs.load_table(identifier)
            expiry, limit = table.expireSnapshots(), _millis(older_than)
            retained = [table.snapshot(int(each)) for each in keep]
            if all(each is None or each.timestampMillis() >= limit for each in retained):
                expiry.expireOlderThan(limit).retainLast(1).commit()
                return
            # Expiry by age would remove the retained snapshots too. Expiry by id is slower, because Iceberg
            # reads all manifests to find unused files.
            for snapshot_id in _old_snapshots(table, older_than).difference(keep):
                expiry.expireSnapshotId(int(snapshot_id))
            expiry.expireOlderThan(0).commit()

    def remove_orphans(self, identifier: TableIdentifier, older_than: datetime) -> None:
        with self._spark.working() as session:
            table = self._spark.catalogs.load_table(identifier)
            actions = static_member(session, "org.apache.iceberg.spark.actions.SparkActions.get")
            orphans = actions(session._jsparkSession).deleteOrphanFiles(table)
            # A custom FileIO may write to a store in which Hadoop cannot list files.
            lists_by_prefix = bool(self._spark.catalogs.setting(identifier.catalog, IO_IMPL))
            orphans.usePrefixListing(lists_by_prefix).olderThan(_millis(older_than)).execute()

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

    def rewrite_files(self, rewrite: Rewrite) -> Staged:
        description = f"compaction of {rewrite.table}"
        with (
            self._spark.driver.run_tagged(rewrite.job_id, REFRESH_POOL, description),
            self._spark.working() as session,
        ):
            table = self._spark.catalogs.load_table(rewrite.table)
            if table.refs().get(rewrite.branch) is None:
                raise _branch_lost(rewrite)
            actions = static_member(session, "org.apache.iceberg.spark.actions.SparkActions.get")
            action = actions(session._jsparkSession).rewriteDataFiles(table).toBranch(rewrite.branch)
            options = _REWRITE | {
                "min-file-size-bytes": str(_small_bytes(text_map(session, table.properties())))
            }
            summary = text_map(session, table.snapshot(rewrite.branch).summary())
            if int(summary.get("total-equality-deletes") or 0):
                # Concurrent batches may commit equality deletes, which must also apply to the rewritten
                # files.
                options[_NUMBERED_AS_BEFORE] = "true"
            for key, value in options.items():
                action = action.option(key, value)
            for key, value in repeated_summary(summary).items():
                action = action.snapshotProperty(key, value)
            action.execute()
            table.refresh()
            written = table.snapshot(rewrite.branch)
            idle = (
                _idle_deletes(session, table, written, rewrite)
                if options[_NUMBERED_AS_BEFORE] == "true"
                else ()
            )
            if idle:
                table.manageSnapshots().replaceBranch(rewrite.branch, written.parentId()).commit()
                _commit_again(session, table, rewrite, written, idle)
            return _head(self._spark.catalogs, rewrite)

    def restage(self, rewrite: Rewrite, staged: Staged) -> Staged:
        with self._spark.working() as session:
            table = self._spark.catalogs.load_table(rewrite.table)
            written = table.snapshot(int(staged.snapshot.snapshot_id))
            if written is None or table.refs().get(rewrite.branch) is None:
                raise _branch_lost(rewrite)
            _commit_again(session, table, rewrite, written)
            return _head(self._spark.catalogs, rewrite)


def _idle_deletes(session: SparkSession, table: Any, snapshot: Any, rewrite: Rewrite) -> list[Any]:
    """Return the equality delete files of a snapshot that no longer match any data file.

    They are older than all data files of their partition.
    """
    entries = session.sql(f"SELECT * FROM {rewrite.table.sql}.entries VERSION AS OF {snapshot.snapshotId()}")
    named = entries.where(col("status") != _DELETED).select("sequence_number", "data_file.*")
    places = Window.partitionBy("partition" if "partition" in named.columns else "spec_id")
    oldest = least(when(col("content") == 0, col("sequence_number"))).over(places)
    by_key = named.withColumn("oldest", oldest).where(col("content") == _BY_KEY)
    idle = by_key.where("oldest IS NULL OR sequence_number <= oldest").select("file_path").collect()
    paths = {row[0] for row in idle}
    read = static_member(session, "org.apache.iceberg.ManifestFiles.readDeleteManifest")
    files: list[Any] = []
    for manifest in snapshot.deleteManifests(table.io()) if paths else ():
        reader = read(manifest, table.io(), table.specs())
        files += [file.copy() for file in reader.iterator() if file.location() in paths]
        reader.close()
    return files


def _commit_again(
    session: SparkSession, table: Any, rewrite: Rewrite, written: Any, others: Sequence[Any] = ()
) -> None:
    """Repeat the rewrite of snapshot *written* on the branch head. Files in *others* are also removed."""
    files = table.io()
    commit = table.newRewrite().toBranch(rewrite.branch).validateFromSnapshot(written.parentId())
    for file in (*written.removedDataFiles(files), *written.removedDeleteFiles(files), *others):
        commit = commit.deleteFile(file)
    for file in written.addedDataFiles(files):
        if file.dataSequenceNumber() < written.sequenceNumber():
            commit = commit.dataSequenceNumber(file.dataSequenceNumber())
        commit = commit.addFile(file)
    for key, value in repeated_summary(text_map(session, table.snapshot(rewrite.branch).summary())).items():
        commit = commit.set(key, value)
    commit.commit()


def _head(catalogs: Catalogs, rewrite: Rewrite) -> Staged:
    """Return the head of the rewrite's branch as a staged snapshot."""
    session = catalogs.session
    metadata = metadata_of(session, catalogs.load_table(rewrite.table))
    head = metadata.branches.get(rewrite.branch)
    if head is None:
        raise _branch_lost(rewrite)
    return Staged(snapshot=facts_of(session, metadata.base.snapshot(head)), metadata=metadata)


def _branch_lost(rewrite: Rewrite) -> EngineError:
    return EngineError(
        f"Branch {rewrite.branch} of {rewrite.table} was dropped: a refresh has been published."
    )


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
