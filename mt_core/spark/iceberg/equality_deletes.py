"""Upserts: one commit that deletes rows by key with an equality delete file and adds the new rows.

Unlike all other ways to replace rows, an upsert does not read any file of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, lit

from mt_core.base.identifiers import quote
from mt_core.spark.iceberg.computed_rows import computed
from mt_core.spark.iceberg.held_commit import HeldCommit
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.written_files import FileWriter, Values, collected

MOST_KEYS = 10_000
"""The maximum number of keys for which the driver writes the delete files and the new rows."""
MOST_ROWS = 100_000
MOST_PARTITIONS = 50
"""The maximum number of partitions for which the driver writes files, one partition after the other."""
# Types that Spark and Iceberg compare equally. Floating point is missing because of NaN and -0.0.
_COMPARED = frozenset(
    {"boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "decimal", "binary"}
)
# Types whose partition values Iceberg parses from text, and Iceberg's text for NULL.
_NAMED = frozenset({"boolean", "int", "long", "date", "string", "decimal"})
_NULL = "__HIVE_DEFAULT_PARTITION__"


def upserted(replacement: Replacement, commit: HeldCommit) -> bool:
    """Commit *replacement* as an upsert.

    Return False, without a commit, if the table's columns do not permit an upsert or there are too many
    rows.
    """
    session, table, writer = commit.session, commit.table, commit.files
    keys = _keys_of(writer, replacement)
    if keys is None:
        return False
    columns = [quote(key) for key in keys]
    deletes = session.table(replacement.gone).select(*columns).limit(MOST_KEYS + 1)
    parts = _parts(writer.partition or (), deletes, replacement.frame.limit(MOST_ROWS + 1))
    if parts is None:
        return False
    update = table.newRowDelta()
    for part in parts:
        if len(part.rows):
            update.addRows(writer.data_file(part.rows, part.values))
        if len(part.deletes):
            update.addDeletes(writer.equality_deletes(part.deletes, keys, part.values))
    commit.make(update)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The keys to delete and the rows to insert in one partition, as Java lists of InternalRow."""

    values: Values
    deletes: Any
    rows: Any


def _keys_of(writer: FileWriter, replacement: Replacement) -> tuple[str, ...] | None:
    """Return the keys in the order of the table's columns, or None if they cannot be used for an upsert."""
    deletes, rows = writer.session.table(replacement.gone).schema, replacement.frame.schema
    keys = tuple(name for name in writer.types if name in replacement.keys)
    if (
        len(keys) != len(replacement.keys)
        or any(
            writer.types[key] not in _COMPARED or deletes[key].dataType != rows[key].dataType for key in keys
        )
        or not writer.stores(replacement.frame.schema)
        or writer.partition is None
        or any(name not in keys or writer.types[name] not in _NAMED for name in writer.partition)
    ):
        return None
    return keys


def _parts(partition: Sequence[str], deletes: DataFrame, rows: DataFrame) -> list[_Part] | None:
    """Compute the change and split it by partition. Return None if it is too large."""
    if not partition:
        part = _Part(values=(), deletes=collected(deletes), rows=collected(rows))
        return None if len(part.deletes) > MOST_KEYS or len(part.rows) > MOST_ROWS else [part]
    deletes, rows = computed(deletes), computed(rows)
    if deletes.count() > MOST_KEYS or rows.count() > MOST_ROWS:
        return None
    texts = [col(quote(name)).cast("string") for name in partition]
    partitions = {
        tuple(row) for row in deletes.select(*texts).union(rows.select(*texts)).distinct().collect()
    }
    if len(partitions) > MOST_PARTITIONS or any(_NULL in values for values in partitions):
        return None
    return [
        _Part(
            values=values,
            deletes=collected(_of(deletes, texts, values)),
            rows=collected(_of(rows, texts, values)),
        )
        for values in sorted(partitions, key=repr)
    ]


def _of(rows: DataFrame, texts: Sequence[Column], values: Values) -> DataFrame:
    """Return the rows in which the expressions *texts* equal *values*."""
    matches = (text.eqNullSafe(lit(value)) for text, value in zip(texts, values, strict=True))
    return rows.where(reduce(and_, matches))
