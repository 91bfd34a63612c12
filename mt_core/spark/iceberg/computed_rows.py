"""Computed rows: what a refresh reads of changes, at hand in this process while it is little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from pyarrow import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.spark.driver.jvm_objects import java_dataset, java_strings, own_class
from mt_core.spark.iceberg.jvm_rows import java_rows, java_type, rows_of

MOST_LOCAL = 200_000
"""Rows of a change up to which the driver holds them."""


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Rows with a schema that are computed: in this process, in the JVM, or, if they are many,
    in the frame `kept`.

    They go from one to the other when they are asked for there, once.
    """

    session: SparkSession
    schema: StructType
    table: Table | None = None
    of_jvm: Any | None = None
    kept: DataFrame | None = None

    @classmethod
    def of_java(cls, session: SparkSession, schema: StructType, rows: Any) -> Self:
        """Return rows that the JVM has, a `freshtable.inline.Rows`."""
        return cls(session=session, schema=schema, of_jvm=rows)

    @classmethod
    def many(cls, frame: DataFrame) -> Self:
        """Return the rows of *frame*, none of which is at hand."""
        return cls(session=frame.sparkSession, schema=frame.schema, kept=frame)

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    @property
    def few(self) -> bool:
        """Whether they are in this process or in the JVM."""
        return self.kept is None

    @cached_property
    def rows(self) -> Table | None:
        """The rows in this process; None if they are many."""
        if self.of_jvm is None:
            return self.table
        return rows_of(self.session, self.schema, self.of_jvm.arrow())

    @cached_property
    def java(self) -> Any | None:
        """The rows in the JVM, a `freshtable.inline.Rows`; None if they are many,
        or of types that do not go there by one call.
        """
        if self.of_jvm is not None or self.table is None:
            return self.of_jvm
        return java_rows(self.session, self.schema, self.table)

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a relation; made of those at hand when it is asked for, which takes as long
        as to look at some.
        """
        if self.kept is not None:
            return self.kept
        if self.java is not None:
            return DataFrame(java_dataset(self.session, self.java.relation()), self.session)
        assert self.table is not None
        return self.session.createDataFrame(self.table, schema=self.schema)

    @property
    def size(self) -> int:
        """Their bytes, of few rows."""
        return (
            int(self.of_jvm.bytes())
            if self.of_jvm is not None
            else 0
            if self.table is None
            else self.table.nbytes
        )

    def within(self, session: SparkSession) -> Computed:
        """Return the rows, which are few, for another session of the JVM."""
        return Computed(session=session, schema=self.schema, table=self.table, of_jvm=self.of_jvm)

    def others(self, table: Table) -> Computed:
        """Return the rows *table*, which has the columns of these."""
        return Computed(session=self.session, schema=self.schema, table=table)

    def select(self, names: Sequence[str]) -> Computed:
        """Return the columns *names* of the rows."""
        schema = StructType([self.schema[name] for name in names])
        if self.of_jvm is not None:
            return Computed.of_java(
                self.session, schema, self.of_jvm.select(java_strings(self.session, names))
            )
        if self.table is None:
            return Computed.many(self.frame.select(*map(quote, names)))
        return Computed(session=self.session, schema=schema, table=self.table.select(list(names)))

    def count(self) -> int:
        """Return the number of rows; those of a checkpoint are counted without reading a source."""
        if self.of_jvm is not None:
            return int(self.of_jvm.size())
        return self.frame.count() if self.table is None else self.table.num_rows


def computed(frame: DataFrame) -> DataFrame:
    """Return *frame* with its rows computed; if they are few, as a relation whose size Spark knows,
    and so joins cheaply.
    """
    return kept(frame).frame


def kept(frame: DataFrame) -> Computed:
    """Return `computed(frame)` with its rows."""
    few = frame.limit(MOST_LOCAL + 1).toArrow()
    return Computed.many(frame.localCheckpoint()) if few.num_rows > MOST_LOCAL else at_hand(frame, few)


def at_hand(like: DataFrame, rows: Table) -> Computed:
    """Return *rows*, which have the columns of *like*, with their relation."""
    return Computed(session=like.sparkSession, schema=like.schema, table=rows)


def nothing(session: SparkSession, columns: StructType) -> Computed:
    """Return no rows, of *columns*."""
    rows = own_class(session, "freshtable.inline.Rows")(java_type(session, columns))
    return Computed.of_java(session, columns, rows)
