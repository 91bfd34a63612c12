"""Key changes: the net change of a batch to a table with a key, as one row for each changed key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyarrow import compute
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, lit, max_by, monotonically_increasing_id, raise_error, struct, when
from pyspark.sql.functions import max as greatest
from pyspark.sql.functions import sum as total

from mt_core.base.identifiers import quote
from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.plans.operators import RowKind
from mt_core.spark.connectors.changelog import ROW_KIND
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint

_ARRIVAL, _COPIES, _LAST, _ROW = "__arrival", "__copies", "__last", "__row"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChanges:
    """The rows of changed keys after a batch, and the deleted keys; their ROW_KIND is +I or -D."""

    keys: tuple[str, ...]
    changes: ComputedRows

    @property
    def count(self) -> int:
        return self.changes.count()

    def rows(self) -> ComputedRows:
        """Return the rows to upsert."""
        return self._of(RowKind.INSERT, [name for name in self.changes.columns if name != ROW_KIND])

    def deleted(self) -> ComputedRows:
        """Return the deleted keys."""
        return self._of(RowKind.DELETE, self.keys)

    def all_keys(self) -> ComputedRows:
        """Return all changed keys."""
        return self.changes.select(self.keys)

    def _of(self, kind: RowKind, columns: Sequence[str]) -> ComputedRows:
        rows = self.changes.rows
        if rows is None:
            of_kind = ComputedRows.of_frame(self.changes.frame.where(col(ROW_KIND) == kind.code))
        else:
            of_kind = self.changes.with_table(rows.filter(compute.equal(rows[ROW_KIND], kind.code)))
        return of_kind.select(columns)


@contextmanager
def computed_changes(rows: DataFrame, keys: Sequence[str], table: str) -> Iterator[KeyChanges | None]:
    """Yield the computed `key_changes` of a batch, or None if the batch is empty."""
    rows = rows.persist()
    try:
        count = rows.count()
        if not count:
            yield None
            return
        # A single partition can be grouped without an exchange.
        changes = collect_or_checkpoint(
            key_changes(rows.coalesce(1) if count <= MOST_LOCAL else rows, keys, table)
        )
        yield KeyChanges(keys=tuple(keys), changes=changes)
    finally:
        rows.unpersist()


def key_changes(rows: DataFrame, keys: Sequence[str], table: str) -> DataFrame:
    """Return one row for each key that *rows* change: its last row with kind +I, or -D if it was deleted.

    Rows that are inserted and deleted equally often cancel out. If several rows of a key remain, the one
    that was read last is used. A NULL in a key raises an error that names *table*.
    """
    columns = [name for name in rows.columns if name != ROW_KIND]
    checked = [_not_null(name, table) if name in keys else col(quote(name)) for name in columns]
    has_kind = ROW_KIND in rows.columns
    adds = col(ROW_KIND).isin(*(kind.code for kind in RowKind if kind.adds)) if has_kind else lit(True)
    numbered = rows.select(
        *checked, when(adds, 1).otherwise(-1).alias(_COPIES), monotonically_increasing_id().alias(_ARRIVAL)
    )
    if has_kind:
        came = greatest(when(col(_COPIES) > 0, col(_ARRIVAL))).alias(_LAST)
        sums = numbered.groupBy(*map(quote, columns)).agg(total(_COPIES).alias(_COPIES), came)
        numbered = sums.where(col(_COPIES) != 0)
    else:
        numbered = numbered.withColumnRenamed(_ARRIVAL, _LAST)
    last = max_by(struct(*map(quote, columns)), when(col(_COPIES) > 0, col(_LAST))).alias(_ROW)
    last_rows = numbered.groupBy(*map(quote, keys)).agg(last)
    kind = when(col(_ROW).isNull(), RowKind.DELETE.code).otherwise(RowKind.INSERT.code).cast("tinyint")
    values = (
        col(quote(name)) if name in keys else col(f"{_ROW}.{quote(name)}").alias(name) for name in columns
    )
    return last_rows.select(*values, kind.alias(ROW_KIND))


def _not_null(key: str, table: str) -> Column:
    name = quote(key)
    reason = lit(f"Table {table}: a row has NULL in column {key} of its PRIMARY KEY")
    return when(col(name).isNull(), raise_error(reason)).otherwise(col(name)).alias(key)
