"""Checkpoints of streams: the folders in which Spark keeps how far a stream is, and their copies, the savepoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid
from mt_core.spark.driver.folders import Folders

SAVEPOINT_VERSION = 1
_COPY, _FACTS = "checkpoint", "savepoint.json"
_CREATED = "created"
# Spark's file with the id of the query: a savepoint begins another one.
_QUERY = "metadata"


class Checkpoints:
    """The folders, on any file system that Spark knows. Raises Spark's own errors."""

    def __init__(self, session: SparkSession) -> None:
        self._folders = Folders(session)

    def batches(self, folder: str) -> tuple[int | None, int | None]:
        """Return the last batch that a stream began, and the last that it committed; None before the first."""
        return self._last(f"{folder}/offsets"), self._last(f"{folder}/commits")

    def offsets(self, folder: str, batch: int) -> list[Any]:
        """Return up to where each source was read by a batch, None for one that had nothing."""
        # The first line has the version of the file, the second one the settings of the batch.
        lines = self._folders.read(f"{folder}/offsets/{batch}").splitlines()[2:]
        return [None if line == "-" else json.loads(line) for line in lines]

    def note_created(self, folder: str) -> None:
        """Note that the table has been created that the stream creates; harmless if that is known."""
        if not self.has_created(folder):
            self._folders.write(f"{folder}/{_CREATED}", "")

    def has_created(self, folder: str) -> bool:
        """Return whether the stream has created its table, and has gone on."""
        return self._folders.exists(f"{folder}/{_CREATED}")

    def save(self, checkpoint: str, savepoint: str, facts: Mapping[str, Any]) -> None:
        """Copy a checkpoint, which no stream uses now, to a savepoint with *facts*; the facts, written last, make it whole."""
        if self._folders.exists(f"{savepoint}/{_FACTS}"):
            return
        self._copy(checkpoint, f"{savepoint}/{_COPY}")
        self._folders.write(f"{savepoint}/{_FACTS}", json.dumps({"version": SAVEPOINT_VERSION, **facts}))

    def facts(self, savepoint: str) -> dict[str, Any]:
        """Return the facts of a savepoint; raises DefinitionInvalid if there is none in that folder."""
        if not self._folders.exists(f"{savepoint}/{_FACTS}"):
            raise DefinitionInvalid(
                f"There is no savepoint in {savepoint}; give the path that STOP JOB … WITH SAVEPOINT answered."
            )
        body: dict[str, Any] = json.loads(self._folders.read(f"{savepoint}/{_FACTS}"))
        return body

    def restore(self, savepoint: str, checkpoint: str) -> None:
        """Give a new job the checkpoint of a savepoint; harmless if it has one already."""
        if self._folders.exists(checkpoint):
            return
        self.facts(savepoint)
        part = f"{checkpoint}.part"
        self._copy(f"{savepoint}/{_COPY}", part)
        self._folders.delete(f"{part}/{_QUERY}")
        self._folders.move(part, checkpoint)

    def delete(self, folder: str) -> None:
        """Delete a folder; harmless if there is none."""
        self._folders.delete(folder)
        self._folders.delete(f"{folder}.part")

    def _last(self, folder: str) -> int | None:
        return max((int(name) for name in self._folders.names(folder) if name.isdecimal()), default=None)

    def _copy(self, source: str, target: str) -> None:
        self._folders.delete(target)
        if self._folders.exists(source):
            self._folders.copy(source, target)
        else:
            # The stream has not begun a batch.
            self._folders.make(target)
