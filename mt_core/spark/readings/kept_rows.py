"""Kept rows: rows of table versions in the driver's memory, shared by all tables that read the source.

Several materialized tables often read the same source, each with other columns. Rows that the driver reads
of a version are therefore kept with all columns that any table has asked for. If a table asks for a further
column, they are read again. Filters differ by query, so they are applied to the rows that are kept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.jvm_rows import stored_schema
from mt_core.spark.queries.lineage import Shape, shape_of
from mt_core.spark.readings.version_cache import VersionCache

MOST_KEPT = 64 * 1024 * 1024
"""The maximum total size, in bytes, of the rows of all kinds."""
_rows: VersionCache[ComputedRows] = VersionCache(MOST_KEPT, lambda rows: rows.size)
# The columns that were asked of a table so far.
_asked: VersionCache[frozenset[str]] = VersionCache(256)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """The rows of one kind, such as changed rows, by table and versions. Thread-safe.

    The versions are those between which rows changed, or the one that has the rows. Further keys may follow.
    Rows of more than `most` bytes are not kept.
    """

    kind: str
    most: int = MOST_KEPT

    def of(
        self, session: SparkSession, table: Shape, columns: Collection[str], *versions: str
    ) -> ComputedRows | None:
        """Return rows with *columns*, and possibly with more, or None if they are not kept."""
        kept = _rows.of(session, table, *versions, self.kind)
        return kept.within(session) if kept is not None and set(columns) <= set(kept.columns) else None

    def keep(self, rows: ComputedRows, session: SparkSession, table: Shape, *versions: str) -> None:
        """Keep *rows*, unless they are distributed or too large."""
        if rows.few and rows.size <= self.most:
            _rows.store(rows, session, table, *versions, self.kind)

    def columns_to_read(self, session: SparkSession, table: Any, columns: Collection[str]) -> StructType:
        """Return *columns* of an Iceberg table, and those that were asked of it before."""
        shape = shape_of(table)
        asked = (_asked.of(session, shape, self.kind) or frozenset()).union(columns)
        _asked.store(asked, session, shape, self.kind)
        return projection(session, table, asked)


def projection(session: SparkSession, table: Any, columns: Collection[str]) -> StructType:
    """Return the *columns* of an Iceberg table in its order, or its first column if there are none."""
    stored = stored_schema(session, table).fields
    return StructType([each for each in stored if each.name in columns] or stored[:1])
