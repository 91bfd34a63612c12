"""Checkpoints of streams, and savepoints, which are copies of checkpoints.

A checkpoint is the folder in which Spark stores the state of a query: the offset log (`offsets/N`, what
batch N reads), the commit log (`commits/N`), the sources' own logs, and the state of the operators.
Freshtable adds three files: `job`, which distinguishes a lost checkpoint from a new one, `operators` with
the state layout, and `created`. A savepoint is a copy of a checkpoint, made between two batches, plus
`savepoint.json`. Files are written and copied in an order that makes a partial result recognizable:
`savepoint.json` is written last, and a checkpoint has the file `restoring` until its restore is complete. No
folder is renamed, because an object store does that file by file.

Three details of Spark's format need care in a copy. A new job needs a query id of its own. State schemas
are stored with absolute paths. Offsets have no source names and are matched by position only (`order`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.versions import check_version
from mt_core.errors import DefinitionInvalid
from mt_core.spark.connectors.stream_errors import NEW_JOB, StreamBroken
from mt_core.spark.files.hadoop_files import Files

SAVEPOINT_VERSION = 1
LAYOUT = 3
"""The state layout of our operators, stored in checkpoints; increased with each incompatible change."""
END_OF_TIME_MS = 253402300799000
"""The last second of the year 9999, the end of the range of Spark's date arithmetic."""
_COPY, _FACTS, _PROBE = "checkpoint", "savepoint.json", "probe"
_CREATED = "created"
_JOB = "job"
_RESTORING = "restoring"
_SOURCES = "sources"
# The file with the state layout of our operators.
_OPERATORS = "operators"
# Spark's metadata of a stateful operator.
_METADATA, _SCHEMAS = "_metadata/v2", "/_stateSchema/"
# Spark's file with the query id, which a restored job must not share with the original job.
_QUERY = "metadata"


