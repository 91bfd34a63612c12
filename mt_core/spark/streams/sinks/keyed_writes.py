"""Keyed writes: the key changes of a batch, written to the branch of an Iceberg table by one commit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.spark.driver.jvm_objects import text_map
from mt_core.spark.iceberg.bounds import bounds_of, condition_of
from mt_core.spark.iceberg.branch_commit import BranchCommit
from mt_core.spark.iceberg.computed_rows import Computed
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.row_delta import RowDelta, delta_command
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.iceberg.touched_rows import TableAt, Wanted, touched_rows
from mt_core.spark.iceberg.upserts import is_upserted, upserted
from mt_core.spark.streams.sinks.key_changes import KeyChanges

_ALL_ROWS = "total-records"
_MERGE_MODE, _COPY = "write.merge.mode", "copy-on-write"
_PLACES_VERSION = 2
"""The format version of tables of which rows are deleted by files of positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedWrite:
    """A write of `changes` to a `branch`, by its name alone and, as `branch_sql`, with that of the table.

    `table` is Iceberg's, of which the branch is at the snapshot `base`. The new snapshot has `summary`.
    """

    session: SparkSession
    table: Any
    base: int
    branch: str
    branch_sql: str
    summary: Mapping[str, str]
    changes: KeyChanges

    def run(self) -> None:
        """Write; rows with the keys that change go, those that the keys have now come."""
        rows = self.changes.rows()
        if int(text_map(self.session, self.table.snapshot(self.base).summary()).get(_ALL_ROWS) or 1) == 0:
            self._append(rows.frame)
            return
        keys = self.changes.all_keys()
        with ExitStack() as stack:
            bounds = condition_of(bounds_of(keys, self.changes.keys))
            gone = stack.enter_context(temporary_view(keys.frame))
            replacement = Replacement(keys=self.changes.keys, gone=gone, rows=rows.frame, bounds=bounds)
            by_key = keys.rows is not None and is_upserted(self.session, self.table)
            if by_key and upserted(replacement, self._commit()):
                return
            if not self._in_place(keys, rows):
                replacement.write_into(self.branch_sql, self.summary)

    def _commit(self) -> BranchCommit:
        return BranchCommit(session=self.session, table=self.table, branch=self.branch, summary=self.summary)

    def _append(self, rows: DataFrame) -> None:
        writer = rows.writeTo(self.branch_sql)
        for key, value in self.summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        writer.append()

    def _in_place(self, keys: Computed, rows: Computed) -> bool:
        """Delete the rows of the keys where the files hold them; False, and nothing is written, if the table is not written so."""
        by_job = delta_command(self.session, self.branch_sql) is not None
        by_driver = keys.rows is not None and self._may_delete_places()
        if not by_job and not by_driver:
            return False
        wanted = Wanted(rows=keys, keys=self.changes.keys)
        touched = touched_rows(
            self.session, TableAt(table=self.table, snapshot=str(self.base)), [*self.changes.keys], wanted
        )
        delta = RowDelta(gone=touched, come=rows)
        if delta.written_by_driver(self._commit(), None) is not None:
            return True
        if by_job:
            delta.write_into(self.branch_sql, self.summary)
        return by_job

    def _may_delete_places(self) -> bool:
        """Return whether files of positions delete rows of the table, and its user did not ask for copies of its files."""
        version = self.table.operations().current().formatVersion()
        mode = text_map(self.session, self.table.properties()).get(_MERGE_MODE)
        return version == _PLACES_VERSION and mode != _COPY
