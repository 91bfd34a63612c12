"""Computed rows: what a refresh reads of changes, at hand in this process while it is little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from pyarrow import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.identifiers import quote
from mt_core.spark.maintenance.jvm_rows import frame_of

MOST_LOCAL = 200_000
"""Rows of a change up to which the driver holds them."""


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Rows with a schema that are computed: `rows` at hand, None if they are many and stand in the frame `kept`."""

    session: SparkSession
    schema: StructType
    rows: Table | None
    kept: DataFrame | None = None

    @classmethod
    def many(cls, frame: DataFrame) -> Self:
        """Return the rows of *frame*, none of which is at hand."""
        return cls(session=frame.sparkSession, schema=frame.schema, rows=None, kept=frame)

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a relation; made of those at hand when it is asked for, which takes as long as to look at some."""
        return local(self, self.rows) if self.kept is None else self.kept

    def select(self, names: Sequence[str]) -> Computed:
        """Return the columns *names* of the rows."""
        if self.rows is None:
            return Computed.many(self.frame.select(*map(quote, names)))
        schema = StructType([self.schema[name] for name in names])
        return Computed(session=self.session, schema=schema, rows=self.rows.select(list(names)))

    def count(self) -> int:
        """Return the number of rows; those of a checkpoint are counted without reading a source."""
        return self.frame.count() if self.rows is None else self.rows.num_rows


def local(like: Computed, rows: Table) -> DataFrame:
    """Return *rows*, which have columns of *like*, as a relation whose rows Spark has at hand."""
    return frame_of(like.session, StructType([like.schema[name] for name in rows.column_names]), rows)


def computed(frame: DataFrame) -> DataFrame:
    """Return *frame* with its rows computed; if they are few, as a relation whose size Spark knows, and so joins cheaply."""
    return kept(frame).frame


def kept(frame: DataFrame) -> Computed:
    """Return `computed(frame)` with its rows."""
    few = frame.limit(MOST_LOCAL + 1).toArrow()
    return Computed.many(frame.localCheckpoint()) if few.num_rows > MOST_LOCAL else at_hand(frame, few)


def at_hand(like: DataFrame, rows: Table) -> Computed:
    """Return *rows*, which have the columns of *like*, with their relation."""
    return Computed(session=like.sparkSession, schema=like.schema, rows=rows)
