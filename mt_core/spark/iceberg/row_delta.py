"""Row deltas: rows of a table that go, by the places where its files hold them, and rows that come, in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import quote
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.jvm_objects import state_of, static_member
from mt_core.spark.iceberg.branch_commit import BranchCommit
from mt_core.spark.iceberg.computed_rows import Computed
from mt_core.spark.iceberg.opened_files import is_partitioned
from mt_core.spark.iceberg.recent_files import RecentFiles, add_to
from mt_core.spark.iceberg.replacement import run_command
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.iceberg.touched_rows import PLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """The rows `gone` go, which have their PLACE, `come`, in the table's columns, come: those of a query if a job computes them."""

    gone: Computed
    come: Computed | DataFrame

    def written_by_driver(self, commit: BranchCommit, before: RecentFiles | None) -> RecentFiles | None:
        """Carry the change out by *commit* without a job; return its files.

        They replace those of the changes *before*, if they are few. None, and the commit is not made, if the change is not of few
        rows, or the driver does not write files of the table.
        """
        gone = self.gone.rows
        come = written_here(commit, self.come)
        if come is None or gone is None:
            return None
        update = commit.table.newRowDelta()
        files = add_to(update, commit.files, come.array(), gone, before)
        commit.make(update, removes=before is not None)
        return files

    def write_into(self, commit: BranchCommit) -> None:
        """Carry the change out by one job of Spark's: by a MERGE that deletes rows by their places, as the table has to say."""
        come = self.come.frame if isinstance(self.come, Computed) else self.come
        few = isinstance(self.come, Computed) and self.come.few and self.gone.few
        session = come.sparkSession
        command = _merge_command(session, commit.sql)
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
            run_command(session, command.withNewQuery(frame._jdf.queryExecution().analyzed()), commit.summary)


def written_here(commit: BranchCommit, rows: DataFrame | Computed) -> Any | None:
    """Return *rows* in the JVM, of which the driver writes a file; None if a job is to write them, to partitions for one."""
    if not isinstance(rows, Computed) or is_partitioned(commit.table) or rows.java is None:
        return None
    return rows.java if commit.files.stores(rows.schema) else None


def _merge_command(session: SparkSession, branch: str) -> Any:
    """Return Spark's command that deletes rows of *branch* by file and position and inserts others, for any rows."""
    text = f"MERGE INTO {branch} q USING {branch} k ON false WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    state = state_of(session)
    command = state.analyzer().execute(state.sqlParser().parsePlan(text))
    assert command.nodeName() == "WriteDelta", f"{branch} does not delete rows by their places"
    return command


def _code(session: SparkSession, operation: str) -> str:
    """Return the number of an operation on a row of such a command."""
    return str(static_member(session, f"org.apache.spark.sql.catalyst.util.RowDeltaUtils.{operation}_OPERATION")())


def _items(columns: Sequence[Column], values: Mapping[str, str]) -> str:
    """Return the items of a SELECT that gives *columns*: the values by their names, NULL for the others."""
    return ", ".join(
        f"{values.get(column.name, f'CAST(NULL AS {column.type})')} AS {quote(column.name)}" for column in columns
    )
