"""Files of a catalog: as the catalog itself reads and writes them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.conf import IO_IMPL
from mt_core.spark.driver.file_systems import file_io, settings_of
from mt_core.spark.files.hadoop_files import Files


class CatalogFiles:
    """The folders of tables, by the FileIO that the catalog names, else by Hadoop. Raises Spark's errors."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self._session, self._settings, self._files = session, settings_of(session, catalog), Files(session)
        self._has_io = bool(self._settings.get(IO_IMPL))

    def has_files(self, folder: str) -> bool:
        """Return whether there is anything in a folder."""
        if self._has_io:
            return bool(self._io.listPrefix(_prefix(folder)).iterator().hasNext())
        return bool(self._files.names(folder))

    def is_same(self, one: str, other: str) -> bool:
        """Return whether two texts name one folder: Spark adds the scheme of a file system to a path."""
        if self._has_io:
            return one.rstrip("/") == other.rstrip("/")
        return self._files.full_path(one) == self._files.full_path(other)

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all in it, or a file; harmless if there is none."""
        if self._has_io:
            self._io.deletePrefix(_prefix(folder))
        else:
            self._files.delete(folder)

    @property
    def _io(self) -> Any:
        return file_io(self._session, self._settings)


def _prefix(folder: str) -> str:
    # With the slash: a folder whose name continues after this one may belong to another table.
    return f"{folder.rstrip('/')}/"
