"""Opened files: files of an Iceberg table that this process reads, by our reader in the JVM,
without a job of Spark's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.computed_rows import MOST_LOCAL, Computed
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type

MOST_FILES = 64
"""Files that are opened, and"""
MOST_DELETE_FILES = 24
"""delete files of them, up to which that takes less time than a job;
a table that has more than 20 is compacted.
"""
FILE, POSITION = "_file", "_pos"
_PACKAGE = "freshtable.files"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFiles:
    """Files of Iceberg's *table* in the JVM, with the places of their rows that are deleted."""

    session: SparkSession
    table: Any
    files: Any

    @classmethod
    def of(cls, session: SparkSession, table: Any, tasks: Any) -> Self | None:
        """Return the files that *tasks* of a scan read; None if they are many, or none that are read here."""
        if len(tasks) > MOST_FILES:
            return None
        files = own_class(session, f"{_PACKAGE}.OpenedFiles").of(table, tasks, MOST_DELETE_FILES)
        return None if files is None else cls(session=session, table=table, files=files)

    def found(self, columns: StructType, values: Computed, most_read: int) -> Computed | None:
        """Return the rows of which each column of *values* has one: *columns*, FILE,
        which is where the file is, and POSITION.

        They may be more. The columns of *values* are the first of *columns*, with the same types.
        None if more rows had to be read, more are found than are held, or a file does not store all the
        columns as the table does now.
        """
        found = own_class(self.session, f"{_PACKAGE}.FoundRows").of(
            self.table, self.files, java_type(self.session, columns), values.java, MOST_LOCAL, most_read
        )
        return self._rows(found)

    def changed_to(self, later: OpenedFiles, sign: str, most: int) -> Computed | None:
        """Return rows that make those of these files those of *later* ones, some of which may be the same.

        Column *sign* has -1 for a row that goes, 1 for one that comes. None if there are more than *most*,
        or a file does not store all columns as the table does now.
        """
        changed = own_class(self.session, f"{_PACKAGE}.ChangedRows").of(
            self.table, self.files, later.files, sign, most
        )
        return self._rows(changed)

    def _rows(self, rows: Any | None) -> Computed | None:
        return None if rows is None else Computed.of_java(self.session, columns_of(rows.columns()), rows)


def is_partitioned(table: Any) -> bool:
    """Return whether files of Iceberg's *table* are in partitions, or some may be."""
    return table.specs().size() > 1 or not table.spec().isUnpartitioned()
