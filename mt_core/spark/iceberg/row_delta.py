"""Row deltas: rows to delete by their file positions and rows to insert, in one commit."""

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
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.find_rows import PLACE, is_partitioned
from mt_core.spark.iceberg.held_commit import TARGET, HeldCommit
from mt_core.spark.iceberg.look_ups import FILE, POSITION
from mt_core.spark.iceberg.recent_files import RecentFiles, add_to
from mt_core.spark.iceberg.temporary_views import temporary_view

_COMMAND = "freshtable.iceberg.DeltaCommand"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """Rows to delete (`gone`), which have PLACE columns, and rows to insert (`come`).

    The rows to insert have the table's columns. `come` is a DataFrame if a job computes them.
    """

    gone: ComputedRows
    come: ComputedRows | DataFrame

    def write_on_driver(self, commit: HeldCommit, previous: RecentFiles | None) -> RecentFiles | None:
        """Commit the change without a job and return its files.

        They replace the *previous* files if those have room. Return None, without a commit, if the rows are
        not local or the driver cannot write the table's files.
        """
        deletes = self._deleted_places().rows
        inserts = local_rows_to_write(commit, self.come)
        if inserts is None or deletes is None:
            return None
        update = commit.table.newRowDelta()
        files = add_to(update, commit.files, inserts.list(), deletes, previous)
        commit.make(update, removes=previous is not None)
        return files

    def _deleted_places(self) -> ComputedRows:
        """Return `gone` with only the columns that a delete file needs. No rows may lack them."""
        place = [name for name in (FILE, POSITION) if name in self.gone.columns]
        return self.gone.select(place) if place and self.gone.few else self.gone

    def write_into(self, commit: HeldCommit) -> None:
        """Commit the change by one Spark job: the write of a MERGE, with positions instead of a join.

        The table must have merge-on-read enabled.
        """
        inserts = self.come.frame if isinstance(self.come, ComputedRows) else self.come
        is_local = isinstance(self.come, ComputedRows) and self.come.few and self.gone.few
        session = inserts.sparkSession
        command = own_class(session, _COMMAND).of(
            session._jsparkSession,
            commit.table,
            commit.name.catalog,
            f"MERGE INTO {TARGET} q USING {TARGET} k ON false "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        )
        columns = columns_of(command.columns())
        operation = columns[0].name
        places = {name: name for name in PLACE if name in self.gone.columns}
        values = {name: quote(name) for name in inserts.columns}
        hint = "/*+ COALESCE(1) */ " if is_local else ""
        with temporary_view(self.gone.frame) as old, temporary_view(inserts) as new:
            frame = session.sql(
                f"SELECT {hint}* FROM (SELECT "
                f"{_items(columns, {operation: str(command.deletes()), **places})} FROM {old} UNION ALL "
                f"SELECT {_items(columns, {operation: str(command.inserts()), **values})} FROM {new})"
            )
            command.run(frame._jdf, json.dumps(dict(commit.summary)))


def local_rows_to_write(commit: HeldCommit, rows: DataFrame | ComputedRows) -> Any | None:
    """Return *rows* in the JVM if the driver can write them to a file.

    Return None if a job must write them, for example to partitions.
    """
    if not isinstance(rows, ComputedRows) or is_partitioned(commit.table) or rows.java is None:
        return None
    return rows.java if commit.files.stores(rows.schema) else None


def _items(columns: Sequence[Column], values: Mapping[str, str]) -> str:
    """Return a SELECT list of *columns*: expressions from *values* by name, NULL for other columns."""
    return ", ".join(
        f"{values.get(column.name, f'CAST(NULL AS {column.type})')} AS {quote(column.name)}"
        for column in columns
    )