class Checkpoints:
    """Checkpoint and savepoint folders on any file system that Spark supports. Raises Spark's errors."""

    def __init__(self, session: SparkSession) -> None:
        self._folders = Files(session)

    def exists(self, folder: str) -> bool:
        """Return whether *folder* contains a checkpoint."""
        return self._folders.exists(folder)

    def begin(self, folder: str, job_id: str) -> None:
        """Create the checkpoint of a new job. If it is absent later, it has been lost."""
        if not self._folders.exists(f"{folder}/{_JOB}"):
            self._folders.write(f"{folder}/{_JOB}", job_id)

    def batches(self, folder: str) -> tuple[int | None, int | None]:
        """Return the last batch that the stream began and the last one that it committed.

        Each is None before the first batch.
        """
        return self._last(f"{folder}/offsets"), self._last(f"{folder}/commits")

    def offsets(self, folder: str, batch: int) -> list[Any]:
        """Return the end offset of each source in *batch*, or None for a source without rows."""
        # Line 1 is the file version, and line 2 has the settings of the batch.
        lines = self._folders.read(f"{folder}/offsets/{batch}").splitlines()[2:]
        return [None if line == "-" else json.loads(line) for line in lines]

    def note_created(self, folder: str) -> None:
        """Record that the stream has created its table. May be repeated."""
        if not self.has_created(folder):
            self._folders.write(f"{folder}/{_CREATED}", "")

    def has_created(self, folder: str) -> bool:
        """Return whether the stream has created its table."""
        return self._folders.exists(f"{folder}/{_CREATED}")

    def layout(self, folder: str) -> int | None:
        """Return the state layout of our operators in a checkpoint; None before its first start."""
        if not self._folders.exists(f"{folder}/{_OPERATORS}"):
            return None
        return int(json.loads(self._folders.read(f"{folder}/{_OPERATORS}"))["layout"])

    def savepoint_layout(self, savepoint: str) -> int | None:
        """Return the state layout of our operators in a savepoint, or None if it contains none."""
        return self.layout(f"{savepoint}/{_COPY}")

    def savepoint_offsets(self, savepoint: str) -> list[Any]:
        """Return the end offset of each source in a savepoint, or an empty list before the first batch."""
        _, committed = self.batches(f"{savepoint}/{_COPY}")
        return [] if committed is None else self.offsets(f"{savepoint}/{_COPY}", committed)

    def take_layout(self, folder: str) -> None:
        """Record that the states have this release's layout. Raises StreamBroken if theirs is different."""
        layout = self.layout(folder)
        if layout is None:
            self._folders.write(f"{folder}/{_OPERATORS}", json.dumps({"layout": LAYOUT}))
        elif layout != LAYOUT:
            raise StreamBroken(
                f"Checkpoint {folder} has states of operators in layout {layout}, and this release "
                f"reads layout {LAYOUT}. The release that wrote them can still drain the job: "
                f"STOP JOB … WITH SAVEPOINT WITH DRAIN emits their contents. {NEW_JOB}"
            )

    def add_last_batch(self, folder: str) -> int | None:
        """Add an empty batch with a watermark at the end of time to the checkpoint of a stopped stream.

        Spark runs the batch at the next start, which makes windows and joins emit their remaining rows.
        Return its number, or None if there is no batch yet or the last one is not committed.
        """
        began, committed = self.batches(folder)
        if committed is None or began != committed:
            return None
        version, facts, *offsets = self._folders.read(f"{folder}/offsets/{committed}").splitlines()
        last = json.dumps({**json.loads(facts), "batchWatermarkMs": END_OF_TIME_MS}, separators=(",", ":"))
        self._folders.write(f"{folder}/offsets/{committed + 1}", "\n".join([version, last, *offsets]))
        return committed + 1

    def take_back(self, folder: str, batch: int) -> None:
        """Remove a batch that `add_last_batch` added, if it has not been committed."""
        _, committed = self.batches(folder)
        if committed is None or committed < batch:
            self._folders.delete(f"{folder}/offsets/{batch}")

    def check_writable(self, savepoint: str) -> None:
        """Raise Spark's error if a savepoint cannot be written to that folder."""
        self._folders.make(savepoint)
        # A check that was killed may have left its file, which some file systems refuse to replace.
        self._folders.delete(f"{savepoint}/{_PROBE}")
        self._folders.write(f"{savepoint}/{_PROBE}", "")
        self._folders.delete(f"{savepoint}/{_PROBE}")

    def save(self, checkpoint: str, savepoint: str, facts: Mapping[str, Any]) -> None:
        """Copy the checkpoint of a stopped stream to a savepoint.

        The *facts* are written last and make the savepoint complete. A complete savepoint is not changed.
        """
        if self._folders.exists(f"{savepoint}/{_FACTS}"):
            return
        self._copy(checkpoint, f"{savepoint}/{_COPY}")
        self._folders.write(f"{savepoint}/{_FACTS}", json.dumps({"version": SAVEPOINT_VERSION, **facts}))

    def facts(self, savepoint: str) -> dict[str, Any]:
        """Return the facts of a savepoint.

        Raises DefinitionInvalid if the folder has no savepoint, and Unsupported if another release wrote it.
        """
        facts = f"{savepoint.rstrip('/')}/{_FACTS}"
        if not self._folders.exists(facts):
            raise DefinitionInvalid(
                f"There is no savepoint in {savepoint}; use the path that STOP JOB … WITH SAVEPOINT returned."
            )
        body: dict[str, Any] = json.loads(self._folders.read(facts))
        check_version(f"Savepoint {savepoint}", body, {SAVEPOINT_VERSION})
        return body

    def restore(self, savepoint: str, checkpoint: str, order: Sequence[int] | None = None) -> None:
        """Copy a savepoint to the checkpoint of a new job, or do nothing if the job already has a
        checkpoint.

        *order* lists, for each source of the job, its position in the savepoint.
        """
        restoring, names = f"{checkpoint}/{_RESTORING}", set(self._folders.names(checkpoint))
        # A restore that was killed while it created the file leaves only the first part of it.
        if _RESTORING not in names and names - {f"{_RESTORING}.part"}:
            return
        self.facts(savepoint)
        if _RESTORING not in names:
            self._folders.write(restoring, "")
        for name in names - {_RESTORING}:
            self._folders.delete(f"{checkpoint}/{name}")
        saved = f"{savepoint}/{_COPY}"
        left_out = {_QUERY, _JOB} | ({_SOURCES} if order is not None else set())
        for name in self._folders.names(saved):
            if name not in left_out:
                self._folders.copy(f"{saved}/{name}", f"{checkpoint}/{name}")
        self._relocate(checkpoint)
        if order is not None:
            self._reorder(checkpoint, order)
            # The sources' own logs are in folders numbered by position.
            for new, old in enumerate(order):
                if self._folders.exists(f"{saved}/{_SOURCES}/{old}"):
                    self._folders.copy(f"{saved}/{_SOURCES}/{old}", f"{checkpoint}/{_SOURCES}/{new}")
        self._folders.delete(restoring)

    def delete(self, folder: str) -> None:
        """Delete a folder, if it exists."""
        self._folders.delete(folder)

    def _relocate(self, checkpoint: str) -> None:
        """Rewrite the absolute paths of state schemas so that they point into *checkpoint*."""
        for operator in self._folders.names(f"{checkpoint}/state"):
            metadata = f"{checkpoint}/state/{operator}/{_METADATA}"
            for name in filter(str.isdecimal, self._folders.names(metadata)):
                version, body = self._folders.read(f"{metadata}/{name}").split("\n", 1)
                facts: dict[str, Any] = json.loads(body)
                for store in facts["stateStoreInfo"]:
                    paths = store["stateSchemaFilePaths"]
                    tails = [path[path.rindex(_SCHEMAS) :] for path in paths]
                    store["stateSchemaFilePaths"] = [f"{checkpoint}/state/{operator}{tail}" for tail in tails]
                self._folders.delete(f"{metadata}/{name}")
                self._folders.write(
                    f"{metadata}/{name}", f"{version}\n{json.dumps(facts, separators=(',', ':'))}"
                )

    def _reorder(self, checkpoint: str, order: Sequence[int]) -> None:
        """Move the offset of each source to its position in *order*."""
        offsets = f"{checkpoint}/offsets"
        for name in filter(str.isdecimal, self._folders.names(offsets)):
            version, facts, *lines = self._folders.read(f"{offsets}/{name}").splitlines()
            self._folders.delete(f"{offsets}/{name}")
            self._folders.write(
                f"{offsets}/{name}", "\n".join([version, facts, *(lines[old] for old in order)])
            )

    def _last(self, folder: str) -> int | None:
        return max((int(name) for name in self._folders.names(folder) if name.isdecimal()), default=None)

    def _copy(self, source: str, target: str) -> None:
        self._folders.delete(target)
        if self._folders.exists(source):
            self._folders.copy(source, target)
        else:
            # The stream has not started any batch.
            self._folders.make(target)
