"""Row images: the rows that one version of a source has and another has not, read from the files that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import array_repeat, col, explode, lit
from pyspark.sql.functions import sum as total

from mt_core.errors import SourcesChanged
from mt_core.identifiers import display_name, quote, sql_name
from mt_core.maintenance.delta import Images
from mt_core.spark.driver.jvm_objects import static_member, static_value
from mt_core.spark.maintenance.file_difference import files_between
from mt_core.spark.queries.lineage import Lineage, Source, shape_of

MOST_LOCAL = 200_000
"""Rows of a change up to which the driver holds them."""
ONE_TASK = 16 * 1024 * 1024
"""Bytes of files that differ up to which one task compares them: to exchange the rows takes longer than to read them."""
_TABLES = "org.apache.iceberg.spark.SparkTableCache.get"
_TASKS = "org.apache.iceberg.spark.ScanTaskSetManager.get"


@contextmanager
def source_images(session: SparkSession, lineage: Lineage, source: Source, old: str, new: str) -> Iterator[Images]:
    """Give the images of a source between two of its snapshots, as temporary views of the session."""
    with ExitStack() as stack:
        with lineage.lock:
            if shape_of(source.table) != lineage.shapes[source.name]:
                raise SourcesChanged(f"The columns of {display_name(source.parts)} have changed; run it again.")
            difference = files_between(session, source.table, old, new)
            if isinstance(difference, str):
                raise SourcesChanged(f"{display_name(source.parts)} cannot be compared: {difference}; run it again.")
            before, after = (
                stack.enter_context(_staged(session, source, tasks)) for tasks in (difference.old, difference.new)
            )
        with images_between(before, after, in_one_task=difference.size <= ONE_TASK) as images:
            stack.close()
            yield images


@contextmanager
def images_between(before: DataFrame, after: DataFrame, *, in_one_task: bool = False) -> Iterator[Images]:
    """Give the rows that two frames with the same columns do not share, with duplicates, as temporary views.

    The frames are read once, before the views are given: Spark cannot plan a view over staged files.
    """
    number = f"_number_{uuid4().hex}"
    columns = [quote(name) for name in before.columns]
    signed = before.withColumn(number, lit(-1)).unionAll(after.withColumn(number, lit(1)))
    if in_one_task:
        signed = signed.coalesce(1)
    net = computed(signed.groupBy(*columns).agg(total(number).alias(number)).where(col(number) != 0))
    with ExitStack() as stack:
        removed, added = (
            net.withColumn(number, explode(array_repeat(lit(0), (sign * col(number)).cast("int")))).select(*columns)
            for sign in (-1, 1)
        )
        yield Images(
            removed=stack.enter_context(temporary_view(removed)),
            added=stack.enter_context(temporary_view(added)),
            both=stack.enter_context(temporary_view(net.select(*columns))),
        )


def computed(frame: DataFrame) -> DataFrame:
    """Return *frame* with its rows computed; if they are few, as a relation whose size Spark knows, and so joins cheaply."""
    return counted(frame)[0]


def counted(frame: DataFrame) -> tuple[DataFrame, int]:
    """Return `computed(frame)` with the number of its rows, which is at least one more than MOST_LOCAL if they are many."""
    few = frame.limit(MOST_LOCAL + 1).toArrow()
    if few.num_rows > MOST_LOCAL:
        return frame.localCheckpoint(), few.num_rows
    return frame.sparkSession.createDataFrame(few, schema=frame.schema), few.num_rows


@contextmanager
def temporary_view(frame: DataFrame) -> Iterator[str]:
    """Give the name of a view of *frame* in its session, in SQL, that goes with the block."""
    name = f"_view_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield quote(name)
    finally:
        frame.sparkSession.catalog.dropTempView(name)


@contextmanager
def _staged(session: SparkSession, source: Source, tasks: Sequence[Any]) -> Iterator[DataFrame]:
    """Give the rows that the tasks of a scan of *source* read."""
    if not tasks:
        yield session.table(sql_name(source.parts)).limit(0)
        return
    table, name = source.table, uuid4().hex
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
