"""Recent files: what the last changes have written to a table, which the next one writes again together
with its own.

A reader opens one file of data and one of deletes in place of as many as there were changes.
Files that are full are gathered in larger ones.
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
from mt_core.spark.iceberg.computed_rows import Computed
from mt_core.spark.iceberg.written_files import WRITTEN_FILES, FileWriter

MOST_RECENT = 5_000
"""Rows, and places of rows that went, up to which they are written again with each change."""
MOST_BYTES = 1024 * 1024
"""Size of the file of data up to which that is done."""
MOST_GATHERED = 50_000
"""Rows, and places, up to which files that are full are gathered in larger ones."""
MOST_GATHERED_BYTES = 8 * MOST_BYTES
MOST_TABLES = 100
MOST_HELD_BYTES = 64 * MOST_BYTES
"""Size of the files of all tables together: their rows stay in the memory of the JVM."""
FILE, POSITION = "_file", "_pos"
_PLACE = StructType([StructField(FILE, StringType()), StructField(POSITION, LongType())])
_PLACES = schema([field(FILE, string()), field(POSITION, int64())])
# The names of files are as long as a hundred numbers, and few.
_HELD_PLACES = schema([field(FILE, dictionary(int32(), string())), field(POSITION, int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentFiles:
    """A file of data with `rows`, a list of the JVM in their order, and one of deletes with `places`;
    None for one without any.

    `larger` are those of the changes before, with which these are gathered when they are full.
    """

    data: Any | None
    rows: Any
    deletes: Any | None
    places: Table
    larger: RecentFiles | None = None

    @property
    def size(self) -> int:
        """In bytes, of the file of data."""
        return 0 if self.data is None else int(self.data.fileSizeInBytes())

    @property
    def held(self) -> int:
        """The bytes of all files of data whose rows are held."""
        return self.size + (0 if self.larger is None else self.larger.held)

    def replaced(self, rows: int, places: int) -> tuple[RecentFiles, ...]:
        """Return the files that so many more are written together with, the newest first:
        none if these are full and stay.
        """
        rows, places = rows + int(self.rows.size()), places + self.places.num_rows
        if self.size <= MOST_BYTES and max(rows, places) <= MOST_RECENT:
            return (self,)
        if self.larger is None or self.held > MOST_GATHERED_BYTES:
            return ()
        rows, places = rows + int(self.larger.rows.size()), places + self.larger.places.num_rows
        return (self, self.larger) if max(rows, places) <= MOST_GATHERED else ()


class RecentFilesOfTables:
    """The recent files of tables, in memory: a process that has none of a table begins with new ones.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[TableIdentifier, tuple[Any, str, RecentFiles]] = OrderedDict()

    def of(self, session: SparkSession, table: TableIdentifier, snapshot: str) -> RecentFiles | None:
        """Return the files that were kept with *snapshot* of *table*;
        None if another one was written since.
        """
        with self._lock:
            jvm, at, files = self._kept.get(table, (None, None, None))
        return files if jvm is session._jvm and at == snapshot else None

    def keep(self, session: SparkSession, table: TableIdentifier, snapshot: str, files: RecentFiles) -> None:
        """Keep the files that *snapshot* of *table* has added."""
        with self._lock:
            self._kept[table] = (session._jvm, snapshot, files)
            self._kept.move_to_end(table)
            held = sum(each.held for _, _, each in self._kept.values())
            while len(self._kept) > MOST_TABLES or held > MOST_HELD_BYTES:
                _, (_, _, dropped) = self._kept.popitem(last=False)
                held -= dropped.held


def add_to(
    update: Any, writer: FileWriter, come: Any, gone: Table, before: RecentFiles | None
) -> RecentFiles:
    """Add rows that *come*, a list of the JVM, and deletes of the places of rows *gone* to *update*;
    return their files.

    The files *before* are replaced if there is room in them, or if they are gathered.
    *gone* has no places if it has no rows.
    """
    session = writer.session
    places = gone.select(_PLACES.names).cast(_PLACES) if gone.num_rows else _PLACES.empty_table()
    replaced = () if before is None else before.replaced(len(come), places.num_rows)
    rows, places = _together(session, update, replaced, places)
    rows.addAll(come)
    data = deletes = None
    if rows.size():
        data = writer.data_file(rows)
        update.addRows(data)
    if places.num_rows:
        places = places.sort_by([(FILE, "ascending"), (POSITION, "ascending")])
        deletes = writer.position_deletes(Computed(session=session, schema=_PLACE, table=places).frame)
        update.addDeletes(deletes)
    return RecentFiles(
        data=data,
        rows=rows,
        deletes=deletes,
        places=places.cast(_HELD_PLACES),
        larger=_larger(before, replaced),
    )


def _larger(before: RecentFiles | None, replaced: Sequence[RecentFiles]) -> RecentFiles | None:
    """Return the files that the new ones are gathered with when they are full."""
    if not replaced:
        return None if before is None else replace(before, larger=None)
    return replaced[-1].larger


def _together(
    session: SparkSession, update: Any, replaced: Sequence[RecentFiles], places: Table
) -> tuple[Any, Table]:
    """Take the files *replaced* out by *update*; return a list of their rows that stay, and all places."""
    rows = static_member(session, "java.util.ArrayList")()
    for files in replaced:
        stay = files.rows
        if files.data is not None:
            own = compute.equal(places[FILE], files.data.location())
            gone = places.filter(own)[POSITION].to_pylist()
            stay = own_class(session, WRITTEN_FILES).without(stay, json.dumps(gone))
            places = places.filter(compute.invert(own))
            update.removeRows(files.data)
        if files.deletes is not None:
            update.removeDeletes(files.deletes)
        rows.addAll(stay)
        places = concat_tables([files.places.cast(_PLACES), places])
    if rows.size():
        update.set(COPIED, str(rows.size()))
    if replaced:
        update.validateDeletedFiles()
    return rows, places
