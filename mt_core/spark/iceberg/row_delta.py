"""Row deltas: rows of a table that go, by the places where its files hold them, and rows that come, in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from mt_core.identifiers import quote
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.jvm_objects import state_of, static_member, text_map
from mt_core.spark.iceberg.branch_commit import BranchCommit
from mt_core.spark.iceberg.computed_rows import Computed
from mt_core.spark.iceberg.opened_files import is_partitioned
from mt_core.spark.iceberg.recent_files import RecentFiles, add_to
from mt_core.spark.iceberg.replacement import run_command
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.iceberg.touched_rows import PLACE, TableAt
from mt_core.spark.iceberg.written_files import FileWriter

BY_PLACE_FORMAT = 2
"""The format whose delete files hold the places of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """Where a change is applied in place: a table as it is, and the `branch` of it, in SQL, that is changed.

    `by_place`: rows that go are deleted by their places, which are looked up; `by_key`: but by their keys where those are known
    and nothing else has to be read of the table.
    """

    at: TableAt
    branch: str
    by_place: bool
    by_key: bool

    @classmethod
    def of(cls, session: SparkSession, at: TableAt, branch: str, *, by_key: bool) -> Self:
        """Return how a table is changed whose rows are to be replaced *by_key*, or are not."""
        properties = text_map(session, at.table.properties())
        # A table with deletion vectors has one for each file, to which the scan of a statement adds.
        by_place = (
            properties.get("write.merge.mode") == "merge-on-read"
            and at.table.operations().current().formatVersion() == BY_PLACE_FORMAT
        )
        # A delete file belongs to one partition: by key, the driver writes those of few partitions.
        return cls(at=at, branch=branch, by_place=by_place and not (by_key and is_partitioned(at.table)), by_key=by_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """The rows `gone` go, which have their PLACE, `come`, in the table's columns, come: those of a query if a job computes them."""

    gone: Computed
    come: Computed | DataFrame

    def written_by_driver(self, commit: BranchCommit, before: RecentFiles | None) -> RecentFiles | None:
        """Carry the change out by *commit* as `write_into` does, but without a job; return its files.

        They replace those of the changes *before*, if they are few. None, and the commit is not made, if the change is not of few
        rows, or the table has partitions.
        """
        if not isinstance(self.come, Computed) or is_partitioned(commit.table):
            return None
        come, gone = self.come.java, self.gone.rows
        if come is None or gone is None:
            return None
        writer = FileWriter.of(commit.session, commit.table)
        if not writer.stores(self.come.schema):
            return None
        update = commit.table.newRowDelta()
        files = add_to(update, writer, come.array(), gone, before)
        commit.make(update, removes=before is not None)
        return files

    def write_into(self, branch: str, summary: Mapping[str, str]) -> None:
        """Carry the change out on *branch* by one commit of Spark's, whose snapshot has *summary*."""
        come = self.come.frame if isinstance(self.come, Computed) else self.come
        few = isinstance(self.come, Computed) and self.come.few and self.gone.few
        session = come.sparkSession
        command = delta_command(session, branch)
        assert command is not None, f"{branch} does not delete rows by their places"
        columns = columns_of(command.query().schema())
        operation = columns[0].name
        places = {name: name for name in PLACE if name in self.gone.columns}
        values = {name: quote(name) for name in come.columns}
        hint = "/*+ COALESCE(1) */ " if few else ""
        with temporary_view(self.gone.frame) as gone, temporary_view(come) as rows:
            frame = session.sql(
                f"SELECT {hint}* FROM ("
                f"SELECT {_items(columns, {operation: _code(session, 'DELETE'), **places})} FROM {gone} "
                f"UNION ALL SELECT {_items(columns, {operation: _code(session, 'INSERT'), **values})} FROM {rows})"
            )
            run_command(session, command.withNewQuery(frame._jdf.queryExecution().analyzed()), summary)


def delta_command(session: SparkSession, branch: str) -> Any | None:
    """Return Spark's command that deletes rows of *branch* by file and position and inserts others, for any rows.

    None if the table writes files with changed rows again, or has deletion vectors, to which the scan of a statement adds.
    """
    text = f"MERGE INTO {branch} q USING {branch} k ON false WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    state = state_of(session)
    command = state.analyzer().execute(state.sqlParser().parsePlan(text))
    if command.nodeName() != "WriteDelta" or "_row_id" in command.query().schema().fieldNames():
        return None
    return command


def _code(session: SparkSession, operation: str) -> str:
    """Return the number of an operation on a row of such a command."""
    return str(static_member(session, f"org.apache.spark.sql.catalyst.util.RowDeltaUtils.{operation}_OPERATION")())


def _items(columns: Sequence[Column], values: Mapping[str, str]) -> str:
    """Return the items of a SELECT that gives *columns*: the values by their names, NULL for the others."""
    return ", ".join(
        f"{values.get(column.name, f'CAST(NULL AS {column.type})')} AS {quote(column.name)}" for column in columns
    )
