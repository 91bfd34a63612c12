"""Exchange of rows and schemas with our Java classes, without a Spark job."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from pyarrow import BufferOutputStream, Schema, Table, ipc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from mt_core.spark.catalogs.columns import SCHEMAS
from mt_core.spark.driver.jvm_objects import own_class

MOST_SENT = 4 * 1024 * 1024
"""The maximum size of rows, in bytes, that are sent to the JVM in one call, encoded in base 64."""
SENT = frozenset(
    {
        *(BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType),
        *(DateType, TimestampType, TimestampNTZType, StringType, BinaryType),
    }
)
"""The types of values that can be sent in such a call. They may be nested."""


def java_type(session: SparkSession, columns: StructType) -> Any:
    """Return *columns* as a Java StructType."""
    return session._jsparkSession.parseDataType(columns.json())


def columns_of(java: Any) -> StructType:
    """Return the PySpark StructType of a Java StructType."""
    return StructType.fromJson(json.loads(java.json()))


def stored_schema(session: SparkSession, table: Any) -> StructType:
    """Return the schema of an Iceberg *table* as Spark's StructType."""
    return StructType.fromJson(json.loads(own_class(session, SCHEMAS).struct(table.schema())))


def arrow_schema(session: SparkSession, columns: StructType) -> Schema:
    """Return the Arrow schema that Spark uses for rows with these *columns*."""
    return to_arrow_schema(columns, prefers_large_types=session._jconf.arrowUseLargeVarTypes())


def rows_of(session: SparkSession, columns: StructType, stream: str) -> Table:
    """Return the rows in *stream*, a base64-encoded Arrow stream from one of our Java classes."""
    return ipc.open_stream(b64decode(stream)).read_all().cast(arrow_schema(session, columns))


def can_be_sent(columns: StructType, rows: Table) -> bool:
    """Return whether *rows* can be sent to the JVM in one call."""
    return rows.nbytes <= MOST_SENT and _is_sent(columns)


def _is_sent(type_: DataType) -> bool:
    match type_:
        case StructType():
            return all(_is_sent(field.dataType) for field in type_.fields)
        case ArrayType():
            return _is_sent(type_.elementType)
        case MapType():
            return _is_sent(type_.keyType) and _is_sent(type_.valueType)
        case _:
            return type(type_) in SENT


def java_rows(session: SparkSession, columns: StructType, rows: Table) -> Any | None:
    """Return *rows* as a `freshtable.inline.Rows`, or None if they cannot be sent to the JVM in one call."""
    if not can_be_sent(columns, rows):
        return None
    sink, converted = BufferOutputStream(), rows.cast(arrow_schema(session, columns)).combine_chunks()
    with ipc.new_stream(sink, converted.schema) as writer:
        writer.write_table(converted)
    return own_class(session, "freshtable.inline.Rows").ofArrow(
        java_type(session, columns), bytes(sink.getvalue())
    )
