"""Branch commits: the next snapshot of a branch, written by a Spark job or by the driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

from mt_core.base.identifiers import quote
from mt_core.model.fence import carried_out
from mt_core.model.storage import MetadataChange, StorageMetadata
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.metadata import MAIN, commit, metadata_of
from mt_core.spark.iceberg.written_files import FileWriter

_BRANCH_SELECTOR = "branch_"
_MANIFESTS = "freshtable.iceberg.Manifests"


@dataclass(kw_only=True)
class BranchCommit:
    """One commit to *branch* of the table *name*, which is loaded as *table*.

    The summary of the new snapshot contains the properties *summary*. `base` is the snapshot to which the
    change applies, or None if the change does not depend on it. `options` are passed to Spark's writer. The
    branch is moved to the snapshot `start` before anything is committed to it; if that is None, the caller
    has done so.

    With `leaves_pending`, files written by the driver are not committed. Instead, `pending` is set to
    Iceberg's Snapshot object. It follows main in the metadata that *table* has at that time and has the next
    sequence number, so it can be added only to metadata with the same main and the same last number.
    """

    session: SparkSession
    table: Any
    name: TableIdentifier
    branch: str
    base: str | None
    summary: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    start: str | None = None
    leaves_pending: bool = False
    pending: Any | None = None

    @cached_property
    def files(self) -> FileWriter:
        """The driver's file writer for the table."""
        return FileWriter.of(self.session, self.table)

    @cached_property
    def sql(self) -> str:
        """The SQL name of the branch, which exists from now on."""
        self._begin()
        return ".".join((self.name.sql, quote(f"{_BRANCH_SELECTOR}{self.branch}")))

    @property
    def before(self) -> str:
        """The SQL name of the table at `base`."""
        return f"{self.name.sql} VERSION AS OF {self.base}"

    def writer(self, rows: DataFrame) -> DataFrameWriterV2:
        """Return Spark's writer of *rows* to the branch."""
        writer = rows.writeTo(self.sql)
        summary_options = {f"snapshot-property.{key}": value for key, value in self.summary.items()}
        for key, value in {**self.options, **summary_options}.items():
            writer = writer.option(key, value)
        return writer

    def make(self, update: Any, *, removes: bool = False) -> None:
        """Commit *update*, an Iceberg update that has all its files.

        *removes* says whether the update also removes files.
        """
        if not self.leaves_pending:
            self._begin()
        # Iceberg counts rows and files of the table from the branch. A pending snapshot follows main.
        branch = MAIN if self.leaves_pending else self.branch
        self.pending = own_class(self.session, _MANIFESTS).update(
            self.table, update, branch, json.dumps(dict(self.summary)), removes, self.leaves_pending
        )

    def _begin(self) -> None:
        """Move the branch to the snapshot `start`."""
        start = self.start
        if start is None:
            return

        def read() -> StorageMetadata:
            self.table.refresh()
            return metadata_of(self.session, self.table)

        def change(metadata: StorageMetadata) -> MetadataChange | None:
            at = metadata.branches.get(self.branch)
            return None if at == start else MetadataChange(branches={self.branch: start})

        swap = partial(commit, self.session, str(self.name))
        for _ in carried_out(str(self.name), "begin a branch of", read, change, swap):
            pass
