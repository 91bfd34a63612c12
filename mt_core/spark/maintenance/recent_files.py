"""Recent files: what the last changes have written to a table, which the next one writes again together with its own.

A reader opens one file of data and one of deletes in place of as many as there were changes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pyarrow import Table, compute, concat_tables, field, int64, schema, string
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from mt_core.model.storage import COPIED
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.jvm_objects import java_list, static_member
from mt_core.spark.maintenance.jvm_rows import frame_of
from mt_core.spark.maintenance.written_files import FileWriter

MOST_RECENT = 5_000
"""Rows, and places of rows that went, up to which they are written again."""
MOST_BYTES = 1024 * 1024
"""Size of the file of data up to which that is done: its rows stay in the memory of the JVM."""
MOST_TABLES = 100
FILE, POSITION = "_file", "_pos"
_PLACE = StructType([StructField(FILE, StringType()), StructField(POSITION, LongType())])
_PLACES = schema([field(FILE, string()), field(POSITION, int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentFiles:
    """A file of data with `rows`, a list of the JVM in their order, and one of deletes with `places`; None for one without any."""

    data: Any | None
    rows: Any
    deletes: Any | None
    places: Table

    def has_room(self, rows: int, places: int) -> bool:
        """Return whether so many more are written together with these."""
        size = 0 if self.data is None else int(self.data.fileSizeInBytes())
        counts = (int(self.rows.size()) + rows, self.places.num_rows + places)
        return size <= MOST_BYTES and max(counts) <= MOST_RECENT


class RecentFilesOfTables:
    """The recent files of tables, in memory: a process that has none of a table begins with new ones. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[TableIdentifier, tuple[Any, str, RecentFiles]] = OrderedDict()

    def of(self, session: SparkSession, table: TableIdentifier, snapshot: str) -> RecentFiles | None:
        """Return the files that were kept with *snapshot* of *table*; None if another one was written since."""
        with self._lock:
            jvm, at, files = self._kept.get(table, (None, None, None))
        return files if jvm is session._jvm and at == snapshot else None

    def keep(self, session: SparkSession, table: TableIdentifier, snapshot: str, files: RecentFiles) -> None:
        """Keep the files that *snapshot* of *table* has added."""
        with self._lock:
            self._kept[table] = (session._jvm, snapshot, files)
            self._kept.move_to_end(table)
            while len(self._kept) > MOST_TABLES:
                self._kept.popitem(last=False)


def add_to(update: Any, writer: FileWriter, come: Any, gone: Table, before: RecentFiles | None) -> RecentFiles:
    """Add rows that *come*, an array of the JVM, and deletes of the places of rows *gone* to *update*; return their files.

    The files *before* are replaced if there is room in them. *gone* has no places if it has no rows.
    """
    session, places = writer.session, _PLACES.empty_table()
    if gone.num_rows:
        places = gone.select(_PLACES.names).cast(_PLACES)
    rows = static_member(session, "java.util.ArrayList")()
    if before is not None and before.has_room(len(come), places.num_rows):
        rows, places = _together(update, before, rows, places)
    rows.addAll(java_list(session, come))
    data = deletes = None
    if rows.size():
        data = writer.data_file(rows.toArray())
        update.addRows(data)
    if places.num_rows:
        places = places.sort_by([(FILE, "ascending"), (POSITION, "ascending")])
        deletes = writer.position_deletes(frame_of(session, _PLACE, places))
        update.addDeletes(deletes)
    return RecentFiles(data=data, rows=rows, deletes=deletes, places=places)


def _together(update: Any, before: RecentFiles, rows: Any, places: Table) -> tuple[Any, Table]:
    """Take the files *before* out by *update*; return their rows that stay, in the list *rows*, and all places."""
    rows.addAll(before.rows)
    if before.data is not None:
        own = compute.equal(places[FILE], before.data.location())
        for position in sorted(places.filter(own)[POSITION].to_pylist(), reverse=True):
            del rows[position]
        places = places.filter(compute.invert(own))
        update.removeRows(before.data)
    if before.deletes is not None:
        update.removeDeletes(before.deletes)
    if rows.size():
        update.set(COPIED, str(rows.size()))
    update.validateDeletedFiles()
    return rows, concat_tables([before.places, places])
