"""Replacements: rows to delete by key and rows to insert, written by a MERGE or by rewriting the table."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import rows_without, same
from mt_core.spark.iceberg.bounds import bounds_of, condition_of
from mt_core.spark.iceberg.computed_rows import ComputedRows, computed
from mt_core.spark.iceberg.held_commit import TARGET, HeldCommit
from mt_core.spark.iceberg.temporary_views import temporary_view


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Rows to delete, which match one of `values` in the columns `keys`, and `rows` to insert.

    `values` are distinct, and the columns of `rows` are those of the table. `gone` is the name of a view of
    the values, which may also have other columns. `bounds` is a condition that is true for all rows `q` to
    delete. If it is None, it is computed.
    """

    keys: tuple[str, ...]
    values: ComputedRows
    gone: str
    rows: DataFrame | ComputedRows
    bounds: str | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows to insert, as a DataFrame."""
        return self.rows.frame if isinstance(self.rows, ComputedRows) else self.rows

    def whole(self, table: str) -> DataFrame:
        """Return the complete contents of *table* after the replacement."""
        unchanged = rows_without(table, self.rows.columns, self.keys, self.gone)
        return self.frame.sparkSession.sql(unchanged).unionAll(self.frame)

    def write_into(self, commit: HeldCommit) -> None:
        """Commit the replacement by one MERGE.

        The source of the MERGE has one row per value, which deletes the matching rows, and one per row to
        insert, which matches nothing. The condition includes the bounds of the values, so that Iceberg prunes
        files.
        """
        rows, mark = self.frame, f"_inserted_{uuid4().hex}"
        session = rows.sparkSession
        deletes = session.table(self.gone).select(
            *(col(quote(key)).cast(rows.schema[key].dataType).alias(key) for key in self.keys)
        )
        source = (
            deletes.distinct()
            .withColumn(mark, lit(False))
            .unionByName(rows.withColumn(mark, lit(True)), allowMissingColumns=True)
        )
        columns = ", ".join(map(quote, rows.columns))
        values = ", ".join(f"k.{quote(column)}" for column in rows.columns)
        bounds = condition_of(bounds_of(self.values, self.keys)) if self.bounds is None else self.bounds
        with temporary_view(computed(source)) as view:
            matches = f"NOT k.{mark} AND {same('q', self.keys)} AND {bounds}"
            text = (
                f"MERGE INTO {TARGET} AS q USING {view} AS k ON {matches} WHEN MATCHED THEN DELETE "
                f"WHEN NOT MATCHED AND k.{mark} THEN INSERT ({columns}) VALUES ({values})"
            )
            commit.merge(session, text)
