"""Staged files: the rows that chosen tasks of an Iceberg scan read, as a relation of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.spark.driver.jvm_objects import java_items, own_class, static_member, static_value
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type, stored_schema

MOST_ROWS = 100_000
"""Rows, and"""
MOST_BYTES = 16 * 1024 * 1024
"""bytes of files, and"""
MOST_FILES = 64
"""files up to which a thread reads them itself."""
_NEW_LIST = "org.apache.iceberg.relocated.com.google.common.collect.Lists.newArrayList"
_TABLES = "org.apache.iceberg.spark.SparkTableCache.get"
_TASKS = "org.apache.iceberg.spark.ScanTaskSetManager.get"


def planned(session: SparkSession, scan: Any) -> Any:
    """Return the tasks of an Iceberg scan, each of which reads a file, as Java's list."""
    tasks = scan.planFiles()
    try:
        return static_member(session, _NEW_LIST)(tasks)
    finally:
        tasks.close()


def planned_tasks(session: SparkSession, scan: Any) -> list[Any]:
    """Return the tasks of an Iceberg scan, each of which reads a file."""
    return java_items(planned(session, scan))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """The rows that tasks of a scan read, with their columns; `java` gives them in the thread that takes them."""

    schema: StructType
    java: Any


def are_read_here(tasks: Sequence[Any]) -> bool:
    """Return whether one thread reads what *tasks* read in less time than a job on several cores."""
    return (
        len(tasks) <= MOST_FILES
        and sum(int(task.sizeBytes()) for task in tasks) <= MOST_BYTES
        and sum(int(task.file().recordCount()) for task in tasks) <= MOST_ROWS
    )


def source_rows(
    session: SparkSession, table: Any, tasks: Sequence[Any], columns: StructType | None = None
) -> SourceRows:
    """Return the rows that *tasks*, of which there is at least one, read of *table*: all of it, or *columns* in any order.

    Of a column of metadata the name alone counts.
    """
    with _staged(session, table, tasks) as name:
        whole = static_member(session, "org.apache.iceberg.spark.source.SparkRewriteTable")(table, name)
        # Of a table with row lineage, the readers would give its columns as well.
        asked = java_type(session, stored_schema(session, table) if columns is None else columns)
        rows = own_class(session, "freshtable.inline.SourceRows").of(session._jsparkSession, whole, asked)
        return SourceRows(schema=columns_of(rows.columns()), java=rows)


@contextmanager
def staged(session: SparkSession, table: Any, tasks: Sequence[Any]) -> Iterator[DataFrame]:
    """Give the rows that *tasks*, of which there is at least one, read of *table*.

    Spark cannot plan a view over them: what reads them has to be computed within the block.
    """
    tables = static_value(session, _TABLES)
    with _staged(session, table, tasks) as name:
        tables.add(name, table)
        try:
            yield session.read.format("iceberg").load(name)
        finally:
            tables.remove(name)


@contextmanager
def _staged(session: SparkSession, table: Any, tasks: Sequence[Any]) -> Iterator[str]:
    """Give the name under which Iceberg's readers find *tasks*."""
    name, task_sets = uuid4().hex, static_value(session, _TASKS)
    listed = static_member(session, "java.util.ArrayList")()
    for task in tasks:
        listed.add(task)
    task_sets.stageTasks(table, name, listed)
    try:
        yield name
    finally:
        task_sets.removeTasks(table, name)
