"""Results of statements: rows that stay Arrow until a page of them is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import types as spark
from pyspark.sql.functions import col

from mt_core.rowset import Column
from mt_core.spark.encoding import Encode, casts_for_arrow, encoder
from mt_core.spark.types import result_columns


class ArrowRows:
    """The rows of one result, as pages of JSON values; pages can be read again and from any thread."""

    def __init__(self, columns: Sequence[Column], encoders: Sequence[Encode], table: pa.Table) -> None:
        self._columns, self._encoders, self._table = columns, encoders, table

    @property
    def columns(self) -> Sequence[Column]:
        return self._columns

    @property
    def count(self) -> int:
        """How many rows there are."""
        rows: int = self._table.num_rows
        return rows

    def page(self, start: int, size: int) -> list[list[Any]]:
        """Return up to *size* rows from row *start* on; fewer only at the end."""
        part = self._table.slice(start, size)
        columns = [
            [value for chunk in column.chunks for value in encode(chunk)]
            for column, encode in zip(part.columns, self._encoders, strict=True)
        ]
        return list(map(list, zip(*columns, strict=True)))

    def close(self) -> None:
        """Let the rows go."""
        self._table = self._table.schema.empty_table()


def fetch(frame: DataFrame) -> ArrowRows:
    """Run *frame* and return its rows; raises Unsupported before it runs if JSON has no form for a column."""
    schema = frame.schema
    encoders = [encoder(field.dataType, field.name) for field in schema.fields]
    return ArrowRows(result_columns(schema), encoders, _collect(_for_arrow(frame, schema)))


def _collect(frame: Any) -> pa.Table:
    # What DataFrame.toArrow() does, less its cast, which fails for a null in a nested struct with a NOT NULL field.
    return pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False))


def _for_arrow(frame: DataFrame, schema: spark.StructType) -> DataFrame:
    steps = [casts_for_arrow(field.dataType) for field in schema.fields]
    if not any(steps):
        return frame
    # By position: names of result columns need not be unique.
    names = [f"c{index}" for index in range(len(steps))]
    return frame.toDF(*names).select(*(_cast(name, casts) for name, casts in zip(names, steps, strict=True)))


def _cast(name: str, casts: list[spark.DataType]) -> SparkColumn:
    column = col(name)
    for data_type in casts:
        column = column.cast(data_type)
    return column
