"""The files of a catalog, accessed in the same way as by the catalog itself."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.conf import IO_IMPL
from mt_core.spark.driver.file_systems import file_io, settings_of
from mt_core.spark.driver.jvm_objects import java_class
from mt_core.spark.files.hadoop_files import Files

_PREFIXES = "org.apache.iceberg.io.SupportsPrefixOperations"
_HADOOP = "org.apache.iceberg.hadoop.HadoopFileIO"


class CatalogFiles:
    """Table folders, accessed through a FileIO, or through Hadoop if there is none.

    Raises Spark's errors.
    """

    def __init__(self, session: SparkSession, io: Any | None) -> None:
        self._files, self._io = Files(session), io

    @classmethod
    def of_catalog(cls, session: SparkSession, catalog: str) -> CatalogFiles:
        """Return the files of a catalog that writes through the FileIO of its settings, if they have one."""
        settings = settings_of(session, catalog)
        return cls(session, file_io(session, settings) if settings.get(IO_IMPL) else None)

    @classmethod
    def of_table(cls, session: SparkSession, table: Any) -> CatalogFiles:
        """Return the files of a loaded Iceberg *table*."""
        return cls(session, prefix_io(session, table))

    def has_files(self, folder: str) -> bool:
        """Return whether a folder contains anything."""
        if self._io is not None:
            return bool(self._io.listPrefix(_prefix(folder)).iterator().hasNext())
        return bool(self._files.names(folder))

    def is_same(self, one: str, other: str) -> bool:
        """Return whether two paths are the same folder. One of them may have the scheme that Spark adds."""
        if self._io is not None:
            return one.rstrip("/") == other.rstrip("/")
        return self._files.full_path(one) == self._files.full_path(other)

    def delete_folder(self, folder: str) -> None:
        """Delete a file, or a folder with its contents. It need not exist."""
        if self._io is not None:
            self._io.deletePrefix(_prefix(folder))
        else:
            self._files.delete(folder)


def prefix_io(session: SparkSession, table: Any) -> Any | None:
    """Return the FileIO of a loaded *table*, or None if Hadoop lists the table's files."""
    io = table.io()
    lists = java_class(session, _PREFIXES).isInstance(io) and not java_class(session, _HADOOP).isInstance(io)
    return io if lists else None


def _prefix(folder: str) -> str:
    # The slash is necessary because the prefix `a/orders` would also match the folder of `a/orders_old`.
    return f"{folder.rstrip('/')}/"
