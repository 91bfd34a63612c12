"""Checkpoints of streams: the folders in which Spark keeps how far a stream is, and their copies,
the savepoints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid
from mt_core.spark.connectors.stream_errors import NEW_JOB, StreamBroken
from mt_core.spark.files.hadoop_files import Files
from mt_core.spark.streams.operators.earlier_releases import LAYOUT, UNNUMBERED

SAVEPOINT_VERSION = 1
END_OF_TIME_MS = 253402300799000
"""The last second of the year 9999, which Spark's arithmetic on times can hold."""
_COPY, _FACTS, _PROBE = "checkpoint", "savepoint.json", "probe"
_CREATED = "created"
_JOB = "job"
# With the layout of the states of our operators.
_LAYOUT = "operators"
# What Spark notes of an operator of ours with state.
_NOTES, _SCHEMAS = "_metadata/v2", "/_stateSchema/"
# Spark's file with the id of the query: a savepoint begins another one.
_QUERY = "metadata"


class Checkpoints:
    """The folders, on any file system that Spark knows. Raises Spark's own errors."""

    def __init__(self, session: SparkSession) -> None:
        self._folders = Files(session)

    def exists(self, folder: str) -> bool:
        """Return whether there is a checkpoint."""
        return self._folders.exists(folder)

    def begin(self, folder: str, job_id: str) -> None:
        """Make the checkpoint of a job that will run, so that its absence means that it was lost."""
        if not self._folders.exists(f"{folder}/{_JOB}"):
            self._folders.write(f"{folder}/{_JOB}", job_id)

    def batches(self, folder: str) -> tuple[int | None, int | None]:
        """Return the last batch that a stream began, and the last that it committed;
        None before the first.
        """
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

    def layout(self, folder: str) -> int | None:
        """Return the layout of the states of our operators in a checkpoint;
        None if it has no states, and no number of them.
        """
        if self._folders.exists(f"{folder}/{_LAYOUT}"):
            return int(json.loads(self._folders.read(f"{folder}/{_LAYOUT}"))["layout"])
        states = f"{folder}/state"
        has_states = any(
            self._folders.exists(f"{states}/{each}/{_NOTES}") for each in self._folders.names(states)
        )
        return UNNUMBERED if has_states else None

    def savepoint_layout(self, savepoint: str) -> int | None:
        """Return the same of a savepoint."""
        return self.layout(f"{savepoint}/{_COPY}")

    def savepoint_offsets(self, savepoint: str) -> list[Any]:
        """Return up to where a savepoint has read each source, empty before the first batch."""
        _, committed = self.batches(f"{savepoint}/{_COPY}")
        return [] if committed is None else self.offsets(f"{savepoint}/{_COPY}", committed)

    def take_layout(self, folder: str) -> None:
        """Note that the states will have the layout of this release;
        raises StreamBroken if there are others.
        """
        layout = self.layout(folder)
        if layout is None:
            self._folders.write(f"{folder}/{_LAYOUT}", json.dumps({"layout": LAYOUT}))
        elif layout != LAYOUT:
            raise StreamBroken(
                f"Checkpoint {folder} has states of operators in layout {layout}, and this release "
                f"reads layout {LAYOUT}. The release that wrote them can still drain the job: "
                f"STOP JOB … WITH SAVEPOINT WITH DRAIN gives what they hold. {NEW_JOB}"
            )

    def add_last_batch(self, folder: str) -> int | None:
        """Add a batch without rows, before which all times are over, to the checkpoint of a stream
        that does not run.

        Spark runs it at the next start: what windows and joins still hold is given then.
        Returns its number, None if there is no batch yet, or the last one has not been committed.
        """
        began, committed = self.batches(folder)
        if committed is None or began != committed:
            return None
        version, facts, *offsets = self._folders.read(f"{folder}/offsets/{committed}").splitlines()
        last = json.dumps({**json.loads(facts), "batchWatermarkMs": END_OF_TIME_MS}, separators=(",", ":"))
        self._folders.write(f"{folder}/offsets/{committed + 1}", "\n".join([version, last, *offsets]))
        return committed + 1

    def take_back(self, folder: str, batch: int) -> None:
        """Remove a batch that was added, unless it has been committed."""
        _, committed = self.batches(folder)
        if committed is None or committed < batch:
            self._folders.delete(f"{folder}/offsets/{batch}")

    def check_writable(self, savepoint: str) -> None:
        """Raise Spark's error unless a savepoint can be written to that folder."""
        self._folders.make(savepoint)
        self._folders.write(f"{savepoint}/{_PROBE}", "")
        self._folders.delete(f"{savepoint}/{_PROBE}")

    def save(self, checkpoint: str, savepoint: str, facts: Mapping[str, Any]) -> None:
        """Copy a checkpoint, which no stream uses now, to a savepoint with *facts*;
        the facts, written last, make it whole.
        """
        if self._folders.exists(f"{savepoint}/{_FACTS}"):
            return
        self._copy(checkpoint, f"{savepoint}/{_COPY}")
        self._folders.write(f"{savepoint}/{_FACTS}", json.dumps({"version": SAVEPOINT_VERSION, **facts}))

    def facts(self, savepoint: str) -> dict[str, Any]:
        """Return the facts of a savepoint; raises DefinitionInvalid if there is none in that folder."""
        facts = f"{savepoint.rstrip('/')}/{_FACTS}"
        if not self._folders.exists(facts):
            raise DefinitionInvalid(
                f"There is no savepoint in {savepoint}; "
                "give the path that STOP JOB … WITH SAVEPOINT answered."
            )
        body: dict[str, Any] = json.loads(self._folders.read(facts))
        return body

    def restore(self, savepoint: str, checkpoint: str, order: Sequence[int] | None = None) -> None:
        """Give a new job the checkpoint of a savepoint; harmless if it has one already.

        Its sources are those of the savepoint in another *order*: it says of each where that has it.
        """
        if self._folders.exists(checkpoint):
            return
        self.facts(savepoint)
        part = f"{checkpoint}.part"
        self._copy(f"{savepoint}/{_COPY}", part)
        for name in (_QUERY, _JOB):
            self._folders.delete(f"{part}/{name}")
        self._relocate(part, checkpoint)
        if order is not None:
            self._reorder(part, order)
        self._folders.move(part, checkpoint)

    def delete(self, folder: str) -> None:
        """Delete a folder; harmless if there is none."""
        self._folders.delete(folder)
        self._folders.delete(f"{folder}.part")

    def _relocate(self, part: str, checkpoint: str) -> None:
        """Let the state of operators in *part* find its schemas in *checkpoint*:
        Spark notes their whole paths.
        """
        for operator in self._folders.names(f"{part}/state"):
            notes = f"{part}/state/{operator}/{_NOTES}"
            for name in filter(str.isdecimal, self._folders.names(notes)):
                version, body = self._folders.read(f"{notes}/{name}").split("\n", 1)
                facts: dict[str, Any] = json.loads(body)
                for store in facts["stateStoreInfo"]:
                    paths = store["stateSchemaFilePaths"]
                    tails = [path[path.rindex(_SCHEMAS) :] for path in paths]
                    store["stateSchemaFilePaths"] = [f"{checkpoint}/state/{operator}{tail}" for tail in tails]
                self._folders.delete(f"{notes}/{name}")
                self._folders.write(
                    f"{notes}/{name}", f"{version}\n{json.dumps(facts, separators=(',', ':'))}"
                )

    def _reorder(self, part: str, order: Sequence[int]) -> None:
        """Let each source of a checkpoint have the place that *order* says."""
        offsets, sources = f"{part}/offsets", f"{part}/sources"
        for name in filter(str.isdecimal, self._folders.names(offsets)):
            version, facts, *lines = self._folders.read(f"{offsets}/{name}").splitlines()
            self._folders.delete(f"{offsets}/{name}")
            self._folders.write(
                f"{offsets}/{name}", "\n".join([version, facts, *(lines[old] for old in order)])
            )
        aside = f"{part}/sources.part"
        if self._folders.exists(sources):
            # What a source itself notes, by its place.
            self._folders.move(sources, aside)
            self._folders.make(sources)
            for new, old in enumerate(order):
                if self._folders.exists(f"{aside}/{old}"):
                    self._folders.move(f"{aside}/{old}", f"{sources}/{new}")
            self._folders.delete(aside)

    def _last(self, folder: str) -> int | None:
        return max((int(name) for name in self._folders.names(folder) if name.isdecimal()), default=None)

    def _copy(self, source: str, target: str) -> None:
        self._folders.delete(target)
        if self._folders.exists(source):
            self._folders.copy(source, target)
        else:
            # The stream has not begun a batch.
            self._folders.make(target)
