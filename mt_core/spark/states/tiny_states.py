"""Tiny states: the rows of a state as text in a property of the materialized table."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping

from pyarrow import ArrowInvalid, BufferOutputStream, Table, ipc
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mt_core.model.storage import MOST_TINY
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.jvm_rows import arrow_schema

_MOST_ROWS = 2000
"""The number of rows above which a state is not tried: no row takes less than 8 characters."""


def tiny_text(rows: ComputedRows) -> str | None:
    """Return local *rows* as text of at most `MOST_TINY` characters, or None if they are not that small."""
    if not rows.few or rows.count() > _MOST_ROWS:
        return None
    table = rows.rows
    assert table is not None, "local rows can be read in Python"
    text = _encoded(table.cast(arrow_schema(rows.session, rows.schema)))
    return text if len(text) <= MOST_TINY else None


def tiny_rows(session: SparkSession, schema: StructType, text: str) -> ComputedRows | None:
    """Return the rows of *text* as local rows, or None if they have another schema."""
    table, expected = _decoded(text), arrow_schema(session, schema)
    if table is None or (table.schema.names, table.schema.types) != (expected.names, expected.types):
        return None
    return ComputedRows(session=session, schema=schema, table=table)


def fitting(texts: Mapping[str, str], carried: Collection[str]) -> frozenset[str]:
    """Return the names whose *texts* are kept in the property: as many as fit together.

    Those that are *carried* over fitted before. Of the others, the shortest come first.
    """
    length, names = 0, []
    for name in sorted(texts, key=lambda each: (each not in carried, len(texts[each]), each)):
        length += len(texts[name])
        if length > MOST_TINY:
            break
        names.append(name)
    return frozenset(names)


def _encoded(table: Table) -> str:
    sink = BufferOutputStream()
    with ipc.new_stream(sink, table.schema.remove_metadata()) as writer:
        writer.write_table(table.replace_schema_metadata(None).combine_chunks())
    return b64encode(zlib.compress(sink.getvalue(), 9)).decode("ascii")


def _decoded(text: str) -> Table | None:
    try:
        return ipc.open_stream(zlib.decompress(b64decode(text))).read_all()
    except (ValueError, zlib.error, ArrowInvalid):
        return None
