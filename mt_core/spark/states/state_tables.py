"""State tables: Iceberg tables that keep the states of one materialized table.

A state table has the rows of one stage: an additive log of partial sums. Its name and its property
`freshtable.state-of` contain the id of the materialized table. A snapshot of it is the state of some snapshot
of the materialized table only if the summary of that snapshot names it.

Two processes may write the same state table, of which at most one publishes. So nobody writes to its main: a
write commits a snapshot on a branch of its own, whose parent is exactly the snapshot that was read. The same
commit sets main forward to the snapshot that a publish has named last, and drops the branches that are not
newer: newer ones may be published yet. Main and the branches keep states from the expiry of other engines. A
write that is never published leaves a branch, which the write after the next publish drops, and a snapshot
that no summary names, which expires. docs/design/refresh-protocol.md says what each rule is needed for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.errors import CommitConflict, StorageMissing
from mt_core.incremental.strategy import NotApplied
from mt_core.model.fence import carried_out
from mt_core.model.storage import STATE_GROUPS, STATE_OF, MetadataChange, StorageMetadata, state_table_name
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.catalogs.columns import iceberg_columns, iceberg_schema, sql_type
from mt_core.spark.catalogs.storage_catalogs import ALREADY_EXISTS
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.failures import SPARK_ERRORS, java_classes
from mt_core.spark.driver.jvm_objects import java_map, text_map
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.held_commit import HeldCommit
from mt_core.spark.iceberg.metadata import Base, commit, metadata_of
from mt_core.spark.iceberg.replace_rows import AddedRows, AllRows, replace_rows

MOST_FILES = 20
"""The number of data files of a log above which all rows are written instead of the change."""
MOST_APPENDED = 0.3
"""The share of appended rows in the groups of a log above which all rows are written."""
_BRANCH = "write_"
_DEFAULTS = {
    "format-version": "2",
    "write.distribution-mode": "none",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class StateLost(NotApplied):
    """The state that a run adds to has expired."""

    what = "state"


class StateTable:
    """The state table *name* of the materialized table *of*."""

    def __init__(
        self, spark: SparkContexts, of: TableIdentifier, table_id: str, stage: str, schema: StructType
    ) -> None:
        self._spark, self._of, self._table_id = spark, of, table_id
        self.name = TableIdentifier(of.catalog, of.namespace, state_table_name(table_id, stage))
        self._schema = schema
        self._columns = [Column(name=each.name, type=sql_type(each.dataType)) for each in schema.fields]

    def read(self, session: SparkSession, snapshot: str) -> DataFrame | None:
        """Return the rows of a *snapshot*, or None if the table does not have it, or has other columns."""
        metadata = self._load(session)
        if metadata is None:
            return None
        base: Base = metadata.base
        if base.snapshot(snapshot) is None or not self._fits(session, base):
            return None
        rows = session.sql(f"SELECT * FROM {self.name.sql} VERSION AS OF {snapshot}")
        stored = [col(quote(each.name)).cast(each.dataType).alias(each.name) for each in self._schema]
        return rows.select(*stored)

    def append(self, session: SparkSession, snapshot: str, added: ComputedRows) -> str | None:
        """Add rows to those of *snapshot* and return the new snapshot.

        Returns None if all rows must be written instead. Raises StateLost if the table does not have
        *snapshot*.
        """
        metadata = self._load(session)
        parent = None if metadata is None else metadata.base.snapshot(snapshot)
        if metadata is None or parent is None:
            raise StateLost
        if not added.count():
            return snapshot
        summary = text_map(session, parent.summary())
        rows, files = int(summary.get("total-records") or 0), int(summary.get("total-data-files") or 0)
        groups = int(summary.get(STATE_GROUPS) or rows)
        if files >= MOST_FILES or rows + added.count() - groups > MOST_APPENDED * groups:
            return None
        return self._write(
            session, metadata, snapshot, AddedRows(rows=added), {STATE_GROUPS: str(groups)}, named=snapshot
        )

    def overwrite(
        self,
        session: SparkSession,
        rows: DataFrame | ComputedRows,
        named: Callable[[], str | None],
    ) -> str:
        """Replace all rows, and return the new snapshot.

        *named* returns the snapshot that the history of the materialized table names last, or None. Raises
        CommitConflict if another process has expired it meanwhile.
        """
        metadata = self._load(session)
        if metadata is None or not self._fits(session, metadata.base):
            metadata = self._create(session, metadata)
        last = named() if metadata.branches else None
        if last is not None and metadata.base.snapshot(last) is None:
            last = None
        parent = last or metadata.main
        try:
            return self._write(session, metadata, parent, AllRows(rows=rows), {}, named=last)
        except StateLost as cause:
            raise CommitConflict(f"Snapshot {parent} of {self.name} has expired.") from cause

    def _load(self, session: SparkSession) -> StorageMetadata | None:
        try:
            table = self._spark.catalogs.load_table(self.name)
        except StorageMissing:
            return None
        return metadata_of(session, table)

    def _fits(self, session: SparkSession, base: Base) -> bool:
        expected = iceberg_columns(session, iceberg_schema(session, self._columns))
        return iceberg_columns(session, base.table.schema()) == expected

    def _create(self, session: SparkSession, other: StorageMetadata | None) -> StorageMetadata:
        """Create the table; drop an *other* one with other columns before."""
        if other is not None:
            self._spark.table_catalogs.drop(self.name, other.base.table, with_files=True)
        core = self._spark.catalogs.iceberg_catalog(self.name.catalog)
        properties = {
            **_DEFAULTS,
            STATE_OF: self._table_id,
            "comment": f"Kept state of {self._of}, written by its refreshes. It is dropped with it.",
        }
        try:
            core.buildTable(
                self._spark.catalogs.iceberg_identifier(self.name), iceberg_schema(session, self._columns)
            ).withProperties(java_map(session, properties)).create()
        except SPARK_ERRORS as cause:
            # Another worker was faster.
            if java_classes(cause)[:1] != (ALREADY_EXISTS,):
                raise
        return metadata_of(session, self._spark.catalogs.load_table(self.name))

    def _write(
        self,
        session: SparkSession,
        metadata: StorageMetadata,
        parent: str | None,
        change: AddedRows | AllRows,
        summary: Mapping[str, str],
        *,
        named: str | None,
    ) -> str:
        """Commit *change* as the next snapshot of *parent* on a new branch.

        Sets main to *named*, the snapshot that was published last, unless main is newer.
        """
        written = HeldCommit.on(session, self.name, metadata, parent, summary)
        replace_rows(written, change, None)
        held, number, branch = written.pending, metadata.last_number, f"{_BRANCH}{uuid4().hex}"
        held_parent = held.parentId()
        assert (None if held_parent is None else str(held_parent)) == parent, "a state follows what was read"

        def on_branch(metadata: StorageMetadata) -> MetadataChange | None:
            nonlocal held, number
            if branch in metadata.branches:
                return None
            if parent is not None and metadata.base.snapshot(parent) is None:
                raise StateLost
            if metadata.last_number != number:
                repeated = HeldCommit.on(session, self.name, metadata, parent, summary)
                repeated.repeat(held)
                held, number = repeated.pending, metadata.last_number
            published = _number(metadata, named)
            return MetadataChange(
                publish=named if published > _number(metadata, metadata.main) else None,
                pending=held,
                branches={branch: str(held.snapshotId())},
                drop=tuple(
                    name
                    for name, head in sorted(metadata.branches.items())
                    if name.startswith(_BRANCH) and _number(metadata, head) <= published
                ),
            )

        def read() -> StorageMetadata:
            return metadata_of(session, self._spark.catalogs.load_table(self.name))

        def swap(metadata: StorageMetadata, change: MetadataChange) -> None:
            commit(session, str(self.name), metadata, change)

        for _ in carried_out(str(self.name), "write", read, on_branch, swap, known=metadata):
            pass
        return str(held.snapshotId())


def _number(metadata: StorageMetadata, snapshot: str | None) -> int:
    """Return the sequence number of a snapshot, or 0 if there is none."""
    found = None if snapshot is None else metadata.base.snapshot(snapshot)
    return 0 if found is None else int(found.sequenceNumber())
