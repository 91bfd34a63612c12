"""Upserts: rows replaced by key in one commit, an equality delete beside the new rows,
for which no file of the table is read.
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
from mt_core.spark.iceberg.branch_commit import BranchCommit
from mt_core.spark.iceberg.computed_rows import computed
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.written_files import FileWriter, Values, collected

MOST_KEYS = 10_000
"""Keys up to which they, and the rows that come, go through the driver."""
MOST_ROWS = 100_000
MOST_PARTITIONS = 50
"""Partitions up to which each gets files of its own, one after the other."""
# Types of which equal values are the same for Spark and for Iceberg;
# not those of doubles, with NaN and two zeros.
_COMPARED = frozenset(
    {"boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "decimal", "binary"}
)
# Types of which Iceberg reads the value of a partition from a text, None from this one.
_NAMED = frozenset({"boolean", "int", "long", "date", "string", "decimal"})
_NULL = "__HIVE_DEFAULT_PARTITION__"


def upserted(replacement: Replacement, commit: BranchCommit) -> bool:
    """Carry *replacement* out by *commit*.

    False, and it is not made, if the columns of the table, or the number of rows, forbid that.
    """
    session, table, writer = commit.session, commit.table, commit.files
    keys = _keys_of(writer, replacement)
    if keys is None:
        return False
    given = [quote(key) for key in keys]
    gone = session.table(replacement.gone).select(*given).limit(MOST_KEYS + 1)
    parts = _parts(writer.partition or (), gone, replacement.frame.limit(MOST_ROWS + 1))
    if parts is None:
        return False
    update = table.newRowDelta()
    for part in parts:
        if len(part.rows):
            update.addRows(writer.data_file(part.rows, part.values))
        if len(part.gone):
            update.addDeletes(writer.equality_deletes(part.gone, keys, part.values))
    commit.make(update)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Spark's internal rows, in lists of the JVM, of the keys that go and the rows
    that come in one partition.
    """

    values: Values
    gone: Any
    rows: Any


def _keys_of(writer: FileWriter, replacement: Replacement) -> tuple[str, ...] | None:
    """Return the keys in the order of the table's columns; None if rows cannot be deleted by them."""
    gone, rows = writer.session.table(replacement.gone).schema, replacement.frame.schema
    keys = tuple(name for name in writer.types if name in replacement.keys)
    if (
        len(keys) != len(replacement.keys)
        or any(writer.types[key] not in _COMPARED or gone[key].dataType != rows[key].dataType for key in keys)
        or not writer.stores(replacement.frame.schema)
        or writer.partition is None
        or any(name not in keys or writer.types[name] not in _NAMED for name in writer.partition)
    ):
        return None
    return keys


def _parts(partition: Sequence[str], gone: DataFrame, rows: DataFrame) -> list[_Part] | None:
    """Return what goes and what comes by partition, with all of it computed; None if that is too much."""
    if not partition:
        part = _Part(values=(), gone=collected(gone), rows=collected(rows))
        return None if len(part.gone) > MOST_KEYS or len(part.rows) > MOST_ROWS else [part]
    gone, rows = computed(gone), computed(rows)
    if gone.count() > MOST_KEYS or rows.count() > MOST_ROWS:
        return None
    texts = [col(quote(name)).cast("string") for name in partition]
    found = {tuple(row) for row in gone.select(*texts).union(rows.select(*texts)).distinct().collect()}
    if len(found) > MOST_PARTITIONS or any(_NULL in values for values in found):
        return None
    return [
        _Part(
            values=values, gone=collected(_of(gone, texts, values)), rows=collected(_of(rows, texts, values))
        )
        for values in sorted(found, key=repr)
    ]


def _of(rows: DataFrame, texts: Sequence[Column], values: Values) -> DataFrame:
    """Return the rows that have *values* as *texts*."""
    matches = (text.eqNullSafe(lit(value)) for text, value in zip(texts, values, strict=True))
    return rows.where(reduce(and_, matches))
