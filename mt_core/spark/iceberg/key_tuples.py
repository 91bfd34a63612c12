"""Key tuples: the different values of rows in the columns of a key."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, IntegerType, LongType, StructField, StructType

from mt_core.spark.driver.jvm_objects import java_booleans, java_strings, own_class
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.jvm_rows import java_type

Part = tuple[ComputedRows, Sequence[str]]
"""Rows, and the names of their columns that are a key."""


def key_tuples(session: SparkSession, parts: Sequence[Part], null_safe: Sequence[bool]) -> ComputedRows:
    """Return the different values of the key columns of all parts, as columns `k0`, `k1` and so on.

    The rows are in the JVM. The types of a column are the same in all parts, or integers. Tuples with a NULL
    where this is not a value, according to *null_safe*, are left out.
    """
    types = [
        _common([rows.schema[names[position]].dataType for rows, names in parts])
        for position in range(len(null_safe))
    ]
    columns = StructType([StructField(f"k{position}", type_) for position, type_ in enumerate(types)])
    tuples = own_class(session, "freshtable.inline.KeyTuples")(
        java_type(session, columns), java_booleans(session, null_safe)
    )
    for rows, names in parts:
        assert rows.java is not None
        tuples.add(rows.java, java_strings(session, names))
    return ComputedRows.of_java(session, columns, tuples.rows())


def _common(types: Sequence[DataType]) -> DataType:
    """Return the type of values of these types, and any type for no value."""
    different = {each.simpleString() for each in types}
    if len(different) > 1:
        return LongType()
    return types[0] if types else IntegerType()
