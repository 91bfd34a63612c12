"""Iceberg tables as sinks of a stream: each batch is published exactly once, as one commit.

The problem is the same as in a refresh: a writer may be replaced while it works, and other writers may commit
in the meantime. The fence is the same too (`mt_core.model.fence`): the table's properties contain one mark
per job, with the number of the attempt that has the table open and the last published batch. A batch is
staged on the attempt's branch. Then one metadata swap checks the mark, makes the snapshot current and stores
the batch number. A batch is therefore published exactly once, and an attempt that was replaced can stage but
not publish.

If other writers commit to main, a batch that only adds rows is not affected: its staged files are appended
to the new main without being rewritten. A batch that replaces rows by key was computed against one version
of the table, so it must be computed again (`_Overtaken`), up to MAX_CONFLICTS times. On the first try, its
snapshot is left pending and added by the swap itself, which saves a commit. On later tries it is on the
branch, where it survives the commits of other writers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.errors import CommitConflict, StorageMissing, TableProtected, Unsupported
from mt_core.incremental.changes import ADDED_FILES
from mt_core.model.fence import MAX_CONFLICTS, Fenced, StreamWriter, carried_out
from mt_core.model.storage import BATCH, JOB_ID, TABLE_ID, MetadataChange, StorageMetadata
from mt_core.model.stream_plan import IcebergTarget
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.storage_catalogs import Catalogs
from mt_core.spark.connectors.key_changes import computed_changes
from mt_core.spark.connectors.sink import PUBLISHED, Check, Sink, SinkAttempt, shaped, stored
from mt_core.spark.connectors.stream_errors import NEW_JOB, StreamBroken
from mt_core.spark.driver.jvm_objects import active_session, java_items, text_map
from mt_core.spark.iceberg.branch_commit import BranchCommit
from mt_core.spark.iceberg.metadata import Base, commit, metadata_of
from mt_core.spark.iceberg.replace_rows import AddedRows, DeleteModes, replace_rows
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.streams.sources.starts import uuid_of

# Iceberg's own summary key. Snapshot expiration retains files that are shared with this later snapshot.
_SAME_FILES_AS = "source-snapshot-id"
_ADDED_ROWS = "added-records"
_Change = Callable[[StorageMetadata], MetadataChange | None]


class IcebergSink(Sink):
    """One attempt of a job to write a table, which must have *uuid* unless that is None.

    The table is opened, published and closed as described in `mt_core.model.fence`. With *keys*, columns of
    the table, a row replaces the row with the same key. Raises Spark's errors, and StreamBroken if the
    table was dropped or recreated.
    """

    guarantee = "each batch once, as one commit"

    def __init__(
        self, table: TableIdentifier, attempt: SinkAttempt, uuid: str | None = None, keys: Sequence[str] = ()
    ) -> None:
        self.table, self._uuid, self._keys = table, uuid, tuple(keys)
        self._catalogs, self._job_id = attempt.catalogs, attempt.job_id
        self._writer = StreamWriter.of(attempt.job_id, attempt.number)

    # ----------------------------------------------------------------------------------------------- attempts

    def open(self) -> None:
        """Take over the table: no earlier attempt can publish afterwards.

        Raises CommitConflict if a later attempt has opened it.
        """
        table = self._load()
        if table.currentSnapshot() is None:
            # A branch needs a snapshot as its start.
            table.newAppend().set(JOB_ID, self._job_id).commit()

        def opened(metadata: StorageMetadata) -> MetadataChange:
            self.batch = self._writer.mark_of(metadata.properties).published
            return self._writer.open(metadata)

        self._carry_out("open", opened)

    def close(self) -> None:
        """Prevent every attempt from publishing. Does nothing if the table does not exist."""

        def closed(metadata: StorageMetadata) -> MetadataChange | None:
            is_open = self._writer.mark_of(metadata.properties).number is not None
            return self._writer.close(metadata) if is_open else None

        with suppress(StreamBroken):
            self._carry_out("close", closed)

    def forget(self) -> None:
        """Remove the job's mark from the table. Does nothing if the mark or the table does not exist."""

        def forgotten(metadata: StorageMetadata) -> MetadataChange | None:
            return self._writer.forget(metadata) if self._writer.is_known(metadata) else None

        with suppress(StreamBroken):
            self._carry_out("forget", forgotten)

    # ------------------------------------------------------------------------------------------------ batches

    def last_batch(self) -> int | None:
        """Return the last batch of the job in the table, or None before the first batch."""
        return self._writer.mark_of(self._read().properties).published

    def rows(self) -> int | None:
        """Return the row count of the table, or None if it does not have the job's first batch."""
        try:
            metadata = self._read()
        except StreamBroken:
            return None
        if self._writer.mark_of(metadata.properties).published is None:
            return None
        newest = metadata.base.newest
        return 0 if newest is None else int(newest.total_rows)

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        """Write *rows* to the attempt's branch, publish the branch as main, and return the number of rows."""
        check("write")
        summary = {JOB_ID: self._job_id, BATCH: str(batch)}
        if self._keys:
            count = self._publish_changes(rows, batch, summary, check)
        else:
            staging = self._branch_commit(rows.sparkSession, self._load(), summary, None)
            replace_rows(staging, AddedRows(rows=shaped(rows, self.table.sql)), None)
            staged = self._staged(staging)
            facts = {} if staged is None else staged.facts
            self._publish(staged if ADDED_FILES in facts else None, batch, summary, check)
            count = int(facts.get(_ADDED_ROWS) or 0)
        check(PUBLISHED)
        self.batch = batch
        return count

    def _publish_changes(self, rows: DataFrame, batch: int, summary: Mapping[str, str], check: Check) -> int:
        """Replace the rows with the keys of *rows*. Starts over if another writer commits meanwhile."""
        with computed_changes(stored(rows, self.table.sql), self._keys, str(self.table)) as changes:
            if changes is None:
                self._publish(None, batch, summary, check)
                return 0
            keys, session = changes.all_keys(), rows.sparkSession
            for number in range(MAX_CONFLICTS):
                begun = self._branch_at_main()
                # Only the first try is left pending: a snapshot on the branch survives the commits of other
                # writers.
                table, base = begun.base.table, begun.main
                staging = self._branch_commit(session, table, summary, base, leaves_pending=not number)
                with active_session(session), temporary_view(keys.frame) as gone:
                    change = Replacement(keys=changes.keys, values=keys, gone=gone, rows=changes.rows())
                    replace_rows(staging, change, DeleteModes.of(session, table))
                try:
                    self._publish(self._staged(staging), batch, summary, check)
                    return changes.count
                except _Overtaken:
                    continue
        raise self._crowded()

    def _branch_commit(
        self,
        session: SparkSession,
        table: Any,
        summary: Mapping[str, str],
        base: str | None,
        *,
        leaves_pending: bool = False,
    ) -> BranchCommit:
        """Return the commit of a batch to the attempt's branch."""
        return BranchCommit(
            session=session,
            table=table,
            name=self.table,
            branch=self._writer.branch,
            base=base,
            summary=summary,
            leaves_pending=leaves_pending,
        )

    def _branch_at_main(self) -> StorageMetadata:
        """Move the attempt's branch to the main snapshot and return the resulting metadata."""
        begun: StorageMetadata | None = None

        def moved(metadata: StorageMetadata) -> MetadataChange | None:
            nonlocal begun
            self._writer.check_open(metadata)
            begun = metadata if self._writer.is_at_main(metadata) else None
            return None if begun is not None else self._writer.open(metadata)

        for _ in range(MAX_CONFLICTS):
            self._carry_out("open", moved)
            if begun is not None:
                return begun
        raise self._crowded()

    def _staged(self, staging: BranchCommit) -> _Staged | None:
        """Return the staged snapshot, or None if nothing was written.

        For example, nothing is written if the changes delete only keys that the table does not have.
        """
        if staging.pending is not None:
            metadata = metadata_of(self._session, staging.table)
            return _Staged(snapshot=staging.pending, metadata=metadata, pending_on=staging.base)
        metadata = self._read()
        head = metadata.branches.get(self._writer.branch)
        if head is not None and head == staging.base:
            return None
        snapshot = None if head is None else metadata.base.snapshot(head)
        facts = {} if snapshot is None else text_map(self._session, snapshot.summary())
        if any(facts.get(key) != value for key, value in staging.summary.items()):
            raise self._fenced()
        return _Staged(snapshot=snapshot, metadata=metadata, facts=facts)

    def _publish(self, staged: _Staged | None, batch: int, summary: Mapping[str, str], check: Check) -> None:
        """Publish the *staged* snapshot as main, if there is one, and record the batch in the same commit."""

        def published(metadata: StorageMetadata) -> MetadataChange | None:
            check("publish")
            last = self._writer.mark_of(metadata.properties).published
            if last is not None and last >= batch:
                return None
            self._writer.check_open(metadata)
            if staged is None:
                return self._writer.publish(metadata, batch, None)
            added = self._snapshot_to_add(metadata, staged, summary)
            snapshot = staged.snapshot if added is None else added
            return self._writer.publish(metadata, batch, str(snapshot.snapshotId()), pending=added)

        self._carry_out("publish", published, None if staged is None else staged.metadata)

    def _snapshot_to_add(
        self, metadata: StorageMetadata, staged: _Staged, summary: Mapping[str, str]
    ) -> Any | None:
        """Return the snapshot that a publish must add, or None if it is already on the branch.

        It is *staged* if that is pending, or a new snapshot that appends its files to other writers'
        commits. Raises _Overtaken if the batch must be computed again.
        """
        if staged.pending_on is not None:
            # Another writer may have committed before the snapshot was based on this metadata, or after the
            # deleted rows were located.
            if metadata is not staged.metadata or metadata.main != staged.pending_on:
                raise _Overtaken
            return staged.snapshot
        if metadata.main == str(staged.snapshot.parentId()):
            return None
        if self._keys:
            # The deleted rows are positions in the version that the batch read.
            raise _Overtaken
        base: Base = metadata.base
        append = base.table.newAppend().set(_SAME_FILES_AS, str(staged.snapshot.snapshotId()))
        for key, value in summary.items():
            append = append.set(key, value)
        for file in java_items(staged.snapshot.addedDataFiles(base.table.io())):
            append = append.appendFile(file)
        snapshot = append.apply()
        if not base.is_current:
            raise CommitConflict(f"{self.table} was changed while a batch was appended to main.")
        return snapshot

    # ----------------------------------------------------------------------------------------------- metadata

    @property
    def _session(self) -> SparkSession:
        return self._catalogs.session

    def _load(self) -> Any:
        try:
            table = self._catalogs.load_table(self.table)
        except StorageMissing as cause:
            raise StreamBroken(f"Table {self.table}, which the job writes, was dropped.") from cause
        if self._uuid is not None and uuid_of(table) != self._uuid:
            raise StreamBroken(
                f"Table {self.table}, which the job writes, was dropped and created again. {NEW_JOB}"
            )
        return table

    def _read(self) -> StorageMetadata:
        return metadata_of(self._session, self._load())

    def _carry_out(self, step: str, change: _Change, known: StorageMetadata | None = None) -> None:
        """Commit the *change* of the current metadata. After a conflict, retry it on the new metadata."""
        swap = partial(commit, self._session, str(self.table))
        try:
            for _ in carried_out(str(self.table), step, self._read, change, swap, known=known):
                pass
        except Fenced:
            raise self._fenced() from None

    def _crowded(self) -> CommitConflict:
        return CommitConflict(
            f"{self.table} is changed by other commits all the time; the batch will be written again."
        )

    def _fenced(self) -> CommitConflict:
        return CommitConflict(f"Another attempt of job {self._job_id} writes {self.table}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """A snapshot to publish, and the metadata that was read after it was written.

    The snapshot is either on the attempt's branch, with `facts` as its summary, or pending. A pending
    snapshot can be added only to exactly this metadata, and only while main is the snapshot `pending_on`.
    """

    snapshot: Any
    metadata: StorageMetadata
    pending_on: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


class _Overtaken(Exception):
    """Raised if another writer committed after the rows that a batch deletes were located."""


def target_of(catalogs: Catalogs, table: TableIdentifier, keeps: str | None = None) -> IcebergTarget | None:
    """Return a table that a stream may write, or None if it does not exist.

    It may be the materialized table with the id *keeps*. Raises TableProtected for any other materialized
    table, and CatalogUnsupported for a catalog without compare-and-set.
    """
    try:
        loaded = catalogs.load_table(table)
    except StorageMissing:
        return None
    if loaded.properties().get(TABLE_ID) not in (None, keeps):
        raise TableProtected(
            f"{table} is a materialized table, whose rows are those of its query; INSERT into a table.",
            table=str(table),
        )
    columns = [str(field.name()) for field in java_items(loaded.schema().columns())]
    keys = {str(name) for name in java_items(loaded.schema().identifierFieldNames())}
    if not keys <= set(columns):
        raise Unsupported(
            f"{table}: {', '.join(sorted(keys - set(columns)))} of its PRIMARY KEY is in a column, "
            "and a stream replaces rows by whole columns; DROP the identifier field."
        )
    return IcebergTarget(uuid=uuid_of(loaded), keys=tuple(name for name in columns if name in keys))
