"""Staged files: the rows that chosen tasks of an Iceberg scan read, as a relation of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from mt_core.spark.driver.jvm_objects import java_items, static_member, static_value

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


@contextmanager
def staged(session: SparkSession, table: Any, tasks: Sequence[Any]) -> Iterator[DataFrame]:
    """Give the rows that *tasks*, of which there is at least one, read of *table*.

    Spark cannot plan a view over them: what reads them has to be computed within the block.
    """
    name = uuid4().hex
    tables, task_sets = static_value(session, _TABLES), static_value(session, _TASKS)
    listed = static_member(session, "java.util.ArrayList")()
    for task in tasks:
        listed.add(task)
    tables.add(name, table)
    task_sets.stageTasks(table, name, listed)
    try:
        yield session.read.format("iceberg").load(name)
    finally:
        task_sets.removeTasks(table, name)
        tables.remove(name)
