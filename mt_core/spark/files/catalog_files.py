"""The files of a catalog, accessed in the same way as by the catalog itself."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.conf import IO_IMPL
from mt_core.spark.driver.file_systems import file_io, settings_of
from mt_core.spark.files.hadoop_files import Files


class CatalogFiles:
    """Table folders, accessed through the catalog's FileIO, or through Hadoop if it has none.

    Raises Spark's errors.
    """

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self._session, self._settings, self._files = session, settings_of(session, catalog), Files(session)
        self._has_io = bool(self._settings.get(IO_IMPL))

    def has_files(self, folder: str) -> bool:
        """Return whether a folder contains anything."""
        if self._has_io:
            return bool(self._io.listPrefix(_prefix(folder)).iterator().hasNext())
        return bool(self._files.names(folder))

    def is_same(self, one: str, other: str) -> bool:
        """Return whether two paths are the same folder. One of them may have the scheme that Spark adds."""
        if self._has_io:
            return one.rstrip("/") == other.rstrip("/")
        return self._files.full_path(one) == self._files.full_path(other)

    def delete_folder(self, folder: str) -> None:
        """Delete a file, or a folder with its contents. It need not exist."""
        if self._has_io:
            self._io.deletePrefix(_prefix(folder))
        else:
            self._files.delete(folder)

    @property
    def _io(self) -> Any:
        return file_io(self._session, self._settings)


def _prefix(folder: str) -> str:
    # The slash is necessary because the prefix `a/orders` would also match the folder of `a/orders_old`.
    return f"{folder.rstrip('/')}/"
