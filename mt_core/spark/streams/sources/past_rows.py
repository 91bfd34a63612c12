"""The rows of an earlier snapshot of a table, with the table's current columns."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name, quote, sql_name
from mt_core.errors import Unsupported
from mt_core.spark.catalogs.columns import iceberg_columns
from mt_core.spark.driver.jvm_objects import java_items


def past_rows(session: SparkSession, parts: tuple[str, ...], table: Any, snapshot_id: str) -> str | None:
    """Return a query for the rows of the Iceberg *table* at a snapshot, or None if VERSION AS OF is enough.

    Spark reads a version with its old columns, while a stream reads the current ones. Raises Unsupported if
    the old values of a column cannot be cast to its current type.
    """
    table.refresh()
    snapshot, schema = table.snapshot(int(snapshot_id)), table.schema()
    if snapshot is None or snapshot.schemaId() is None or int(snapshot.schemaId()) == int(schema.schemaId()):
        return None
    before = table.schemas().get(snapshot.schemaId())
    types = iceberg_columns(session, schema)
    columns = [
        f"{_value(parts, field, before.findField(field.fieldId()), column.type)} AS {quote(column.name)}"
        for field, column in zip(java_items(schema.columns()), types, strict=True)
    ]
    return f"SELECT {', '.join(columns)} FROM {sql_name(parts)} VERSION AS OF {snapshot_id}"


def _value(parts: tuple[str, ...], field: Any, before: Any, column_type: str) -> str:
    """Return the expression for a column: NULL if it was added later, or its old value in the new type."""
    if before is None and field.initialDefault() is None:
        return f"CAST(NULL AS {column_type})"
    if before is not None and before.type().equals(field.type()):
        return quote(before.name())
    if before is not None and before.type().isPrimitiveType() and field.type().isPrimitiveType():
        return f"CAST({quote(before.name())} AS {column_type})"
    table = display_name(parts)
    raise Unsupported(
        f"Column {quote(field.name())} of {table} was changed after its last commit, "
        f"and a stream cannot read the rows before in that form; write to {table} once, for example "
        f"INSERT INTO {table} SELECT * FROM {table} LIMIT 0, and run the statement again."
    )
