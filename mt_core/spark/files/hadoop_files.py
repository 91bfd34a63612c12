"""Files and folders on Spark's file systems, accessed through Hadoop's FileSystem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import EngineError
from mt_core.spark.driver.jvm_objects import static_member


class Files:
    """Reads, writes, moves and deletes files. Raises Spark's errors untranslated."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def exists(self, path: str) -> bool:
        return bool(self._file_system(path).exists(self._path(path)))

    def names(self, folder: str) -> list[str]:
        """Return the names of the entries of a folder, or an empty list if the folder does not exist."""
        if not self.exists(folder):
            return []
        entries = self._file_system(folder).listStatus(self._path(folder))
        return [str(entries[index].getPath().getName()) for index in range(len(entries))]

    def files_below(self, folder: str) -> list[str]:
        """Return the files below a folder, recursively, as sorted paths relative to the folder."""
        start, paths = self.full_path(folder), list[str]()
        files = self._file_system(folder).listFiles(self._path(start), True)
        while files.hasNext():
            paths.append(str(files.next().getPath().toString()).removeprefix(f"{start}/"))
        return sorted(paths)

    def missing_above(self, path: str) -> tuple[str, ...]:
        """Return the parent folders of *path* that do not exist, the deepest first."""
        missing: list[str] = []
        above = self._path(path).getParent()
        while above is not None and not self.exists(str(above.toString())):
            missing.append(str(above.toString()))
            above = above.getParent()
        return tuple(missing)

    def full_path(self, path: str) -> str:
        """Return *path* as an absolute path with its scheme."""
        return str(self._file_system(path).makeQualified(self._path(path)).toString())

    def read(self, file: str) -> str:
        stream = self._file_system(file).open(self._path(file))
        try:
            return str(
                static_member(self._session, "org.apache.commons.io.IOUtils.toString")(stream, "UTF-8")
            )
        finally:
            stream.close()

    def write(self, file: str, text: str) -> None:
        """Write a file. The write is atomic on file systems with an atomic rename."""
        part = f"{file}.part"
        stream = self._file_system(part).create(self._path(part), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self.move(part, file)

    def move(self, source: str, target: str) -> None:
        """Rename a file or a folder within its file system; raises EngineError if the system refuses."""
        if not self.renamed(source, target):
            raise EngineError(f"The file system refused to rename {source} to {target}.")

    def renamed(self, source: str, target: str) -> bool:
        """Rename a file or a folder; return whether the file system did it.

        Object stores and HDFS refuse to replace an existing file; a local file system replaces it.
        """
        return bool(self._file_system(source).rename(self._path(source), self._path(target)))

    def make(self, folder: str) -> None:
        """Create a folder and its parents. They may exist."""
        self._file_system(folder).mkdirs(self._path(folder))

    def copy(self, source: str, target: str) -> None:
        copy = static_member(self._session, "org.apache.hadoop.fs.FileUtil.copy")
        copy(
            self._file_system(source),
            self._path(source),
            self._file_system(target),
            self._path(target),
            False,
            self._hadoop,
        )

    def copy_here(self, source: str, target: Path) -> None:
        """Copy a file to this machine, without a Hadoop checksum file next to it."""
        local = static_member(self._session, "org.apache.hadoop.fs.Path")(target.absolute().as_uri())
        self._file_system(source).copyToLocalFile(False, self._path(source), local, True)

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its contents. It need not exist."""
        self._file_system(path).delete(self._path(path), True)

    def _file_system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._hadoop)

    def _path(self, path: str) -> Any:
        return static_member(self._session, "org.apache.hadoop.fs.Path")(path)

    @property
    def _hadoop(self) -> Any:
        return self._session.sparkContext._jsc.hadoopConfiguration()
