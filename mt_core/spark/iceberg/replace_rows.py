"""How rows of a table are replaced: one commit to a branch, in the cheapest of the ways
that the table allows.

Rows are added, replaced all, or replaced in place. Three things are known of rows that go in place: nothing
but their keys (`Replacement`), the places where files hold them (`RowDelta`), or a condition (`AllRows`).
Rows with given keys go

1. by an *equality delete*, a file with the keys, if the table asks for it (`write.upsert`): nothing is read,
2. by *position deletes*: the rows are looked up, then deleted by their places; the driver writes those
   of few rows, a job those of many if the table says that a MERGE is to delete so (`write.merge.mode`
   = `merge-on-read`),
3. by a *MERGE*, which writes each file with such a row again.

If the caller has found it cheaper than to change the table in place, all of its rows are written again.

A job of Spark's costs 100 to 300 ms whatever it does, so the driver writes what it has at hand itself
(`FileWriter`). It leaves to a job: partitions and sort orders, whose rows have to be distributed, options of
the write, and rows that are many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from mt_core.model.storage import EQUALITY_DELETE, UPSERT
from mt_core.spark.driver.jvm_objects import static_member, text_map
from mt_core.spark.iceberg.branch_commit import BranchCommit
from mt_core.spark.iceberg.computed_rows import Computed
from mt_core.spark.iceberg.equality_deletes import upserted
from mt_core.spark.iceberg.opened_files import is_partitioned
from mt_core.spark.iceberg.recent_files import RecentFiles
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.row_delta import RowDelta, written_here
from mt_core.spark.iceberg.touched_rows import TableAt, Wanted, touched_rows

_ALL_ROWS = "total-records"
_MERGE_MODE, _MERGE_ON_READ, _COPY_ON_WRITE = "write.merge.mode", "merge-on-read", "copy-on-write"
_POSITION_DELETE_FORMAT = 2
"""The format whose delete files hold the places of rows: one before has none,
one after a deletion vector for each file.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedRows:
    """Rows that come beside those that are there."""

    rows: DataFrame | Computed


@dataclass(frozen=True, slots=True, kw_only=True)
class AllRows:
    """Rows that stand in for all that meet a condition, None: for all."""

    rows: DataFrame | Computed
    where: SparkColumn | None = None


Change = AddedRows | AllRows | Replacement | RowDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModes:
    """How rows of a table may go in place: by `equality` deletes;
    by `positions`, of any number of rows or of few only.
    """

    equality: bool
    positions: bool
    few_positions: bool
    partitioned: bool

    @classmethod
    def of(cls, session: SparkSession, table: Any) -> Self:
        """Return how rows of Iceberg's *table* may go."""
        properties, version = (
            text_map(session, table.properties()),
            int(table.operations().current().formatVersion()),
        )
        mode, holds_places = properties.get(_MERGE_MODE, "").lower(), version == _POSITION_DELETE_FORMAT
        asked = properties.get(UPSERT) == EQUALITY_DELETE and version >= _POSITION_DELETE_FORMAT
        # An equality delete of a partition does not reach files from before the table was partitioned so.
        reaches_all = table.spec().isUnpartitioned() or table.specs().size() == 1
        return cls(
            equality=asked and reaches_all,
            positions=holds_places and mode == _MERGE_ON_READ,
            few_positions=holds_places and mode != _COPY_ON_WRITE,
            partitioned=is_partitioned(table),
        )

    @property
    def looks_up(self) -> bool:
        """Whether rows that go are looked up, however many they are; not in partitions,
        which get equality deletes.
        """
        return self.positions and not (self.equality and self.partitioned)


def replace_rows(
    commit: BranchCommit,
    change: Change,
    modes: DeleteModes | None,
    recent: RecentFiles | None = None,
) -> RecentFiles | None:
    """Carry *change* out by *commit*; a change of nothing may leave the branch as it is.

    Rows are deleted in one of the *modes*; None: all rows of the table are written again. The files *recent*
    of the changes before may be written again together with the new ones. Return those that the next change
    may replace so, if there are any.
    """
    match change:
        case AddedRows():
            _add(commit, change)
        case AllRows():
            _overwrite(commit, change)
        case RowDelta():
            assert modes is not None
            return _delete_places(commit, change, modes, recent)
        case Replacement() if modes is None:
            commit.writer(change.whole(commit.before)).overwrite(lit(True))
        case Replacement(rows=Computed()) if _is_empty(commit):
            _add(commit, AddedRows(rows=change.rows))
        case Replacement() if modes.equality and upserted(change, commit):
            pass
        case Replacement():
            delta = _looked_up(commit, change, modes)
            if delta is not None:
                return _delete_places(commit, delta, modes, recent)
            change.write_into(commit)
    return None


def _looked_up(commit: BranchCommit, change: Replacement, modes: DeleteModes) -> RowDelta | None:
    """Return *change* with the places of the rows that go;
    None if they are not to be deleted by their places.
    """
    here = modes.few_positions and change.values.few and written_here(commit, change.rows) is not None
    if not modes.looks_up and not here:
        return None
    at = TableAt(table=commit.table, snapshot=str(commit.base))
    gone = touched_rows(commit.session, at, change.keys, Wanted(rows=change.values, keys=change.keys))
    return RowDelta(gone=gone, come=change.rows) if modes.positions or gone.few else None


def _add(commit: BranchCommit, change: AddedRows) -> None:
    rows, update = change.rows, commit.table.newAppend
    if not commit.options and isinstance(rows, Computed) and rows.few and not rows.count():
        commit.make(update())
        return
    files = _files(commit, rows)
    if files is None:
        commit.writer(rows.frame if isinstance(rows, Computed) else rows).append()
        return
    append = update()
    for file in files:
        append.appendFile(file)
    commit.make(append)


def _overwrite(commit: BranchCommit, change: AllRows) -> None:
    rows = change.rows
    files = _files(commit, rows) if change.where is None else None
    if files is None:
        frame = rows.frame if isinstance(rows, Computed) else rows
        commit.writer(frame).overwrite(lit(True) if change.where is None else change.where)
        return
    every = static_member(commit.session, "org.apache.iceberg.expressions.Expressions.alwaysTrue")()
    overwrite = commit.table.newOverwrite().overwriteByRowFilter(every)
    for file in files:
        overwrite.addFile(file)
    commit.make(overwrite, removes=True)


def _delete_places(
    commit: BranchCommit, delta: RowDelta, modes: DeleteModes, recent: RecentFiles | None
) -> RecentFiles | None:
    # Who reads a table by its changes reads less of it if the files of earlier ones stay.
    recent = recent if modes.equality else None
    files = delta.written_by_driver(commit, recent)
    if files is None:
        delta.write_into(commit)
    return files if modes.equality else None


def _files(commit: BranchCommit, rows: DataFrame | Computed) -> list[Any] | None:
    """Write *rows* without a job and return their files; None if a job is to write them:
    to partitions, or in an order.
    """
    if commit.options or not isinstance(rows, Computed) or not commit.table.sortOrder().isUnsorted():
        return None
    here = written_here(commit, rows)
    if here is None:
        return None
    return [commit.files.data_file(here.list())] if rows.count() else []


def _is_empty(commit: BranchCommit) -> bool:
    """Return whether the table says that it has no rows."""
    base = commit.table.snapshot(int(commit.base or 0))
    summary = {} if base is None else text_map(commit.session, base.summary())
    return int(summary.get(_ALL_ROWS) or 1) == 0
