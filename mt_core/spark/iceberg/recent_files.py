"""Recent files: the files of the latest commits to a table, which the next commit rewrites with its own rows.

Without this, a table that changes every few seconds collects one small data file and one delete file per
change, and its readers open all of them. Instead, each change replaces the files of the previous change with
files that contain the rows of both, until they are full. Full files are then merged into larger ones, as in a
two-level LSM tree.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from pyarrow import Table, compute, concat_tables, dictionary, field, int32, int64, schema, string
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from mt_core.model.storage import COPIED
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.jvm_objects import own_class, static_member
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.written_files import WRITTEN_FILES, FileWriter

MOST_RECENT = 5_000
"""The maximum number of rows, and of position deletes, in files that are rewritten with each change."""
MOST_BYTES = 1024 * 1024
"""The maximum size, in bytes, of a data file that is rewritten with each change."""
MOST_GATHERED = 50_000
"""The maximum number of rows, and of position deletes, in the files that full files are merged into."""
MOST_GATHERED_BYTES = 8 * MOST_BYTES
MOST_TABLES = 100
MOST_BUFFERED_BYTES = 64 * MOST_BYTES
"""The maximum total size, in bytes, of the cached files of all tables, whose rows are buffered in the JVM."""
FILE, POSITION = "_file", "_pos"
_PLACE = StructType([StructField(FILE, StringType()), StructField(POSITION, LongType())])
_PLACES = schema([field(FILE, string()), field(POSITION, int64())])
# Paths are dictionary-encoded, because they are long and only a few of them are distinct.
_BUFFERED_PLACES = schema([field(FILE, dictionary(int32(), string())), field(POSITION, int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentFiles:
    """A data file with `rows`, a Java list in file order, and a delete file with `places`.

    A file without rows is None. When these files are full, they are merged into `larger`, the files of
    earlier changes.
    """

    data: Any | None
    rows: Any
    deletes: Any | None
    places: Table
    larger: RecentFiles | None = None

    @property
    def size(self) -> int:
        """The size of the data file in bytes."""
        return 0 if self.data is None else int(self.data.fileSizeInBytes())

    @property
    def buffered_bytes(self) -> int:
        """The total size of the data files whose rows are buffered, in bytes."""
        return self.size + (0 if self.larger is None else self.larger.buffered_bytes)

    def replaced(self, rows: int, places: int) -> tuple[RecentFiles, ...]:
        """Return the files that a commit of *rows* and *places* more rows rewrites, newest first.

        The result is empty if these files are full and remain unchanged.
        """
        rows, places = rows + int(self.rows.size()), places + self.places.num_rows
        if self.size <= MOST_BYTES and max(rows, places) <= MOST_RECENT:
            return (self,)
        if self.larger is None or self.buffered_bytes > MOST_GATHERED_BYTES:
            return ()
        rows, places = rows + int(self.larger.rows.size()), places + self.larger.places.num_rows
        return (self, self.larger) if max(rows, places) <= MOST_GATHERED else ()


class RecentFilesCache:
    """An in-memory LRU cache of the recent files of tables. Thread-safe.

    If a table is not in the cache, its next commit writes new files.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._files: OrderedDict[TableIdentifier, tuple[Any, str, RecentFiles]] = OrderedDict()

    def of(self, session: SparkSession, table: TableIdentifier, snapshot: str) -> RecentFiles | None:
        """Return the files stored for *snapshot* of *table*, or None if they are of another snapshot."""
        with self._lock:
            jvm, at, files = self._files.get(table, (None, None, None))
        return files if jvm is session._jvm and at == snapshot else None

    def store(self, session: SparkSession, table: TableIdentifier, snapshot: str, files: RecentFiles) -> None:
        """Store the files that *snapshot* of *table* added.

        If the cache is full, the least recently used tables are evicted.
        """
        with self._lock:
            self._files[table] = (session._jvm, snapshot, files)
            self._files.move_to_end(table)
            total = sum(each.buffered_bytes for _, _, each in self._files.values())
            while len(self._files) > MOST_TABLES or total > MOST_BUFFERED_BYTES:
                _, (_, _, evicted) = self._files.popitem(last=False)
                total -= evicted.buffered_bytes


def add_to(
    update: Any, writer: FileWriter, inserts: Any, deleted: Table, previous: RecentFiles | None
) -> RecentFiles:
    """Add the new rows in *inserts*, a Java list, and position deletes for *deleted* rows to *update*.

    Return the new files. They replace the *previous* files if those have room or are merged. An empty
    *deleted* need not have the position columns.
    """
    session = writer.session
    places = deleted.select(_PLACES.names).cast(_PLACES) if deleted.num_rows else _PLACES.empty_table()
    replaced = () if previous is None else previous.replaced(len(inserts), places.num_rows)
    rows, places = _together(session, update, replaced, places)
    rows.addAll(inserts)
    data = deletes = None
    if rows.size():
        data = writer.data_file(rows)
        update.addRows(data)
    if places.num_rows:
        places = places.sort_by([(FILE, "ascending"), (POSITION, "ascending")])
        deletes = writer.position_deletes(ComputedRows(session=session, schema=_PLACE, table=places).frame)
        update.addDeletes(deletes)
    return RecentFiles(
        data=data,
        rows=rows,
        deletes=deletes,
        places=places.cast(_BUFFERED_PLACES),
        larger=_larger(previous, replaced),
    )


def _larger(previous: RecentFiles | None, replaced: Sequence[RecentFiles]) -> RecentFiles | None:
    """Return the files that the new ones will be merged with when they are full."""
    if not replaced:
        return None if previous is None else replace(previous, larger=None)
    return replaced[-1].larger


def _together(
    session: SparkSession, update: Any, replaced: Sequence[RecentFiles], places: Table
) -> tuple[Any, Table]:
    """Remove the *replaced* files in *update*. Return their remaining rows and all position deletes."""
    rows = static_member(session, "java.util.ArrayList")()
    for files in replaced:
        remaining = files.rows
        if files.data is not None:
            own = compute.equal(places[FILE], files.data.location())
            positions = places.filter(own)[POSITION].to_pylist()
            remaining = own_class(session, WRITTEN_FILES).without(remaining, json.dumps(positions))
            places = places.filter(compute.invert(own))
            update.removeRows(files.data)
        if files.deletes is not None:
            update.removeDeletes(files.deletes)
        rows.addAll(remaining)
        places = concat_tables([files.places.cast(_PLACES), places])
    if rows.size():
        update.set(COPIED, str(rows.size()))
    if replaced:
        update.validateDeletedFiles()
    return rows, places
