"""Branch commits: the next snapshot of a branch, written by a Spark job or by the driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

from mt_core.base.identifiers import quote
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.written_files import FileWriter

_BRANCH_SELECTOR = "branch_"
_MANIFESTS = "freshtable.iceberg.Manifests"


@dataclass(kw_only=True)
class BranchCommit:
    """One commit to *branch* of the table *name*, which is loaded as *table*.

    The summary of the new snapshot contains the properties *summary*. `base` is the snapshot to which the
    change applies, or None if the change does not depend on it. `options` are passed to Spark's writer.

    With `leaves_pending`, files written by the driver are not committed. Instead, `pending` is set to
    Iceberg's Snapshot object. It has the next sequence number of the metadata that *table* has at that
    time, so it can be added only to that metadata.
    """

    session: SparkSession
    table: Any
    name: TableIdentifier
    branch: str
    base: str | None
    summary: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    leaves_pending: bool = False
    pending: Any | None = None

    @cached_property
    def files(self) -> FileWriter:
        """The driver's file writer for the table."""
        return FileWriter.of(self.session, self.table)

    @property
    def sql(self) -> str:
        """The SQL name of the branch."""
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
        self.pending = own_class(self.session, _MANIFESTS).update(
            self.table, update, self.branch, json.dumps(dict(self.summary)), removes, self.leaves_pending
        )
