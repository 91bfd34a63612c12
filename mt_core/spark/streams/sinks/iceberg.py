"""Iceberg tables as sinks of a stream: each batch is published exactly once, as one commit.

The problem is the same as in a refresh: a writer may be replaced while it works, and other writers may commit
in the meantime. The fence is the same too (`mt_core.model.fence`): the table's properties contain one mark
per job, with the number of the attempt that has the table open and the last published batch. A batch is
written to a pending snapshot. Then one commit checks the mark, adds the snapshot to main, moves the attempt's
branch and stores the batch number. A batch is therefore published exactly once, and an attempt that was
replaced can write but not publish. A batch without rows commits nothing.

If other writers commit to main, a batch that only adds rows is not affected: its files are added to the new
main without being written again. A batch that replaces rows by key was computed against one version of the
table, so it must be computed again (`_Overtaken`), up to MAX_CONFLICTS times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from mt_core.spark.iceberg.held_commit import HeldCommit, discard
from mt_core.spark.iceberg.metadata import commit, metadata_of
from mt_core.spark.iceberg.replace_rows import AddedRows, DeleteModes, replace_rows
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.streams.sources.starts import uuid_of

_ADDED_ROWS = "added-records"
_CHANGED_FILES = (ADDED_FILES, "added-delete-files", "deleted-data-files")
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
        self._writer = StreamWriter(job_id=attempt.job_id, number=attempt.number)

    # ----------------------------------------------------------------------------------------------- attempts

    def open(self) -> None:
        """Take over the table: no earlier attempt can publish afterwards.

        Raises CommitConflict if a later attempt has opened it.
        """

        def begun(metadata: StorageMetadata) -> MetadataChange | None:
            if self._writer.is_begun(metadata):
                return None
            if metadata.main is not None:
                return self._writer.begin(metadata.main)
            # A branch needs a snapshot as its start.
            first = self._commit_on(metadata, self._session, {JOB_ID: self._job_id})
            first.make(first.table.newAppend())
            return self._writer.begin(str(first.pending.snapshotId()), pending=first.pending)

        def opened(metadata: StorageMetadata) -> MetadataChange:
            self.batch = self._writer.mark_of(metadata.properties).published
            return self._writer.open(metadata)

        self._carry_out("begin", begun)
        self._carry_out("open", opened)

    def close(self) -> None:
        """Prevent every attempt from publishing. Does nothing if the table does not exist."""
        with suppress(StreamBroken):
            self._carry_out("close", self._writer.close)

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
        """Write *rows* to a snapshot, publish it as main, and return the number of rows."""
        check("write")
        try:
            count = self._published(rows, batch, {JOB_ID: self._job_id, BATCH: str(batch)}, check)
        except Fenced:
            raise self._fenced() from None
        check(PUBLISHED)
        self.batch = batch
        return count

    def _published(self, rows: DataFrame, batch: int, summary: Mapping[str, str], check: Check) -> int:
        if self._keys:
            return self._publish_changes(rows, batch, summary, check)
        metadata, commit = self._begun(rows.sparkSession, summary)
        replace_rows(commit, AddedRows(rows=shaped(rows, self.table.sql)), None)
        staged = self._staged(metadata, commit)
        self._publish(staged, batch, check)
        return 0 if staged is None else int(staged.facts.get(_ADDED_ROWS) or 0)

    def _publish_changes(self, rows: DataFrame, batch: int, summary: Mapping[str, str], check: Check) -> int:
        """Replace the rows with the keys of *rows*. Starts over if another writer commits meanwhile."""
        with computed_changes(stored(rows, self.table.sql), self._keys, str(self.table)) as changes:
            if changes is None:
                return 0
            keys, session = changes.all_keys(), rows.sparkSession
            for _ in range(MAX_CONFLICTS):
                metadata, commit = self._begun(session, summary)
                with active_session(session), temporary_view(keys.frame) as gone:
                    change = Replacement(keys=changes.keys, values=keys, gone=gone, rows=changes.rows())
                    replace_rows(commit, change, DeleteModes.of(session, commit.table))
                try:
                    self._publish(self._staged(metadata, commit), batch, check)
                    return changes.count
                except _Overtaken:
                    discard(session, metadata.base.table, commit.pending)
        raise CommitConflict(
            f"{self.table} is changed by other commits all the time; the batch will be written again."
        )

    def _begun(self, session: SparkSession, summary: Mapping[str, str]) -> tuple[StorageMetadata, HeldCommit]:
        """Return the commit of a batch, and the metadata that it follows.

        Raises Fenced if another attempt has opened the table.
        """
        metadata = self._read()
        self._writer.check_open(metadata)
        return metadata, self._commit_on(metadata, session, summary)

    def _staged(self, metadata: StorageMetadata, commit: HeldCommit) -> _Staged | None:
        """Return what was written, or None if it changes no rows.

        For example, the changes delete only keys that the table does not have.
        """
        pending = commit.pending
        facts = {} if pending is None else text_map(commit.session, pending.summary())
        if any(key in facts for key in _CHANGED_FILES):
            return _Staged(commit=commit, metadata=metadata, facts=facts)
        if pending is not None:
            discard(commit.session, metadata.base.table, pending)
        return None

    def _commit_on(
        self, metadata: StorageMetadata, session: SparkSession, summary: Mapping[str, str]
    ) -> HeldCommit:
        """Return a commit that follows main."""
        return HeldCommit.on(session, self.table, metadata, metadata.main, summary)

    def _publish(self, staged: _Staged | None, batch: int, check: Check) -> None:
        """Publish the *staged* snapshot as main and record the batch in the same commit.

        A batch that changes no rows is not recorded.
        """
        if staged is None:
            check("publish")
            return

        def published(metadata: StorageMetadata) -> MetadataChange | None:
            check("publish")
            last = self._writer.mark_of(metadata.properties).published
            if last is not None and last >= batch:
                return None
            self._writer.check_open(metadata)
            pending = self._pending_on(metadata, staged)
            return self._writer.publish(metadata, batch, str(pending.snapshotId()), pending=pending)

        self._carry_out("publish", published, staged.metadata)

    def _pending_on(self, metadata: StorageMetadata, staged: _Staged) -> Any:
        """Return the *staged* snapshot as one that follows main.

        Raises _Overtaken if the batch must be computed again.
        """
        before, commit = staged.metadata, staged.commit
        if (metadata.main, metadata.last_number) == (before.main, before.last_number):
            return commit.pending
        if self._keys and metadata.main != before.main:
            # The rows to delete were located in the version that the batch read.
            raise _Overtaken
        again = self._commit_on(metadata, commit.session, commit.summary)
        again.repeat(commit.pending)
        return again.pending

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

    def _fenced(self) -> CommitConflict:
        return CommitConflict(f"Another attempt of job {self._job_id} writes {self.table}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """A commit to publish, the metadata that it follows, and the summary of its snapshot, `facts`."""

    commit: HeldCommit
    metadata: StorageMetadata
    facts: Mapping[str, str]


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
