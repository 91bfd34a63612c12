"""The two forms of a result: rows of JSON values as Flink has them, and Arrow with the types of the columns."""

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

from mt_core.spark.results.json_text import json_rows, writer
from mt_core.spark.results.json_values import casts_for_arrow, casts_for_json, encoder
from mt_core.spark.results.limit import below_limit
from mt_core.spark.results.types import result_columns

COLUMNS_KEY = "freshtable.columns"


class ResultForm:
    """How the batches of a query with *schema* are read; raises Unsupported if JSON has no form for a column.

    A column with instants comes twice: as instants for Arrow, and as the session's wall clock for JSON, of which only
    Spark knows the zone.
    """

    def __init__(self, schema: spark.StructType) -> None:
        self.columns = result_columns(schema)
        self._encoders = [encoder(field.dataType, field.name) for field in schema.fields]
        self._writers = [
            writer(field.dataType, encode) for field, encode in zip(schema.fields, self._encoders, strict=True)
        ]
        self._variants = {at for at, field in enumerate(schema.fields) if isinstance(field.dataType, spark.VariantType)}
        shown = [_arrow_field(field, casts_for_arrow(field.dataType)) for field in schema.fields]
        wall_clocks = [
            (at, _arrow_field(field, casts_for_json(field.dataType)))
            for at, field in enumerate(schema.fields)
            if _comes_twice(field.dataType)
        ]
        self.schema = pa.schema([*shown, *(field for _, field in wall_clocks)])
        places = {at: len(shown) + number for number, (at, _) in enumerate(wall_clocks)}
        self._json_places = [places.get(at, at) for at in range(len(shown))]
        self._shown = self._shown_schema(shown)

    def rows(self, parts: Sequence[pa.RecordBatch]) -> list[list[Any]]:
        """Return the rows of *parts* as JSON values."""
        columns = [encode(column) for encode, column in zip(self._encoders, self._json_columns(parts), strict=True)]
        return list(map(list, zip(*columns, strict=True)))

    def json(self, parts: Sequence[pa.RecordBatch]) -> bytes:
        """Return the rows of *parts* as the JSON text of an array of Flink's row objects."""
        return json_rows(self._json_columns(parts), self._writers)

    def stream(self, parts: Sequence[pa.RecordBatch]) -> memoryview:
        """Return *parts* as an Arrow IPC stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._shown) as writer:
            for part in parts:
                writer.write_batch(pa.RecordBatch.from_arrays(self._arrays(part), schema=self._shown))
        return memoryview(sink.getvalue())

    def _json_columns(self, parts: Sequence[pa.RecordBatch]) -> list[pa.Array]:
        parts = parts or [pa.RecordBatch.from_pylist([], schema=self.schema)]
        return [_joined([part.column(place) for part in parts]) for place in self._json_places]

    def _arrays(self, part: pa.RecordBatch) -> list[pa.Array]:
        return [
            pa.array(self._encoders[at](part.column(at)), pa.string()) if at in self._variants else part.column(at)
            for at in range(len(self.columns))
        ]

    def _shown_schema(self, fields: Sequence[pa.Field]) -> pa.Schema:
        described = json.dumps([column.to_json() for column in self.columns])
        shown = [field.with_type(pa.string()) if at in self._variants else field for at, field in enumerate(fields)]
        return pa.schema(shown, metadata={COLUMNS_KEY: described})


def arrow_frame(frame: DataFrame) -> DataFrame:
    """Return *frame* with the columns that ResultForm reads: those that Arrow can carry, then wall clocks of instants."""
    types = [field.dataType for field in frame.schema.fields]
    steps = [casts_for_arrow(data_type) for data_type in types]
    twice = [at for at, data_type in enumerate(types) if _comes_twice(data_type)]
    if not any(steps) and not twice:
        return frame
    # By position: names of result columns need not be unique.
    names = [f"c{at}" for at in range(len(types))]
    shown = [_cast(name, casts) for name, casts in zip(names, steps, strict=True)]
    wall_clocks = [_cast(names[at], casts_for_json(types[at])).alias(f"w{at}") for at in twice]
    return below_limit(frame, lambda rows: rows.toDF(*names).select(*shown, *wall_clocks))


def _comes_twice(data_type: spark.DataType) -> bool:
    return casts_for_json(data_type) != casts_for_arrow(data_type)


def _cast(name: str, casts: list[spark.DataType]) -> SparkColumn:
    column = col(name)
    for data_type in casts:
        column = column.cast(data_type)
    return column


def _arrow_field(field: spark.StructField, casts: list[spark.DataType]) -> pa.Field:
    comment = (field.metadata or {}).get("comment")
    kind = to_arrow_type(casts[-1] if casts else field.dataType)
    return pa.field(field.name, kind, field.nullable, {"comment": comment} if comment else None)


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
