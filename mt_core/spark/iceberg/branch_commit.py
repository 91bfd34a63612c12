"""Branch commits: the next snapshot of a branch, by a job of Spark's or of files that the driver wrote."""

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
    """One commit to *branch* of the table *name*, of which *table* is Iceberg's form;
    its snapshot has *summary*.

    The change is applied to the snapshot `base`, None if it does not matter.
    `options` are those of Spark's writer.

    `holds`: what the driver wrote is not committed. `held` is then Iceberg's form of the snapshot, which
    can be added to the metadata that *table* has afterwards, and to no other: its place in the order of all
    snapshots is the next one there.
    """

    session: SparkSession
    table: Any
    name: TableIdentifier
    branch: str
    base: str | None
    summary: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    holds: bool = False
    held: Any | None = None

    @cached_property
    def files(self) -> FileWriter:
        """The driver's writer of files of the table."""
        return FileWriter.of(self.session, self.table)

    @property
    def sql(self) -> str:
        """The branch in SQL."""
        return ".".join((self.name.sql, quote(f"{_BRANCH_SELECTOR}{self.branch}")))

    @property
    def before(self) -> str:
        """The table at `base`, in SQL."""
        return f"{self.name.sql} VERSION AS OF {self.base}"

    def writer(self, rows: DataFrame) -> DataFrameWriterV2:
        """Return Spark's writer of *rows* to the branch."""
        writer = rows.writeTo(self.sql)
        summary_options = {f"snapshot-property.{key}": value for key, value in self.summary.items()}
        for key, value in {**self.options, **summary_options}.items():
            writer = writer.option(key, value)
        return writer

    def make(self, update: Any, *, removes: bool = False) -> None:
        """Carry out *update*, which Iceberg's table has begun and which has all its files;
        it *removes* some, or only adds.
        """
        self.held = own_class(self.session, _MANIFESTS).update(
            self.table, update, self.branch, json.dumps(dict(self.summary)), removes, self.holds
        )
