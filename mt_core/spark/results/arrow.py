"""Conversion of result batches to the two formats of a page: JSON as in Flink, and typed Arrow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import types as spark
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import to_arrow_type

from mt_core.base.rowset import ROW_KIND, RowKind
from mt_core.spark.results.json_text import json_rows, writer
from mt_core.spark.results.json_values import ARROW_CASTS, JSON_CASTS, casts, encoder
from mt_core.spark.results.limit import below_limit
from mt_core.spark.results.types import result_columns

COLUMNS_KEY = "freshtable.columns"
CHANGELOG_KEY = "freshtable.row-kind"
"""The schema metadata key with the name of the row kind column, which is not a column of the result."""


class ResultForm:
    """Converts the batches of a query with *schema*.

    Batches have each column of instants twice: as instants for Arrow, and as wall clock times of the
    session for JSON, because only Spark knows the session's time zone. The last column of a *changelog* is
    the row kind, which is not part of the result. Raises Unsupported for a column that has no JSON form.
    """

    def __init__(self, schema: spark.StructType, *, changelog: bool = False) -> None:
        self.changelog = changelog
        fields = schema.fields[:-1] if changelog else schema.fields
        self.columns = result_columns(spark.StructType(fields))
        self._encoders = [encoder(field.dataType, field.name) for field in fields]
        self._writers = [
            writer(field.dataType, encode) for field, encode in zip(fields, self._encoders, strict=True)
        ]
        self._variants = {
            at for at, field in enumerate(schema.fields) if isinstance(field.dataType, spark.VariantType)
        }
        shown = [_arrow_field(field, casts(field.dataType, ARROW_CASTS)) for field in schema.fields]
        instants = [at for at, field in enumerate(schema.fields) if _has_instants(field.dataType)]
        wall_clocks = [
            _arrow_field(schema.fields[at], casts(schema.fields[at].dataType, JSON_CASTS)) for at in instants
        ]
        self.schema = pa.schema([*shown, *wall_clocks])
        places = {at: len(shown) + number for number, at in enumerate(instants)}
        self._json_places = [places.get(at, at) for at in range(len(fields))]
        metadata = {COLUMNS_KEY: json.dumps([column.to_json() for column in self.columns])}
        self._shown = pa.schema(
            [
                field.with_type(pa.string()) if at in self._variants else field
                for at, field in enumerate(shown)
            ],
            metadata=metadata | ({CHANGELOG_KEY: ROW_KIND} if changelog else {}),
        )

    def rows(self, parts: Sequence[pa.RecordBatch]) -> list[list[Any]]:
        """Return the rows of *parts* as JSON values."""
        columns = [
            encode(column) for encode, column in zip(self._encoders, self._json_columns(parts), strict=True)
        ]
        return list(map(list, zip(*columns, strict=True)))

    def json(self, parts: Sequence[pa.RecordBatch]) -> bytes:
        """Return the rows of *parts* as the JSON text of an array of Flink's row objects."""
        return json_rows(
            self._json_columns(parts), self._writers, self._codes(parts) if self.changelog else None
        )

    def kinds(self, parts: Sequence[pa.RecordBatch]) -> list[RowKind]:
        """Return the row kind of each row of *parts*."""
        if not self.changelog:
            return [RowKind.INSERT] * sum(part.num_rows for part in parts)
        return [RowKind.of(code) for code in self._codes(parts).to_pylist()]

    def stream(self, parts: Sequence[pa.RecordBatch]) -> memoryview:
        """Return *parts* as an Arrow IPC stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._shown) as writer:
            for part in parts:
                columns = part.columns[: len(self._shown)]
                for at in self._variants:
                    columns[at] = pa.array(self._encoders[at](columns[at]), pa.string())
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._shown))
        return memoryview(sink.getvalue())

    def _codes(self, parts: Sequence[pa.RecordBatch]) -> pa.Array:
        place = len(self.columns)
        return pa.concat_arrays([part.column(place) for part in parts]) if parts else pa.array([], pa.int8())

    def _json_columns(self, parts: Sequence[pa.RecordBatch]) -> list[pa.Array]:
        if len(parts) == 1:
            return [parts[0].column(place) for place in self._json_places]
        parts = parts or [pa.RecordBatch.from_pylist([], schema=self.schema)]
        return [pa.concat_arrays([part.column(place) for part in parts]) for place in self._json_places]


def arrow_frame(frame: DataFrame) -> DataFrame:
    """Return *frame* with the columns that ResultForm expects.

    Types that have no Arrow form are cast, and wall clock columns are added for instants.
    """
    types = [field.dataType for field in frame.schema.fields]
    steps = [casts(data_type, ARROW_CASTS) for data_type in types]
    instants = [at for at, data_type in enumerate(types) if _has_instants(data_type)]
    if not any(steps) and not instants:
        return frame
    # Rename the columns by position, because the names of result columns need not be unique.
    names = [f"c{at}" for at in range(len(types))]
    shown = [_cast(name, each) for name, each in zip(names, steps, strict=True)]
    wall_clocks = [_cast(names[at], casts(types[at], JSON_CASTS)).alias(f"w{at}") for at in instants]
    return below_limit(frame, lambda rows: rows.toDF(*names).select(*shown, *wall_clocks))


def _has_instants(data_type: spark.DataType) -> bool:
    return casts(data_type, JSON_CASTS) != casts(data_type, ARROW_CASTS)


def _cast(name: str, steps: Sequence[spark.DataType]) -> SparkColumn:
    column = col(name)
    for data_type in steps:
        column = column.cast(data_type)
    return column


def _arrow_field(field: spark.StructField, steps: Sequence[spark.DataType]) -> pa.Field:
    comment = (field.metadata or {}).get("comment")
    kind = to_arrow_type(steps[-1] if steps else field.dataType)
    return pa.field(field.name, kind, field.nullable, {"comment": comment} if comment else None)
