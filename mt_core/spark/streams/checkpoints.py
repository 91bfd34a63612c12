"""Checkpoints of streams: the folders in which Spark keeps how far a stream is, and their copies, the savepoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid
from mt_core.spark.driver.file_systems import entries_of
from mt_core.spark.driver.jvm_objects import static_member

SAVEPOINT_VERSION = 1
_COPY, _FACTS = "checkpoint", "savepoint.json"
# Spark's file with the id of the query: a savepoint begins another one.
_QUERY = "metadata"


class Checkpoints:
    """The folders, on any file system that Spark knows. Raises Spark's own errors."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def batches(self, folder: str) -> tuple[int | None, int | None]:
        """Return the last batch that a stream began, and the last that it committed; None before the first."""
        return self._last(f"{folder}/offsets"), self._last(f"{folder}/commits")

    def offsets(self, folder: str, batch: int) -> list[Any]:
        """Return up to where each source was read by a batch, None for one that had nothing."""
        # The first line has the version of the file, the second one the settings of the batch.
        lines = self._read(f"{folder}/offsets/{batch}").splitlines()[2:]
        return [None if line == "-" else json.loads(line) for line in lines]

    def save(self, checkpoint: str, savepoint: str, facts: Mapping[str, Any]) -> None:
        """Copy a checkpoint, which no stream uses now, to a savepoint with *facts*; the facts, written last, make it whole."""
        if self._exists(f"{savepoint}/{_FACTS}"):
            return
        self._copy(checkpoint, f"{savepoint}/{_COPY}")
        self._write(f"{savepoint}/{_FACTS}", json.dumps({"version": SAVEPOINT_VERSION, **facts}))

    def facts(self, savepoint: str) -> dict[str, Any]:
        """Return the facts of a savepoint; raises DefinitionInvalid if there is none in that folder."""
        if not self._exists(f"{savepoint}/{_FACTS}"):
            raise DefinitionInvalid(
                f"There is no savepoint in {savepoint}; give the path that STOP JOB … WITH SAVEPOINT answered."
            )
        body: dict[str, Any] = json.loads(self._read(f"{savepoint}/{_FACTS}"))
        return body

    def restore(self, savepoint: str, checkpoint: str) -> None:
        """Give a new job the checkpoint of a savepoint; harmless if it has one already."""
        if self._exists(checkpoint):
            return
        self.facts(savepoint)
        part = f"{checkpoint}.part"
        self._copy(f"{savepoint}/{_COPY}", part)
        self._delete(f"{part}/{_QUERY}")
        self._file_system(part).rename(self._path(part), self._path(checkpoint))

    def delete(self, folder: str) -> None:
        """Delete a folder; harmless if there is none."""
        self._delete(folder)
        self._delete(f"{folder}.part")

    def _last(self, folder: str) -> int | None:
        names = (entry.rpartition("/")[2] for entry in entries_of(self._session, folder) or ())
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def _copy(self, source: str, target: str) -> None:
        self._delete(target)
        if not self._exists(source):
            # The stream has not begun a batch.
            self._file_system(target).mkdirs(self._path(target))
            return
        copy = static_member(self._session, "org.apache.hadoop.fs.FileUtil.copy")
        copy(
            self._file_system(source),
            self._path(source),
            self._file_system(target),
            self._path(target),
            False,
            self._hadoop,
        )

    def _read(self, file: str) -> str:
        stream = self._file_system(file).open(self._path(file))
        try:
            return str(static_member(self._session, "org.apache.commons.io.IOUtils.toString")(stream, "UTF-8"))
        finally:
            stream.close()

    def _write(self, file: str, text: str) -> None:
        part = f"{file}.part"
        stream = self._file_system(part).create(self._path(part), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self._file_system(file).rename(self._path(part), self._path(file))

    def _exists(self, path: str) -> bool:
        return bool(self._file_system(path).exists(self._path(path)))

    def _delete(self, path: str) -> None:
        self._file_system(path).delete(self._path(path), True)

    def _file_system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._hadoop)

    def _path(self, path: str) -> Any:
        return static_member(self._session, "org.apache.hadoop.fs.Path")(path)

    @property
    def _hadoop(self) -> Any:
        return self._session.sparkContext._jsc.hadoopConfiguration()
