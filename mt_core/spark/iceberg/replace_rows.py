"""Replacement of rows in a table: one held commit, by the cheapest method that the table permits.

A change adds rows (`AddedRows`), replaces all rows or the rows that meet a condition (`AllRows`), or
replaces rows in place. The rows to delete in place are identified by their keys (`Replacement`) or by their
positions in data files (`RowDelta`). Iceberg has three methods to delete rows by key, in order of
preference:

1. An *equality delete*, a file with the keys, reads no files but makes readers compare keys. It is used only
   if the table asks for it (`write.upsert`).
2. *Position deletes*: the rows are looked up, and their file positions are deleted. The driver writes
   the deletes of local rows. A job writes those of distributed rows if the table permits it
   (`write.merge.mode` = `merge-on-read`).
3. A *MERGE* (copy-on-write) rewrites every file that contains such a row.

If the caller has determined that it is cheaper, the whole table is rewritten instead.

A Spark job takes 100 to 300 ms, even for a single row, so the driver writes local rows itself
(`FileWriter`). It uses a job where only Spark's writer can do the work: to distribute rows over partitions,
to sort them, and to apply writer options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from mt_core.model.storage import EQUALITY_DELETE, UPSERT
from mt_core.spark.driver.jvm_objects import static_member, text_map
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.equality_deletes import upserted
from mt_core.spark.iceberg.find_rows import LookupKeys, TableVersion, find_rows, is_partitioned
from mt_core.spark.iceberg.held_commit import HeldCommit
from mt_core.spark.iceberg.recent_files import RecentFiles
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.row_delta import RowDelta, local_rows_to_write

_ALL_ROWS = "total-records"
_MERGE_MODE, _MERGE_ON_READ, _COPY_ON_WRITE = "write.merge.mode", "merge-on-read", "copy-on-write"
_POSITION_DELETE_FORMAT = 2
"""The only format version with position delete files: 1 has no deletes, and 3 has deletion vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedRows:
    """Rows to add to the table."""

    rows: DataFrame | ComputedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class AllRows:
    """Rows that replace all rows, or the rows that meet the condition `where`."""

    rows: DataFrame | ComputedRows
    where: SparkColumn | None = None


Change = AddedRows | AllRows | Replacement | RowDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModes:
    """The methods that may delete rows of a table in place.

    `positions` permits position deletes of any number of rows, `local_positions` only of local rows.
    """

    equality: bool
    positions: bool
    local_positions: bool
    partitioned: bool

    @classmethod
    def of(cls, session: SparkSession, table: Any) -> Self:
        """Return the methods that the Iceberg *table* permits."""
        properties, version = (
            text_map(session, table.properties()),
            int(table.operations().current().formatVersion()),
        )
        mode, has_positions = properties.get(_MERGE_MODE, "").lower(), version == _POSITION_DELETE_FORMAT
        wants_equality = properties.get(UPSERT) == EQUALITY_DELETE and version >= _POSITION_DELETE_FORMAT
        # An equality delete in a partition does not apply to files of an earlier partition spec.
        reaches_all = table.spec().isUnpartitioned() or table.specs().size() == 1
        return cls(
            equality=wants_equality and reaches_all,
            positions=has_positions and mode == _MERGE_ON_READ,
            local_positions=has_positions and mode != _COPY_ON_WRITE,
            partitioned=is_partitioned(table),
        )

    @property
    def looks_up_all(self) -> bool:
        """True if all rows to delete are looked up, however many, and not deleted by equality deletes."""
        return self.positions and not (self.equality and self.partitioned)


def replace_rows(
    commit: HeldCommit,
    change: Change,
    modes: DeleteModes | None,
    recent: RecentFiles | None = None,
) -> RecentFiles | None:
    """Commit *change*. An empty change may commit nothing.

    Without *modes*, the whole table is rewritten. *recent* lists the files of the previous changes, which
    this commit may rewrite together with its own. Returns the files that the next change may rewrite, or None
    if there are none.
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
            commit.overwrite(change.whole(commit.before), lit(True))
        case Replacement(rows=ComputedRows()) if _is_empty(commit):
            _add(commit, AddedRows(rows=change.rows))
        case Replacement() if modes.equality and upserted(change, commit):
            pass
        case Replacement():
            delta = _looked_up(commit, change, modes)
            if delta is not None:
                return _delete_places(commit, delta, modes, recent)
            change.write_into(commit)
    return None


def _looked_up(commit: HeldCommit, change: Replacement, modes: DeleteModes) -> RowDelta | None:
    """Return *change* with the positions of the rows to delete, or None if a MERGE must write it."""
    is_local = (
        modes.local_positions and change.values.few and local_rows_to_write(commit, change.rows) is not None
    )
    if not modes.looks_up_all and not is_local:
        return None
    at = TableVersion(table=commit.table, snapshot=str(commit.base))
    deletes = find_rows(commit.session, at, change.keys, LookupKeys(rows=change.values, keys=change.keys))
    return RowDelta(gone=deletes, come=change.rows) if modes.positions or deletes.few else None


def _add(commit: HeldCommit, change: AddedRows) -> None:
    rows, update = change.rows, commit.table.newAppend
    if not commit.options and isinstance(rows, ComputedRows) and rows.few and not rows.count():
        commit.make(update())
        return
    files = _files(commit, rows)
    if files is None:
        commit.append(rows.frame if isinstance(rows, ComputedRows) else rows)
        return
    append = update()
    for file in files:
        append.appendFile(file)
    commit.make(append)


def _overwrite(commit: HeldCommit, change: AllRows) -> None:
    rows = change.rows
    files = _files(commit, rows) if change.where is None else None
    if files is None:
        frame = rows.frame if isinstance(rows, ComputedRows) else rows
        commit.overwrite(frame, lit(True) if change.where is None else change.where)
        return
    every = static_member(commit.session, "org.apache.iceberg.expressions.Expressions.alwaysTrue")()
    overwrite = commit.table.newOverwrite().overwriteByRowFilter(every)
    for file in files:
        overwrite.addFile(file)
    commit.make(overwrite, removes=True)


def _delete_places(
    commit: HeldCommit, delta: RowDelta, modes: DeleteModes, recent: RecentFiles | None
) -> RecentFiles | None:
    # Recent files are rewritten only for tables that ask for equality deletes, because rewriting makes each
    # change larger for incremental readers of the table.
    recent = recent if modes.equality else None
    files = delta.write_on_driver(commit, recent)
    if files is None:
        delta.write_into(commit)
    return files if modes.equality else None


def _files(commit: HeldCommit, rows: DataFrame | ComputedRows) -> list[Any] | None:
    """Write *rows* on the driver and return their files, or None if a job must write them."""
    if commit.options or not isinstance(rows, ComputedRows) or not commit.table.sortOrder().isUnsorted():
        return None
    java_rows = local_rows_to_write(commit, rows)
    if java_rows is None:
        return None
    return [commit.files.data_file(java_rows.list())] if rows.count() else []


def _is_empty(commit: HeldCommit) -> bool:
    """Return whether the table is empty according to the summary of the base snapshot."""
    base = commit.table.snapshot(int(commit.base or 0))
    summary = {} if base is None else text_map(commit.session, base.summary())
    return int(summary.get(_ALL_ROWS) or 1) == 0
