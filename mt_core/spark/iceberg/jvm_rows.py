"""Rows that come from the JVM without a job of Spark's, by our own classes there."""

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
"""Bytes of rows up to which they go to the JVM by one call, as text in base 64."""
SENT = frozenset(
    {
        *(BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType),
        *(DateType, TimestampType, TimestampNTZType, StringType, BinaryType),
    }
)
"""The types of values, also within others, of which rows go that way."""


def java_type(session: SparkSession, columns: StructType) -> Any:
    """Return *columns* as the JVM has them."""
    return session._jsparkSession.parseDataType(columns.json())


def columns_of(java: Any) -> StructType:
    """Return columns that the JVM has."""
    return StructType.fromJson(json.loads(java.json()))


def stored_schema(session: SparkSession, table: Any) -> StructType:
    """Return the columns of Iceberg's *table* as Spark has them."""
    return StructType.fromJson(json.loads(own_class(session, SCHEMAS).struct(table.schema())))


def arrow_schema(session: SparkSession, columns: StructType) -> Schema:
    """Return *columns* as Arrow has them where rows of Spark's are fetched."""
    return to_arrow_schema(columns, prefers_large_types=session._jconf.arrowUseLargeVarTypes())


def rows_of(session: SparkSession, columns: StructType, stream: str) -> Table:
    """Return rows of *columns* that one of our classes has given."""
    return ipc.open_stream(b64decode(stream)).read_all().cast(arrow_schema(session, columns))


def are_sent(columns: StructType, rows: Table) -> bool:
    """Return whether *rows* of *columns* go to the JVM by one call of ours."""
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
    """Return *rows* of *columns* as the JVM has them; None if they do not go there by one call."""
    if not are_sent(columns, rows):
        return None
    sink, given = BufferOutputStream(), rows.cast(arrow_schema(session, columns)).combine_chunks()
    with ipc.new_stream(sink, given.schema) as writer:
        writer.write_table(given)
    return own_class(session, "freshtable.inline.Rows").ofArrow(
        java_type(session, columns), bytes(sink.getvalue())
    )
