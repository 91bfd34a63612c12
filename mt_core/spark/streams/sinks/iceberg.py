"""Tables of Iceberg as sinks of a stream: each batch once, as one commit, by the attempt
that has opened the table last.
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

# Iceberg's own key: the cleaning of expired snapshots keeps the files that the later snapshot shares
# with the earlier one.
_SAME_FILES_AS = "source-snapshot-id"
_ADDED_ROWS = "added-records"
_Change = Callable[[StorageMetadata], MetadataChange | None]


class IcebergSink(Sink):
    """One attempt of one job on a table, the one with that *uuid* if there is one.

    It opens, publishes and closes the table as `mt_core.model.fence` says. With *keys*, columns of the
    table, a row replaces the one with the same key. Raises errors of Spark as they are, and StreamBroken
    if the table is gone.
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
        """Take the table over: no earlier attempt can publish from then on.

        Raises CommitConflict if a later one has.
        """
        table = self._load()
        if table.currentSnapshot() is None:
            # A branch needs a snapshot to begin at.
            table.newAppend().set(JOB_ID, self._job_id).commit()

        def opened(metadata: StorageMetadata) -> MetadataChange:
            self.batch = self._writer.mark_of(metadata.properties).published
            return self._writer.open(metadata)

        self._carry_out("open", opened)

    def close(self) -> None:
        """Let no attempt publish any more; harmless if the table is gone."""

        def closed(metadata: StorageMetadata) -> MetadataChange | None:
            is_open = self._writer.mark_of(metadata.properties).number is not None
            return self._writer.close(metadata) if is_open else None

        with suppress(StreamBroken):
            self._carry_out("close", closed)

    def forget(self) -> None:
        """Remove all that the table says of the job; harmless if it says nothing, or is gone."""

        def forgotten(metadata: StorageMetadata) -> MetadataChange | None:
            return self._writer.forget(metadata) if self._writer.is_known(metadata) else None

        with suppress(StreamBroken):
            self._carry_out("forget", forgotten)

    # ------------------------------------------------------------------------------------------------ batches

    def last_batch(self) -> int | None:
        """Return the last batch of the job that the table has, None before the first."""
        return self._writer.mark_of(self._read().properties).published

    def rows(self) -> int | None:
        """Return how many rows the table has, None if there is none that has the job's first batch."""
        try:
            metadata = self._read()
        except StreamBroken:
            return None
        if self._writer.mark_of(metadata.properties).published is None:
            return None
        newest = metadata.base.newest
        return 0 if newest is None else int(newest.total_rows)

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        """Write *rows* to the attempt's branch, make it main, and return how many rows that were."""
        check("write")
        summary = {JOB_ID: self._job_id, BATCH: str(batch)}
        if self._keys:
            count = self._publish_changes(rows, batch, summary, check)
        else:
            staging = self._branch_commit(rows.sparkSession, self._load(), summary, base=None)
            replace_rows(staging, AddedRows(rows=shaped(rows, self.table.sql)), None)
            staged = self._staged(staging)
            facts = {} if staged is None else staged.facts
            self._publish(staged if ADDED_FILES in facts else None, batch, summary, check)
            count = int(facts.get(_ADDED_ROWS) or 0)
        check(PUBLISHED)
        self.batch = batch
        return count

    def _publish_changes(self, rows: DataFrame, batch: int, summary: Mapping[str, str], check: Check) -> int:
        """Replace the rows of the keys that *rows* change; all of it again if others have committed
        in the meantime.
        """
        with computed_changes(stored(rows, self.table.sql), self._keys, str(self.table)) as changes:
            if changes is None:
                self._publish(None, batch, summary, check)
                return 0
            keys, session = changes.all_keys(), rows.sparkSession
            for number in range(MAX_CONFLICTS):
                begun = self._begun_at_main()
                # A table that others commit to all the time has no snapshot held twice:
                # one on the branch outlasts their commits.
                table, holds = begun.base.table, not number
                staging = self._branch_commit(session, table, summary, base=begun.main, holds=holds)
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
        self, session: SparkSession, table: Any, summary: Mapping[str, str], **options: Any
    ) -> BranchCommit:
        """Return the commit of a batch to the attempt's branch."""
        return BranchCommit(
            session=session,
            table=table,
            name=self.table,
            branch=self._writer.branch,
            summary=summary,
            **options,
        )

    def _begun_at_main(self) -> StorageMetadata:
        """Let the attempt's branch begin at the main snapshot; return the metadata since."""
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
        """Return what was staged; None if nothing was written:
        the table may not have any of the keys of a change.
        """
        if staging.held is not None:
            metadata = metadata_of(self._session, staging.table)
            return _Staged(snapshot=staging.held, metadata=metadata, held_on=staging.base)
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
        """Make main the *staged* snapshot, if there is one, and note the batch in the same commit."""

        def published(metadata: StorageMetadata) -> MetadataChange | None:
            check("publish")
            last = self._writer.mark_of(metadata.properties).published
            if last is not None and last >= batch:
                return None
            self._writer.check_open(metadata)
            if staged is None:
                return self._writer.publish(metadata, batch, None, goes_on=True)
            held = self._held(metadata, staged, summary)
            snapshot = staged.snapshot if held is None else held
            return self._writer.publish(metadata, batch, str(snapshot.snapshotId()), held=held, goes_on=True)

        self._carry_out("publish", published, None if staged is None else staged.metadata)

    def _held(self, metadata: StorageMetadata, staged: _Staged, summary: Mapping[str, str]) -> Any | None:
        """Return the snapshot that a publish has to add: *staged* itself, or its files on top of what
        others have committed.

        None if the branch has it, and it follows main. Raises _Overtaken if it has to be written again.
        """
        if staged.held_on is not None:
            # Others may have committed before it was made on this metadata, and after the rows
            # that it deletes were found.
            if metadata is not staged.metadata or metadata.main != staged.held_on:
                raise _Overtaken
            return staged.snapshot
        if metadata.main == str(staged.snapshot.parentId()):
            return None
        if self._keys:
            # The rows that it deletes are those of the version that it read.
            raise _Overtaken
        base: Base = metadata.base
        append = base.table.newAppend().set(_SAME_FILES_AS, str(staged.snapshot.snapshotId()))
        for key, value in summary.items():
            append = append.set(key, value)
        for file in java_items(staged.snapshot.addedDataFiles(base.table.io())):
            append = append.appendFile(file)
        snapshot = append.apply()
        if not base.is_current:
            raise CommitConflict(f"{self.table} was changed while a batch was put on top of main.")
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
        """Commit what *change* makes of the current metadata, until no other commit comes between."""
        swap = partial(commit, self._session, str(self.table))
        try:
            for _ in carried_out(str(self.table), step, self._read, change, swap, known=known):
                pass
        except Fenced:
            raise self._fenced() from None

    def _crowded(self) -> CommitConflict:
        return CommitConflict(
            f"{self.table} is changed by other commits all the time; the batch is written again."
        )

    def _fenced(self) -> CommitConflict:
        return CommitConflict(f"Another attempt of job {self._job_id} writes {self.table}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """A snapshot to publish, and the metadata as it was read after that.

    It is on the attempt's branch, and `facts` are its summary;
    or it is held, to be added to exactly this metadata while main is the snapshot `held_on`.
    """

    snapshot: Any
    metadata: StorageMetadata
    held_on: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


class _Overtaken(Exception):
    """Others have committed since the rows that a batch deletes were found."""


def target_of(catalogs: Catalogs, table: TableIdentifier, keeps: str | None = None) -> IcebergTarget | None:
    """Return a table that a stream may write, also the materialized table with the id *keeps*;
    None if there is no table.

    Raises TableProtected for a materialized table, CatalogUnsupported for a catalog without compare-and-set.
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
