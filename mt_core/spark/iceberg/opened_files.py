"""Opened files: files of an Iceberg table that this process reads, by our reader in the JVM, without a job of Spark's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import (
    bound_function,
    class_name,
    java_integers,
    java_items,
    own_class,
    static_member,
)
from mt_core.spark.iceberg.computed_rows import MOST_LOCAL, Computed
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type, stored_schema

MOST_FILES = 64
"""Files that are opened, and"""
MOST_DELETE_FILES = 24
"""delete files of them, up to which that takes less time than a job; a table that has more than 20 is compacted."""
FILE, POSITION = "_file", "_pos"
_ICEBERG = "org.apache.iceberg"
_OPEN = f"{_ICEBERG}.encryption.EncryptingFileIO"
_PARQUET = "PARQUET"
_EQUALITY_DELETES = "EQUALITY_DELETES"
_PACKAGE = "freshtable.files"
_UNENCRYPTED = "PlaintextEncryptionManager"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFiles:
    """Files of Iceberg's *table* in the JVM, with the places of their rows that are deleted."""

    session: SparkSession
    table: Any
    files: Any

    @classmethod
    def of(cls, session: SparkSession, table: Any, tasks: Sequence[Any]) -> Self | None:
        """Return the files that *tasks* of a scan read; None if they are many, or none that are read here."""
        opened = own_class(session, f"{_PACKAGE}.OpenedFile")
        if len(tasks) > MOST_FILES or class_name(table.encryption()) != _UNENCRYPTED:
            return None
        files = static_member(session, "java.util.ArrayList")()
        io = static_member(session, f"{_OPEN}.combine")(table.io(), table.encryption())
        deleted = _DeletedPlaces.of(session, io)
        for task in tasks:
            data, deletes = task.file(), task.deletes()
            if str(data.format()) != _PARQUET:
                return None
            file = opened(io.newInputFile(data))
            if deletes.size() and not deleted.add(deletes, str(data.location()), file):
                return None
            files.add(file)
        return cls(session=session, table=table, files=files) if deleted.places.give() else None

    def found(self, columns: StructType, values: Computed, most_read: int) -> Computed | None:
        """Return the rows of which each column of *values* has one: *columns*, FILE, which is where the file is, and POSITION.

        They may be more. The columns of *values* are the first of *columns*, with the same types. None if more rows had to be read,
        more are found than are held, or a file does not store all the columns as the table does now.
        """
        found = own_class(self.session, f"{_PACKAGE}.FoundRows").of(
            self.files, *self._stored(columns), values.java, MOST_LOCAL, most_read
        )
        return self._rows(found)

    def changed_to(self, later: OpenedFiles, sign: str, most: int) -> Computed | None:
        """Return rows that make those of these files those of *later* ones, some of which may be the same.

        Column *sign* has -1 for a row that goes, 1 for one that comes. None if there are more than *most*, or a file does not store
        all columns as the table does now.
        """
        columns = stored_schema(self.session, self.table)
        changed = own_class(self.session, f"{_PACKAGE}.ChangedRows").of(
            self.files, later.files, *self._stored(columns), sign, most
        )
        return self._rows(changed)

    def _stored(self, columns: StructType) -> tuple[Any, Any]:
        """Return *columns* as the JVM has them, and the ids by which files know them."""
        fields = json.loads(static_member(self.session, f"{_ICEBERG}.SchemaParser.toJson")(self.table.schema()))[
            "fields"
        ]
        ids = {field["name"].lower(): int(field["id"]) for field in fields}
        return (
            java_type(self.session, columns),
            java_integers(self.session, [ids[name.lower()] for name in columns.names]),
        )

    def _rows(self, rows: Any | None) -> Computed | None:
        return None if rows is None else Computed.of_java(self.session, columns_of(rows.columns()), rows)


@dataclass(slots=True, kw_only=True)
class _DeletedPlaces:
    """The places of deleted rows; `places` are those in Parquet files, `others` is how many other files there are."""

    session: SparkSession
    io: Any
    places: Any
    others: int = 0

    @classmethod
    def of(cls, session: SparkSession, io: Any) -> Self:
        """Return those of no file yet."""
        return cls(session=session, io=io, places=own_class(session, f"{_PACKAGE}.DeletedPlaces")(io))

    def add(self, deletes: Any, location: str, file: Any) -> bool:
        """Take the files *deletes* that apply to *file*, which is at *location*; False if they are not read here."""
        if not self.places.add(deletes, location, file):
            self.others += int(deletes.size())
            if self._are_many() or not self._load(deletes, location, file):
                return False
        return not self._are_many()

    def _are_many(self) -> bool:
        return int(self.places.count()) + self.others > MOST_DELETE_FILES

    def _load(self, deletes: Any, location: str, file: Any) -> bool:
        """Give *file* the places in its *deletes* by Iceberg's own reader, which knows deletion vectors."""
        if any(str(each.content()) == _EQUALITY_DELETES for each in java_items(deletes)):
            return False
        opens = bound_function(self.session, f"{_OPEN}.newInputFile", f"{_ICEBERG}.DeleteFile", self.io)
        loader = static_member(self.session, f"{_ICEBERG}.data.BaseDeleteLoader")(opens)
        try:
            loader.loadPositionDeletes(deletes, location).forEach(file)
        except SPARK_ERRORS:
            # The job that reads it says why it cannot be read.
            return False
        return True


def is_partitioned(table: Any) -> bool:
    """Return whether files of Iceberg's *table* are in partitions, or some may be."""
    return table.specs().size() > 1 or not table.spec().isUnpartitioned()
