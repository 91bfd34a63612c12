"""Generated rows: those of `datagen` and `rate` as a stream, and the temporary tables of a session
whose rows end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import quote
from mt_core.model.connector_table import GeneratedRows, Watermark
from mt_core.spark.driver.jvm_objects import class_name, scala_items, state_of

LAST_OFFSET = "freshtable.last-offset"
"""The option of a source whose rows end: the offset at which it has given them all."""
ENDING_AS_STREAMS = "freshtable.generated-rows.streams"
"""The setting of a session that is `false` where generated rows that end are read as they stand."""
_RATE = "rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedTable:
    """A temporary table of generated rows that end, by its name as it is written."""

    name: str
    rows: GeneratedRows
    watermark: Watermark | None = None

    @property
    def stream_name(self) -> str:
        """The name that its stream has while a query is analysed."""
        # No name that a user gives has that many digits.
        return f"rows_of_{self.name.encode().hex()}"


# Spark keeps of a temporary view what it reads as a batch alone.
_tables: WeakKeyDictionary[SparkSession, dict[str, GeneratedTable]] = WeakKeyDictionary()


def generated_stream(session: SparkSession, rows: GeneratedRows, watermark: Watermark | None) -> DataFrame:
    """Return generated rows as a stream, at their pace."""
    reader: Any = session.readStream.format(_RATE).option("rowsPerSecond", rows.rows_per_second)
    if rows.number_of_rows is not None:
        # The offset of the source is the number of its seconds.
        reader = reader.option(LAST_OFFSET, -(-rows.number_of_rows // rows.rows_per_second))
    counted: DataFrame = reader.load()
    if rows.number_of_rows is not None:
        counted = counted.where(f"value < {rows.number_of_rows}")
    frame = counted.selectExpr(*rows.items)
    return frame if watermark is None else frame.withWatermark(watermark.column, watermark.delay)


def note_generated(session: SparkSession, table: GeneratedTable) -> None:
    """Note that *session* has created *table*."""
    _tables.setdefault(session, {})[table.name.lower()] = table


def forget_generated(session: SparkSession, name: str) -> None:
    """Note that the temporary view *name* is something else now."""
    _tables.get(session, {}).pop(name.lower(), None)


def generated_table(session: SparkSession, name: str) -> GeneratedTable | None:
    """Return the table of generated rows that the temporary view *name* is;
    None for any other, and where it is no stream.
    """
    table = _tables.get(session, {}).get(name.lower())
    if table is None or not reads_ending_rows(session):
        return None
    view = state_of(session).catalog().getRawTempView(name)
    plan = view.get().plan() if view.isDefined() else None
    # It may have been dropped, and another one created by a statement of Spark.
    counts = (
        plan is not None
        and plan.isDefined()
        and "Range" in map(class_name, scala_items(plan.get().collectLeaves()))
    )
    return table if counts else None


def reads_ending_rows(session: SparkSession) -> bool:
    """Return whether generated rows that end are read as a stream."""
    return session.conf.get(ENDING_AS_STREAMS, "true") != "false"


@contextmanager
def streamed_rows(session: SparkSession, tables: Iterable[GeneratedTable]) -> Iterator[None]:
    """Give *session* temporary views over the streams of *tables* for as long as the block
    analyses a query.
    """
    names = []
    try:
        for table in tables:
            generated_stream(session, table.rows, table.watermark).createOrReplaceTempView(
                quote(table.stream_name)
            )
            names.append(table.stream_name)
        yield
    finally:
        for name in names:
            session.catalog.dropTempView(name)
