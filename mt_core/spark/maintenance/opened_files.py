"""Opened files: files of an Iceberg table that this process reads, by our reader in the JVM, without a job of Spark's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyarrow import BufferOutputStream, Table, ipc
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import (
    bound_function,
    class_name,
    java_integers,
    java_items,
    static_member,
)
from mt_core.spark.maintenance.computed_rows import MOST_LOCAL, Computed
from mt_core.spark.maintenance.jvm_rows import reader_of, rows_of

MOST_FILES = 64
"""Files that are opened, and"""
MOST_DELETE_FILES = 16
"""delete files of them, up to which that takes less time than a job."""
FILE, POSITION = "_file", "_pos"
_ICEBERG = "org.apache.iceberg"
_OPEN = f"{_ICEBERG}.encryption.EncryptingFileIO"
_EQUALITY_DELETES = "EQUALITY_DELETES"
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
        opened = reader_of(session, "OpenedFile")
        if len(tasks) > MOST_FILES or opened is None or class_name(table.encryption()) != _UNENCRYPTED:
            return None
        files, left = static_member(session, "java.util.ArrayList")(), MOST_DELETE_FILES
        io = static_member(session, f"{_OPEN}.combine")(table.io(), table.encryption())
        for task in tasks:
            data, deletes = task.file(), task.deletes()
            left -= int(deletes.size())
            if left < 0 or str(data.format()) != "PARQUET":
                return None
            file = opened(io.newInputFile(data))
            if deletes.size():
                if any(str(each.content()) == _EQUALITY_DELETES for each in java_items(deletes)):
                    return None
                opens = bound_function(session, f"{_OPEN}.newInputFile", f"{_ICEBERG}.DeleteFile", io)
                loader = static_member(session, f"{_ICEBERG}.data.BaseDeleteLoader")(opens)
                try:
                    loader.loadPositionDeletes(deletes, data.location()).forEach(file)
                except SPARK_ERRORS:
                    # The job that reads it says why it cannot be read.
                    return None
            files.add(file)
        return cls(session=session, table=table, files=files)

    def found(self, columns: StructType, values: Table, most_read: int) -> Computed | None:
        """Return the rows of which each column of *values* has one: *columns*, FILE, the number of the file, and POSITION.

        They may be more. The columns of *values* are the first of *columns*, with the same types. None if more rows had to be read,
        more are found than are held, or a file does not store all the columns as the table does now.
        """
        found = self._reader("FoundRows").of(self.files, *self._stored(columns), _stream(values), MOST_LOCAL, most_read)
        number = StructField(FILE, IntegerType(), False)
        return self._rows(found, StructType([*columns.fields, number, StructField(POSITION, LongType(), False)]))

    def changed_to(self, later: OpenedFiles, sign: str, most: int) -> Computed | None:
        """Return rows that make those of these files those of *later* ones, some of which may be the same.

        Column *sign* has -1 for a row that goes, 1 for one that comes. None if there are more than *most*, or a file does not store
        all columns as the table does now.
        """
        columns = stored_schema(self.session, self.table)
        changed = self._reader("ChangedRows").of(self.files, later.files, *self._stored(columns), sign, most)
        return self._rows(changed, StructType([*columns.fields, StructField(sign, IntegerType(), False)]))

    def _reader(self, name: str) -> Any:
        found = reader_of(self.session, name)
        assert found is not None, name
        return found

    def _stored(self, columns: StructType) -> tuple[Any, Any]:
        """Return *columns* as the JVM has them, and the ids by which files know them."""
        fields = json.loads(static_member(self.session, f"{_ICEBERG}.SchemaParser.toJson")(self.table.schema()))[
            "fields"
        ]
        ids = {field["name"].lower(): int(field["id"]) for field in fields}
        return (
            self.session._jsparkSession.parseDataType(columns.json()),
            java_integers(self.session, [ids[name.lower()] for name in columns.names]),
        )

    def _rows(self, stream: str | None, columns: StructType) -> Computed | None:
        if stream is None:
            return None
        return Computed(session=self.session, schema=columns, rows=rows_of(self.session, columns, stream))


def is_partitioned(table: Any) -> bool:
    """Return whether files of Iceberg's *table* are in partitions, or some may be."""
    return table.specs().size() > 1 or not table.spec().isUnpartitioned()


def stored_schema(session: SparkSession, table: Any) -> StructType:
    """Return the columns of Iceberg's *table* as Spark has them."""
    schema = static_member(session, f"{_ICEBERG}.spark.SparkSchemaUtil.convert")(table.schema())
    return StructType.fromJson(json.loads(schema.json()))


def _stream(values: Table) -> bytes:
    """Return *values* as a stream of Arrow's of one batch."""
    sink = BufferOutputStream()
    with ipc.new_stream(sink, values.schema) as writer:
        writer.write_table(values.combine_chunks())
    return bytes(sink.getvalue())
