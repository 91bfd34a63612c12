"""Computed rows: the rows of a change, buffered on the driver up to `MOST_LOCAL` rows.

A refresh uses the same changed rows several times: to prune files, to look up rows, and to join. Small
changes are therefore collected once, as an Arrow table in Python or as rows in the JVM, and converted on
demand. Larger changes are checkpointed on the executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from pyarrow import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.spark.driver.jvm_objects import java_dataset, java_strings, own_class
from mt_core.spark.iceberg.jvm_rows import java_rows, java_type, rows_of


@dataclass(frozen=True, kw_only=True)
class ComputedRows:
    """Computed rows, either local or `distributed` as a frame.

    Local rows are in Python (`table`) or in the JVM (`jvm_rows`). They are converted only once, when they
    are first used on the other side.
    """

    session: SparkSession
    schema: StructType
    table: Table | None = None
    jvm_rows: Any | None = None
    distributed: DataFrame | None = None

    @classmethod
    def of_java(cls, session: SparkSession, schema: StructType, rows: Any) -> Self:
        """Return local rows in the JVM, a `freshtable.inline.Rows`."""
        return cls(session=session, schema=schema, jvm_rows=rows)

    @classmethod
    def of_frame(cls, frame: DataFrame) -> Self:
        """Return the distributed rows of *frame*."""
        return cls(session=frame.sparkSession, schema=frame.schema, distributed=frame)

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    @property
    def few(self) -> bool:
        """True if the rows are local."""
        return self.distributed is None

    @cached_property
    def rows(self) -> Table | None:
        """The rows in Python, or None if they are distributed."""
        if self.jvm_rows is None:
            return self.table
        return rows_of(self.session, self.schema, self.jvm_rows.arrow())

    @cached_property
    def java(self) -> Any | None:
        """The rows in the JVM, a `freshtable.inline.Rows`.

        None if the rows are distributed or cannot be sent to the JVM in one call.
        """
        if self.jvm_rows is not None or self.table is None:
            return self.jvm_rows
        return java_rows(self.session, self.schema, self.table)

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame.

        The DataFrame of local rows is created at first use, which takes some milliseconds.
        """
        if self.distributed is not None:
            return self.distributed
        if self.java is not None:
            return DataFrame(java_dataset(self.session, self.java.relation()), self.session)
        assert self.table is not None
        return self.session.createDataFrame(self.table, schema=self.schema)

    @property
    def size(self) -> int:
        """The size of local rows in bytes; 0 for distributed rows."""
        return (
            int(self.jvm_rows.bytes())
            if self.jvm_rows is not None
            else 0
            if self.table is None
            else self.table.nbytes
        )

    def within(self, session: SparkSession) -> ComputedRows:
        """Return the same local rows for another Spark session of the same JVM."""
        return ComputedRows(session=session, schema=self.schema, table=self.table, jvm_rows=self.jvm_rows)

    def with_table(self, table: Table) -> ComputedRows:
        """Return the rows of *table*, which has the same schema, as local rows."""
        return ComputedRows(session=self.session, schema=self.schema, table=table)

    def select(self, names: Sequence[str]) -> ComputedRows:
        """Return the rows with only the columns *names*."""
        schema = StructType([self.schema[name] for name in names])
        if self.jvm_rows is not None:
            return ComputedRows.of_java(
                self.session, schema, self.jvm_rows.select(java_strings(self.session, names))
            )
        if self.table is None:
            return ComputedRows.of_frame(self.frame.select(*map(quote, names)))
        return ComputedRows(session=self.session, schema=schema, table=self.table.select(list(names)))

    def count(self) -> int:
        """Return the number of rows. If they are checkpointed, no source is read."""
        if self.jvm_rows is not None:
            return int(self.jvm_rows.size())
        return self.frame.count() if self.table is None else self.table.num_rows


def computed(frame: DataFrame) -> DataFrame:
    """Return *frame* with its rows computed.

    If the rows fit on the driver, the result is a local relation, whose size Spark knows when it plans a
    join.
    """
    return collect_or_checkpoint(frame).frame


def collect_or_checkpoint(frame: DataFrame) -> ComputedRows:
    """Compute the rows of *frame*: collect up to `MOST_LOCAL` rows, or checkpoint more on the executors."""
    rows = frame.limit(MOST_LOCAL + 1).toArrow()
    return (
        ComputedRows.of_frame(frame.localCheckpoint())
        if rows.num_rows > MOST_LOCAL
        else local_rows(frame, rows)
    )


def collect_or_keep(frame: DataFrame) -> ComputedRows:
    """Compute the rows of *frame* as `collect_or_checkpoint` does, but never twice.

    The executors keep the rows while they are collected, which costs more if they are few.
    """
    kept = frame.localCheckpoint(eager=False)
    rows = kept.limit(MOST_LOCAL + 1).toArrow()
    return ComputedRows.of_frame(kept) if rows.num_rows > MOST_LOCAL else local_rows(frame, rows)


def local_rows(like: DataFrame, rows: Table) -> ComputedRows:
    """Return *rows* as local rows, with the schema and session of *like*."""
    return ComputedRows(session=like.sparkSession, schema=like.schema, table=rows)


def no_rows(session: SparkSession, columns: StructType) -> ComputedRows:
    """Return an empty set of rows with these *columns*."""
    rows = own_class(session, "freshtable.inline.Rows")(java_type(session, columns))
    return ComputedRows.of_java(session, columns, rows)


def together(session: SparkSession, columns: StructType, parts: Sequence[ComputedRows]) -> ComputedRows:
    """Return all rows of local *parts*, which have these *columns*."""
    rows = no_rows(session, columns)
    for part in parts:
        assert rows.java is not None
        rows.java.addAll(part.java)
    return rows


def without(rows: ComputedRows, others: ComputedRows) -> ComputedRows:
    """Return local *rows* without others of the same columns, each as often as it is among the others.

    Rows are equal if all bits of their values are.
    """
    if not rows.count() or not others.count():
        return rows
    assert rows.java is not None
    return ComputedRows.of_java(rows.session, rows.schema, rows.java.without(others.java))


def collected(frame: DataFrame) -> ComputedRows | None:
    """Return the rows of *frame*, which a job computes, in the JVM; None if they exceed `MOST_LOCAL`."""
    session = frame.sparkSession
    rows = own_class(session, "freshtable.inline.Rows").collected(frame.limit(MOST_LOCAL + 1)._jdf)
    return None if rows.size() > MOST_LOCAL else ComputedRows.of_java(session, frame.schema, rows)
