"""Row deltas: rows of a table that go, by the places where its files hold them, and rows that come,
in one commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from mt_core.base.identifiers import quote
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.branch_commit import BranchCommit
from mt_core.spark.iceberg.computed_rows import Computed
from mt_core.spark.iceberg.opened_files import is_partitioned
from mt_core.spark.iceberg.recent_files import RecentFiles, add_to
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.iceberg.touched_rows import PLACE

_COMMAND = "freshtable.iceberg.DeltaCommand"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """The rows `gone` go, which have their PLACE, `come`, in the table's columns, come:
    those of a query if a job computes them.
    """

    gone: Computed
    come: Computed | DataFrame

    def written_by_driver(self, commit: BranchCommit, before: RecentFiles | None) -> RecentFiles | None:
        """Carry the change out by *commit* without a job; return its files.

        They replace those of the changes *before*, if they are few. None, and the commit is not made,
        if the change is not of few rows, or the driver does not write files of the table.
        """
        gone = self.gone.rows
        come = written_here(commit, self.come)
        if come is None or gone is None:
            return None
        update = commit.table.newRowDelta()
        files = add_to(update, commit.files, come.list(), gone, before)
        commit.make(update, removes=before is not None)
        return files

    def write_into(self, commit: BranchCommit) -> None:
        """Carry the change out by one job of Spark's: by a MERGE that deletes rows by their places,
        as the table has to say.
        """
        come = self.come.frame if isinstance(self.come, Computed) else self.come
        few = isinstance(self.come, Computed) and self.come.few and self.gone.few
        session = come.sparkSession
        command = own_class(session, _COMMAND).of(
            session._jsparkSession,
            f"MERGE INTO {commit.sql} q USING {commit.sql} k ON false "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        )
        columns = columns_of(command.columns())
        operation = columns[0].name
        places = {name: name for name in PLACE if name in self.gone.columns}
        values = {name: quote(name) for name in come.columns}
        hint = "/*+ COALESCE(1) */ " if few else ""
        with temporary_view(self.gone.frame) as gone, temporary_view(come) as rows:
            frame = session.sql(
                f"SELECT {hint}* FROM (SELECT "
                f"{_items(columns, {operation: str(command.deletes()), **places})} FROM {gone} UNION ALL "
                f"SELECT {_items(columns, {operation: str(command.inserts()), **values})} FROM {rows})"
            )
            command.run(frame._jdf, json.dumps(dict(commit.summary)))


def written_here(commit: BranchCommit, rows: DataFrame | Computed) -> Any | None:
    """Return *rows* in the JVM, of which the driver writes a file; None if a job is to write them,
    to partitions for one.
    """
    if not isinstance(rows, Computed) or is_partitioned(commit.table) or rows.java is None:
        return None
    return rows.java if commit.files.stores(rows.schema) else None


def _items(columns: Sequence[Column], values: Mapping[str, str]) -> str:
    """Return the items of a SELECT that gives *columns*: the values by their names, NULL for the others."""
    return ", ".join(
        f"{values.get(column.name, f'CAST(NULL AS {column.type})')} AS {quote(column.name)}"
        for column in columns
    )
