"""Tables of Iceberg as sinks of a stream: each batch once, as one commit, by the attempt that has opened the table last."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from mt_core.errors import CommitConflict, StorageMissing, TableProtected, Unsupported
from mt_core.identifiers import quote
from mt_core.maintenance.changes import ADDED_FILES
from mt_core.model.storage import BATCH, JOB_ID, STREAM, TABLE_ID
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.lookup import Catalogs
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes
from mt_core.spark.driver.jvm_objects import active_session, java_items, java_map, static_member, text_map, texts
from mt_core.spark.storage.metadata import MAIN
from mt_core.spark.storage.writes import BRANCH_SELECTOR
from mt_core.spark.streams.broken import NEW_JOB, StreamBroken
from mt_core.spark.streams.sinks.key_changes import computed_changes
from mt_core.spark.streams.sinks.keyed_writes import KeyedWrite
from mt_core.spark.streams.sinks.sink import PUBLISHED, Check, Sink, SinkAttempt, shaped, stored
from mt_core.spark.streams.sources.starts import uuid_of

ATTEMPTS = 50
_BRANCH = "stream_"
_METADATA = "org.apache.iceberg.TableMetadata"
_REF = "org.apache.iceberg.SnapshotRef"
# Iceberg's own key: the cleaning of expired snapshots keeps the files that the later snapshot shares with the earlier one.
_SAME_FILES_AS = "source-snapshot-id"
_ADDED_ROWS, _ALL_ROWS = "added-records", "total-records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a table says of a job: the attempt that writes it, None if none may, and the last batch that it has."""

    attempt: int | None = None
    batch: int | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str], job_id: str) -> Record | None:
        """Return the record of a job in the properties of a table, None without one."""
        text = properties.get(STREAM + job_id)
        if text is None:
            return None
        body = json.loads(text)
        return cls(attempt=body["attempt"], batch=body["batch"])

    def text(self) -> str:
        # Each text is another one: Iceberg leaves out a commit that changes nothing, and then an earlier one that is still on
        # its way could land afterwards.
        return json.dumps({"version": 1, "attempt": self.attempt, "batch": self.batch, "nonce": uuid4().hex})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """The metadata of a table that a commit begins with."""

    table: Any
    operations: Any
    metadata: Any
    properties: Mapping[str, str]


