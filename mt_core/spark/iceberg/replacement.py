"""Replacements: the rows of a table that go, and those that come, written as the whole table
or by a MERGE.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit

from mt_core.base.identifiers import quote
from mt_core.incremental.delta import kept_apart, same
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.bounds import bounds_of, condition_of
from mt_core.spark.iceberg.branch_commit import BranchCommit
from mt_core.spark.iceberg.computed_rows import Computed, computed
from mt_core.spark.iceberg.temporary_views import temporary_view

_COMMANDS = "freshtable.iceberg.Commands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The rows that have one of `values`, each there once, in the columns `keys` go;
    `rows`, in the table's columns, come.

    `gone` is a relation with the values, which may have other columns too.
    `bounds` is a condition that rows `q` which go meet; None: it was not computed.
    """

    keys: tuple[str, ...]
    values: Computed
    gone: str
    rows: DataFrame | Computed
    bounds: str | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows that come, as a relation."""
        return self.rows.frame if isinstance(self.rows, Computed) else self.rows

    def whole(self, table: str) -> DataFrame:
        """Return all rows of *table* after the replacement."""
        kept = kept_apart(table, self.rows.columns, self.keys, self.gone)
        return self.frame.sparkSession.sql(kept).unionAll(self.frame)

    def write_into(self, commit: BranchCommit) -> None:
        """Carry the replacement out by one MERGE.

        Each value that goes is a row of the statement that deletes, each row that comes one
        that matches nothing. By the bounds of the values Iceberg leaves files out.
        """
        rows, mark = self.frame, f"_comes_{uuid4().hex}"
        session = rows.sparkSession
        gone = session.table(self.gone).select(
            *(col(quote(key)).cast(rows.schema[key].dataType).alias(key) for key in self.keys)
        )
        source = (
            gone.distinct()
            .withColumn(mark, lit(False))
            .unionByName(rows.withColumn(mark, lit(True)), allowMissingColumns=True)
        )
        given = ", ".join(map(quote, rows.columns))
        values = ", ".join(f"k.{quote(column)}" for column in rows.columns)
        bounds = condition_of(bounds_of(self.values, self.keys)) if self.bounds is None else self.bounds
        with temporary_view(computed(source)) as view:
            matches = f"NOT k.{mark} AND {same('q', self.keys)} AND {bounds}"
            text = (
                f"MERGE INTO {commit.sql} AS q USING {view} AS k ON {matches} WHEN MATCHED THEN DELETE "
                f"WHEN NOT MATCHED AND k.{mark} THEN INSERT ({given}) VALUES ({values})"
            )
            own_class(session, _COMMANDS).sql(session._jsparkSession, text, json.dumps(dict(commit.summary)))
