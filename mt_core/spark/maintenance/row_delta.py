"""Row deltas: rows of a table that go, by the places where its files hold them, and rows that come, in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.identifiers import quote
from mt_core.model.table import Column
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.driver.jvm_objects import state_of, static_member
from mt_core.spark.maintenance.replacement import run_command
from mt_core.spark.maintenance.row_images import Computed, local, temporary_view
from mt_core.spark.maintenance.touched_rows import PLACE, TableAt
from mt_core.spark.maintenance.written_files import FileWriter, collected


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """Where a change is applied in place: a table as it is, and Spark's `command` that changes rows of the branch.

    `command` None: there is none that takes the places of rows.
    """

    at: TableAt
    command: Any | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """The rows `gone` go, which have their PLACE, `rows`, in the table's columns, come; `command` is Spark's for that.

    `few`: what goes is at hand, what comes is computed from rows at hand, and one task or the driver writes all of it.
    """

    command: Any
    gone: Computed
    rows: DataFrame
    few: bool

    def written_by_driver(self, table: Any, branch: str, summary: Mapping[str, str]) -> bool:
        """Carry the change out on *branch* of Iceberg's *table* as `write_into` does, but without a job.

        False, and nothing is committed, if it is not of few rows, or the table has partitions.
        """
        session, places = self.rows.sparkSession, self.gone.rows
        if not self.few or places is None or table.specs().size() > 1 or not table.spec().isUnpartitioned():
            return False
        writer = FileWriter.of(session, table)
        if not writer.stores(self.rows):
            return False
        rows = collected(self.rows)
        commit = table.newRowDelta().toBranch(branch)
        if len(rows):
            commit.addRows(writer.data_file(rows))
        if places.num_rows:
            ordered = places.select(PLACE[:2]).sort_by([(name, "ascending") for name in PLACE[:2]])
            commit.addDeletes(writer.position_deletes(collected(local(self.gone.frame, ordered))))
        for key, value in summary.items():
            commit.set(key, value)
        commit.commit()
        return True

    def write_into(self, branch: str, summary: Mapping[str, str]) -> None:
        """Carry the change out on *branch*, of which `command` is, by one commit, whose snapshot has *summary*."""
        session = self.rows.sparkSession
        columns = columns_of(self.command.query().schema())
        operation = columns[0].name
        places = {name: name for name in PLACE if name in self.gone.frame.columns}
        values = {name: quote(name) for name in self.rows.columns}
        hint = "/*+ COALESCE(1) */ " if self.few else ""
        with temporary_view(self.gone.frame) as gone, temporary_view(self.rows) as rows:
            frame = session.sql(
                f"SELECT {hint}* FROM ("
                f"SELECT {_items(columns, {operation: _code(session, 'DELETE'), **places})} FROM {gone} "
                f"UNION ALL SELECT {_items(columns, {operation: _code(session, 'INSERT'), **values})} FROM {rows})"
            )
            run_command(session, self.command.withNewQuery(frame._jdf.queryExecution().analyzed()), summary)


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
