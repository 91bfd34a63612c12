"""Staged files: the rows that chosen tasks of an Iceberg scan read, as a relation of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type

MOST_ROWS = 100_000
"""Rows, and"""
MOST_BYTES = 16 * 1024 * 1024
"""bytes of files, and"""
MOST_FILES = 64
"""files up to which a thread reads them itself."""
SCAN_TASKS = "freshtable.iceberg.ScanTasks"


def planned_tasks(session: SparkSession, scan: Any) -> Any:
    """Return the tasks of an Iceberg scan, each of which reads a file, as a list of the JVM."""
    return own_class(session, SCAN_TASKS).planned(scan)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """The rows that tasks of a scan read, with their columns;
    `java` gives them in the thread that takes them.
    """

    schema: StructType
    java: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How many files, bytes and rows tasks read."""

    files: int
    size: int
    rows: int

    @property
    def is_read_here(self) -> bool:
        """Whether one thread reads them in less time than a job on several cores."""
        return self.files <= MOST_FILES and self.size <= MOST_BYTES and self.rows <= MOST_ROWS


def extent_of(session: SparkSession, tasks: Any) -> Extent:
    """Return the extent of *tasks*."""
    files, size, rows = json.loads(own_class(session, SCAN_TASKS).extent(tasks))
    return Extent(files=files, size=size, rows=rows)


def source_rows(
    session: SparkSession, table: Any, tasks: Any, columns: StructType | None = None
) -> SourceRows:
    """Return the rows that *tasks*, of which there is at least one, read of *table*:
    all of it, or *columns* in any order.

    Of a column of metadata the name alone counts.
    """
    asked = None if columns is None else java_type(session, columns)
    rows = own_class(session, SCAN_TASKS).rows(session._jsparkSession, table, tasks, asked)
    return SourceRows(schema=columns_of(rows.columns()), java=rows)


@contextmanager
def staged(session: SparkSession, table: Any, tasks: Any) -> Iterator[DataFrame]:
    """Give the rows that *tasks*, of which there is at least one, read of *table*.

    Spark cannot plan a view over them: what reads them has to be computed within the block.
    """
    scan_tasks = own_class(session, SCAN_TASKS)
    name = scan_tasks.stage(table, tasks)
    try:
        yield session.read.format("iceberg").load(name)
    finally:
        scan_tasks.unstage(table, name)