class IcebergSink(Sink):
    """One attempt of one job on a table, the one with that *uuid* if there is one.

    With *keys*, columns of the table, a row replaces the one with the same key. Raises errors of Spark as they are, and
    StreamBroken if the table is gone.
    """

    guarantee = "each batch once, as one commit"

    def __init__(
        self, table: TableIdentifier, attempt: SinkAttempt, uuid: str | None = None, keys: Sequence[str] = ()
    ) -> None:
        self.table, self._uuid, self._keys = table, uuid, tuple(keys)
        self._catalogs, self._job_id, self._attempt = attempt.catalogs, attempt.job_id, attempt.number
        self._branch = f"{_BRANCH}{self._job_id}_{self._attempt}"

    # ------------------------------------------------------------------------------------------------------- attempts

    def open(self) -> None:
        """Take the table over: no earlier attempt can publish from then on. Raises CommitConflict if a later one has."""
        table = self._load()
        if table.currentSnapshot() is None:
            # A branch needs a snapshot to begin at.
            table.newAppend().set(JOB_ID, self._job_id).commit()

        def opened(base: _Base, builder: Any) -> None:
            record = Record.of(base.properties, self._job_id) or Record()
            if record.attempt is not None and record.attempt > self._attempt:
                raise self._fenced()
            self._drop_branches(base, builder)
            main = base.metadata.currentSnapshot().snapshotId()
            builder.setRef(self._branch, static_member(self._session, f"{_REF}.branchBuilder")(main).build())
            self._set(builder, Record(attempt=self._attempt, batch=record.batch))
            self.batch = record.batch

        self._commit(opened)

    def close(self) -> None:
        """Let no attempt publish any more; harmless if the table is gone."""

        def closed(base: _Base, builder: Any) -> None:
            record = Record.of(base.properties, self._job_id)
            if record is None or record.attempt is None:
                raise _Unchanged
            self._drop_branches(base, builder)
            self._set(builder, Record(batch=record.batch))

        self._commit_if_there(closed)

    def forget(self) -> None:
        """Remove all that the table says of the job; harmless if it says nothing, or is gone."""

        def forgotten(base: _Base, builder: Any) -> None:
            if Record.of(base.properties, self._job_id) is None:
                raise _Unchanged
            self._drop_branches(base, builder)
            builder.removeProperties(java_map(self._session, {STREAM + self._job_id: ""}).keySet())

        self._commit_if_there(forgotten)

    # -------------------------------------------------------------------------------------------------------- batches

    def last_batch(self) -> int | None:
        """Return the last batch of the job that the table has, None before the first."""
        record = Record.of(text_map(self._session, self._load().properties()), self._job_id)
        return None if record is None else record.batch

    def rows(self) -> int | None:
        """Return how many rows the table has, None if there is none that has the job's first batch."""
        try:
            table = self._load()
        except StreamBroken:
            return None
        record, snapshot = Record.of(text_map(self._session, table.properties()), self._job_id), table.currentSnapshot()
        if record is None or record.batch is None:
            return None
        return 0 if snapshot is None else int(text_map(self._session, snapshot.summary()).get(_ALL_ROWS) or 0)

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        """Write *rows* to the attempt's branch, make it main, and return how many rows that were."""
        check("write")
        summary = {JOB_ID: self._job_id, BATCH: str(batch)}
        if self._keys:
            count = self._publish_changes(rows, batch, summary, check)
        else:
            rows = shaped(rows, self.table.sql)
            writer = rows.writeTo(self._branch_sql)
            for key, value in summary.items():
                writer = writer.option(f"snapshot-property.{key}", value)
            writer.append()
            staged, facts = self._staged(summary)
            self._publish(staged if ADDED_FILES in facts else None, batch, summary, check)
            count = int(facts.get(_ADDED_ROWS) or 0)
        check(PUBLISHED)
        self.batch = batch
        return count

    def _publish_changes(self, rows: DataFrame, batch: int, summary: Mapping[str, str], check: Check) -> int:
        """Replace the rows of the keys that *rows* change; all of it again if others have committed in the meantime."""
        with computed_changes(stored(rows, self.table.sql), self._keys, str(self.table)) as changes:
            if changes is None:
                self._publish(None, batch, summary, check)
                return 0
            for _ in range(ATTEMPTS):
                main = self._branch_at_main()
                write = KeyedWrite(
                    session=rows.sparkSession,
                    table=self._load(),
                    base=main,
                    branch=self._branch,
                    branch_sql=self._branch_sql,
                    summary=summary,
                    changes=changes,
                )
                with active_session(rows.sparkSession):
                    write.run()
                written = self._load().snapshot(self._branch)
                # A batch that deletes keys which the table does not have may write nothing.
                is_written = written is None or written.snapshotId() != main
                try:
                    self._publish(self._staged(summary)[0] if is_written else None, batch, summary, check)
                    return changes.count
                except _Overtaken:
                    continue
        raise self._crowded()

    def _branch_at_main(self) -> int:
        """Let the attempt's branch begin at the main snapshot, and return that."""
        main = 0

        def moved(base: _Base, builder: Any) -> None:
            nonlocal main
            record = Record.of(base.properties, self._job_id)
            if record is None or record.attempt != self._attempt:
                raise self._fenced()
            main = base.metadata.currentSnapshot().snapshotId()
            branch = base.metadata.ref(self._branch)
            if branch is not None and branch.snapshotId() == main:
                raise _Unchanged
            builder.setRef(self._branch, static_member(self._session, f"{_REF}.branchBuilder")(main).build())

        self._commit(moved)
        return main

    def _staged(self, summary: Mapping[str, str]) -> tuple[Any, Mapping[str, str]]:
        """Return the snapshot of the branch, and what it says of itself: it is of the batch of *summary*."""
        staged = self._load().snapshot(self._branch)
        facts = {} if staged is None else text_map(self._session, staged.summary())
        if any(facts.get(key) != value for key, value in summary.items()):
            raise self._fenced()
        return staged, facts

    def _publish(self, staged: Any, batch: int, summary: Mapping[str, str], check: Check) -> None:
        """Make main the *staged* snapshot, if there is one, and note the batch in the same commit."""

        def published(base: _Base, builder: Any) -> None:
            check("publish")
            record = Record.of(base.properties, self._job_id) or Record()
            if record.batch is not None and record.batch >= batch:
                raise _Unchanged
            if record.attempt != self._attempt:
                raise self._fenced()
            if staged is not None:
                self._set_main(base, builder, staged, summary)
            self._set(builder, Record(attempt=self._attempt, batch=batch))

        self._commit(published)

    def _set_main(self, base: _Base, builder: Any, staged: Any, summary: Mapping[str, str]) -> None:
        """Make main the staged snapshot; if others have committed since it began, a new one with the same files on theirs."""
        session, current = self._session, base.metadata.ref(MAIN)
        if current is not None and current.snapshotId() == staged.parentId():
            ref = static_member(session, f"{_REF}.builderFrom")(current, staged.snapshotId())
            builder.setRef(MAIN, ref.build())
            return
        if self._keys:
            # The rows that it deletes are those of the version that it read.
            raise _Overtaken
        append = base.table.newAppend().set(_SAME_FILES_AS, str(staged.snapshotId()))
        for key, value in summary.items():
            append = append.set(key, value)
        for file in java_items(staged.addedDataFiles(base.table.io())):
            append = append.appendFile(file)
        snapshot = append.apply()
        if base.operations.current().metadataFileLocation() != base.metadata.metadataFileLocation():
            raise _Moved
        builder.setBranchSnapshot(snapshot, MAIN)
        builder.setRef(self._branch, static_member(session, f"{_REF}.branchBuilder")(snapshot.snapshotId()).build())

    # ------------------------------------------------------------------------------------------------------- metadata

    @property
    def _session(self) -> SparkSession:
        return self._catalogs.session

    def _load(self) -> Any:
        try:
            table = self._catalogs.load_table(self.table)
        except StorageMissing as cause:
            raise StreamBroken(f"Table {self.table}, which the job writes, was dropped.") from cause
        if self._uuid is not None and uuid_of(table) != self._uuid:
            raise StreamBroken(f"Table {self.table}, which the job writes, was dropped and created again. {NEW_JOB}")
        return table

    def _commit(self, change: Callable[[_Base, Any], None]) -> None:
        """Apply *change* to the current metadata, until no other commit comes between; it raises `_Unchanged` for none."""
        for _ in range(ATTEMPTS):
            table = self._load()
            operations = table.operations()
            metadata = operations.current()
            properties = text_map(self._session, metadata.properties())
            base = _Base(table=table, operations=operations, metadata=metadata, properties=properties)
            builder = static_member(self._session, f"{_METADATA}.buildFrom")(metadata)
            try:
                change(base, builder)
                operations.commit(metadata, builder.build())
                return
            except _Unchanged:
                return
            except _Moved:
                continue
            except SPARK_ERRORS as cause:
                # Also for a commit whose outcome is unknown: the record in the next metadata says it.
                if not java_classes(cause)[:1] or not java_classes(cause)[0].startswith(
                    "org.apache.iceberg.exceptions.Commit"
                ):
                    raise
        raise self._crowded()

    def _commit_if_there(self, change: Callable[[_Base, Any], None]) -> None:
        try:
            self._commit(change)
        except StreamBroken:
            return

    def _set(self, builder: Any, record: Record) -> None:
        builder.setProperties(java_map(self._session, {STREAM + self._job_id: record.text()}))

    def _drop_branches(self, base: _Base, builder: Any) -> None:
        for name in texts(self._session, base.metadata.refs().keySet()):
            if name.startswith(f"{_BRANCH}{self._job_id}_"):
                builder.removeRef(name)

    @property
    def _branch_sql(self) -> str:
        return ".".join((self.table.sql, quote(BRANCH_SELECTOR + self._branch)))

    def _crowded(self) -> CommitConflict:
        return CommitConflict(f"{self.table} is changed by other commits all the time; the batch is written again.")

    def _fenced(self) -> CommitConflict:
        return CommitConflict(f"Another attempt of job {self._job_id} writes {self.table}.")


class _Unchanged(Exception):
    """There is nothing to commit."""


class _Moved(Exception):
    """Another commit came between."""


class _Overtaken(Exception):
    """Others have committed since the rows that a batch deletes were found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTarget:
    """What a job keeps of a table that it writes: its uuid, and the columns of its primary key."""

    uuid: str
    keys: tuple[str, ...]


def target_of(catalogs: Catalogs, table: TableIdentifier, keeps: str | None = None) -> IcebergTarget | None:
    """Return a table that a stream may write, also the materialized table with the id *keeps*; None if there is no table.

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
            f"{table}: {', '.join(sorted(keys - set(columns)))} of its PRIMARY KEY is in a column, and a stream replaces rows by "
            "whole columns; DROP the identifier field."
        )
    return IcebergTarget(uuid=uuid_of(loaded), keys=tuple(name for name in columns if name in keys))
