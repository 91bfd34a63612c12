"""Scan tasks: selected files of an Iceberg scan, read by the calling thread or as a Spark relation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.incremental.local_limits import MOST_BYTES, MOST_FILES, MOST_ROWS
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type

SCAN_TASKS = "freshtable.iceberg.ScanTasks"


def planned_tasks(session: SparkSession, scan: Any) -> Any:
    """Return the tasks of an Iceberg scan, one per file, as a Java list."""
    return own_class(session, SCAN_TASKS).planned(scan)


def all_tasks(session: SparkSession, table: Any, snapshot: str) -> Any:
    """Return the tasks that read all rows of an Iceberg table at a snapshot, as a Java list."""
    return own_class(session, SCAN_TASKS).within(table, int(snapshot), "[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """The rows of scan *tasks*; `java` is a Java Iterable that reads them in the iterating thread."""

    session: SparkSession
    tasks: Any
    schema: StructType
    java: Any

    def count(self) -> int:
        """Return the number of rows in the files of the tasks, without reading them."""
        return extent_of(self.session, self.tasks).rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The number of files, bytes and rows that scan tasks read."""

    files: int
    size: int
    rows: int

    @property
    def is_read_locally(self) -> bool:
        """True if a single thread reads them faster than a Spark job."""
        return self.files <= MOST_FILES and self.size <= MOST_BYTES and self.rows <= MOST_ROWS


def extent_of(session: SparkSession, tasks: Any) -> Extent:
    """Return the total extent of *tasks*."""
    files, size, rows = json.loads(own_class(session, SCAN_TASKS).extent(tasks))
    return Extent(files=files, size=size, rows=rows)


def source_rows(
    session: SparkSession, table: Any, tasks: Any, columns: StructType | None = None
) -> SourceRows:
    """Return the rows that *tasks* (at least one) read from *table*, with *columns* or with all columns.

    Metadata columns are selected by name; their types are ignored.
    """
    projection = None if columns is None else java_type(session, columns)
    rows = own_class(session, SCAN_TASKS).rows(session._jsparkSession, table, tasks, projection)
    return SourceRows(session=session, tasks=tasks, schema=columns_of(rows.columns()), java=rows)


@contextmanager
def staged(session: SparkSession, table: Any, tasks: Any) -> Iterator[DataFrame]:
    """Yield the rows that *tasks* (at least one) read from *table*, as a DataFrame.

    The DataFrame is valid only within the block, and must not be used in a view.
    """
    scan_tasks = own_class(session, SCAN_TASKS)
    name = scan_tasks.stage(table, tasks)
    try:
        yield session.read.format("iceberg").load(name)
    finally:
        scan_tasks.unstage(table, name)
