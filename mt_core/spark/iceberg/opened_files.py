"""Opened files: Iceberg data files that our own reader in the JVM reads without a Spark job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.computed_rows import MOST_LOCAL, ComputedRows
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type

MOST_FILES = 500
"""The maximum number of files. Each costs the reading of its footer."""
MOST_DELETE_FILES = 24
"""The maximum number of their delete files. Tables with more than 20 are compacted."""
FILE, POSITION = "_file", "_pos"
_PACKAGE = "freshtable.files"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFiles:
    """Data files of an Iceberg *table* with the positions of their deleted rows, in the JVM."""

    session: SparkSession
    table: Any
    files: Any

    @classmethod
    def of(cls, session: SparkSession, table: Any, tasks: Any) -> Self | None:
        """Open the files of scan *tasks*.

        Return None if there are too many files or our reader does not support them.
        """
        if len(tasks) > MOST_FILES:
            return None
        files = own_class(session, f"{_PACKAGE}.OpenedFiles").of(table, tasks, MOST_DELETE_FILES)
        return None if files is None else cls(session=session, table=table, files=files)

    def find(
        self, columns: StructType, values: ComputedRows, most_read: int, *, complete: bool
    ) -> ComputedRows | None:
        """Return *columns* of the rows that match *values*, with their FILE path and POSITION.

        Each column is matched separately, so the result may also contain rows whose combination of values
        is not in *values*. The columns of *values* are the first of *columns*, with the same types. With
        *complete*, *values* has a further column, the number of copies of each row, and the table is known
        to contain all of them. Their order is then undefined: a place may have the values of another row.

        Return None if more than *most_read* rows must be read, if more than `MOST_LOCAL` rows match, or if
        a file was written with different columns than the table has now.
        """
        rows = own_class(self.session, f"{_PACKAGE}.FoundRows").of(
            self.table,
            self.files,
            java_type(self.session, columns),
            values.java,
            complete,
            MOST_LOCAL,
            most_read,
        )
        return None if rows is None else ComputedRows.of_java(self.session, columns_of(rows.columns()), rows)


def is_partitioned(table: Any) -> bool:
    """Return whether an Iceberg *table* is or was partitioned."""
    return table.specs().size() > 1 or not table.spec().isUnpartitioned()
