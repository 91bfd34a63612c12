"""The generated rows of `datagen` and `rate`: unbounded and bounded streams, and temporary tables."""

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
"""Option of a bounded source: the offset at which it has returned all rows."""
_RATE = "rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedTable:
    """A bounded temporary table of generated rows, with its name as written."""

    name: str
    rows: GeneratedRows
    watermark: Watermark | None = None

    @property
    def stream_name(self) -> str:
        """The name of the view over its stream while a query is analysed."""
        # The hexadecimal name does not collide with users' names.
        return f"rows_of_{self.name.encode().hex()}"


# Spark stores only the batch plan of a temporary view.
_tables: WeakKeyDictionary[SparkSession, dict[str, GeneratedTable]] = WeakKeyDictionary()


def generated_stream(session: SparkSession, rows: GeneratedRows, watermark: Watermark | None) -> DataFrame:
    """Return generated rows as a stream, at their rate."""
    reader: Any = session.readStream.format(_RATE).option("rowsPerSecond", rows.rows_per_second)
    if rows.number_of_rows is not None:
        # The offset of the rate source is a number of seconds.
        reader = reader.option(LAST_OFFSET, -(-rows.number_of_rows // rows.rows_per_second))
    counted: DataFrame = reader.load()
    if rows.number_of_rows is not None:
        counted = counted.where(f"value < {rows.number_of_rows}")
    frame = counted.selectExpr(*rows.items)
    return frame if watermark is None else frame.withWatermark(watermark.column, watermark.delay)


def note_generated(session: SparkSession, table: GeneratedTable) -> None:
    """Record that *session* has created *table*."""
    _tables.setdefault(session, {})[table.name.lower()] = table


def forget_generated(session: SparkSession, name: str) -> None:
    """Record that the temporary view *name* has been replaced."""
    _tables.get(session, {}).pop(name.lower(), None)


def generated_table(session: SparkSession, name: str) -> GeneratedTable | None:
    """Return the temporary table *name* if it has generated rows, or None."""
    table = _tables.get(session, {}).get(name.lower())
    if table is None:
        return None
    view = state_of(session).catalog().getRawTempView(name)
    plan = view.get().plan() if view.isDefined() else None
    # A Spark statement may have dropped the view and created another with the same name.
    counts = (
        plan is not None
        and plan.isDefined()
        and "Range" in map(class_name, scala_items(plan.get().collectLeaves()))
    )
    return table if counts else None


@contextmanager
def streamed_rows(session: SparkSession, tables: Iterable[GeneratedTable]) -> Iterator[None]:
    """Create temporary views over the streams of *tables* within the block."""
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
