"""Rows that come from the JVM without a job of Spark's, by our own classes there."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from pyarrow import Schema, Table, ipc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import java_class, static_member

_PACKAGE = "freshtable.files"


def reader_of(session: SparkSession, name: str) -> Any | None:
    """Return our class *name*; None if Spark was started without our classes."""
    path = f"{_PACKAGE}.{name}"
    try:
        java_class(session, path)
    except SPARK_ERRORS:
        return None
    return static_member(session, path)


def arrow_schema(session: SparkSession, columns: StructType) -> Schema:
    """Return *columns* as Arrow has them where rows of Spark's are fetched."""
    return to_arrow_schema(columns, prefers_large_types=session._jconf.arrowUseLargeVarTypes())


def rows_of(session: SparkSession, columns: StructType, stream: str) -> Table:
    """Return rows of *columns* that one of our classes has given."""
    return ipc.open_stream(b64decode(stream)).read_all().cast(arrow_schema(session, columns))


def local_rows(frame: DataFrame) -> Table | None:
    """Return the rows of *frame* if Spark has computed them when it planned it: it only projects and filters rows at hand."""
    reader = reader_of(frame.sparkSession, "LocalRows")
    stream = None if reader is None else reader.of(frame._jdf)
    return None if stream is None else rows_of(frame.sparkSession, frame.schema, stream)
