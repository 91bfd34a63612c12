"""Rows that come from the JVM without a job of Spark's, by our own classes there."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from pyarrow import BufferOutputStream, Schema, Table, ipc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from mt_core.spark.driver.jvm_objects import java_dataset, own_class

PACKAGE = "freshtable.files"
MOST_SENT = 4 * 1024 * 1024
"""Bytes of rows up to which they go to the JVM by one call, as text in base 64."""
SENT = frozenset(
    {
        *(BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType),
        *(DateType, TimestampType, TimestampNTZType, StringType, BinaryType),
    }
)
"""The types of columns of which rows go that way."""


def reader_of(session: SparkSession, name: str) -> Any | None:
    """Return our class *name*; None if Spark was started without our classes."""
    return own_class(session, f"{PACKAGE}.{name}")


def java_type(session: SparkSession, columns: StructType) -> Any:
    """Return *columns* as the JVM has them."""
    return session._jsparkSession.parseDataType(columns.json())


def columns_of(java: Any) -> StructType:
    """Return columns that the JVM has."""
    return StructType.fromJson(json.loads(java.json()))


def arrow_schema(session: SparkSession, columns: StructType) -> Schema:
    """Return *columns* as Arrow has them where rows of Spark's are fetched."""
    return to_arrow_schema(columns, prefers_large_types=session._jconf.arrowUseLargeVarTypes())


def rows_of(session: SparkSession, columns: StructType, stream: str) -> Table:
    """Return rows of *columns* that one of our classes has given."""
    return ipc.open_stream(b64decode(stream)).read_all().cast(arrow_schema(session, columns))


def are_sent(columns: StructType, rows: Table) -> bool:
    """Return whether *rows* of *columns* go to the JVM by one call of ours."""
    return rows.nbytes <= MOST_SENT and all(type(each.dataType) in SENT for each in columns.fields)


def frame_of(session: SparkSession, columns: StructType, rows: Table) -> DataFrame:
    """Return *rows* of *columns* as a relation whose rows Spark has at hand.

    Few of them go to the JVM by one call of ours, which spares them a file and a conversion of each value.
    """
    reader = reader_of(session, "ArrowRows")
    if reader is None or not are_sent(columns, rows):
        return session.createDataFrame(rows, schema=columns)
    relation = reader.relation(java_type(session, columns), stream_as(session, columns, rows))
    return DataFrame(java_dataset(session, relation), session)


def stream_of(rows: Table) -> bytes:
    """Return *rows* as a stream of Arrow's of one batch, as our classes take them."""
    sink = BufferOutputStream()
    with ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


def stream_as(session: SparkSession, columns: StructType, rows: Table) -> bytes:
    """Return `stream_of` rows as the JVM has those of *columns*."""
    return stream_of(rows.cast(arrow_schema(session, columns)))


def local_rows(frame: DataFrame) -> Table | None:
    """Return the rows of *frame* if Spark has computed them when it planned it: it only projects and filters rows at hand."""
    reader = reader_of(frame.sparkSession, "LocalRows")
    stream = None if reader is None else reader.of(frame._jdf)
    return None if stream is None else rows_of(frame.sparkSession, frame.schema, stream)
