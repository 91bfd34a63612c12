"""The port through which a detached job uses an engine.

It checks, prepares, starts, monitors, stops and copies streams.
"""

from __future__ import annotations

from typing import Protocol

from mt_core.model.stream import StreamDefinition, StreamProgress
from mt_core.plans.compiled import Topology


class StreamEngine(Protocol):
    """Runs streams, each identified by its job id. Thread-safe.

    `start`, `stop`, `savepoint` and `forget` are idempotent, even across processes, which is why they receive
    the definition. All methods except `progress` raise EngineUnavailable while the engine starts and after it
    is lost.
    """

    def prepare(self, definition: StreamDefinition, job_id: str) -> StreamDefinition:
        """Analyse each statement once and return the definition with its tables and its plan.

        The plan has, for example, the start position of each source. Nothing runs. Raises Unsupported or
        QueryFailed, with the position and an alternative. Raises PlanInvalid if the operators do not accept
        the TTLs of the definition's compiled plan.
        """

    def check(self, definition: StreamDefinition) -> None:
        """Raise Unsupported or QueryFailed if no stream can maintain a table with *definition*'s query."""

    def topology(self, definition: StreamDefinition) -> Topology:
        """Return the operators of each statement with the TTLs of their states, without running anything.

        Raises the errors of `prepare`.
        """

    def start(self, job_id: str, definition: StreamDefinition, attempt: int) -> None:
        """Start the stream, or resume it from its checkpoint, without waiting for it.

        Does nothing if *attempt* is running. From then on, no earlier attempt of any process can publish a
        batch. An attempt whose checkpoint or other required file is missing reports that file and writes
        nothing.
        """

    def progress(self, job_id: str) -> StreamProgress:
        """Return the progress of this process's stream.

        The stream is not running if this process has not started it or the engine is lost.
        """

    def stop(self, job_id: str, definition: StreamDefinition) -> None:
        """Stop the stream. On return, none of its batches runs.

        No attempt of any process can then publish another batch.
        """

    def savepoint(
        self, job_id: str, definition: StreamDefinition, folder: str, *, drain: bool = False
    ) -> str:
        """Stop the stream at the end of a batch and copy its checkpoint to *folder*.

        Return the path of the copy. With *drain*, the stream first reads all rows that its sources have by
        now and emits the contents of its windows. The copy is complete or absent; a repeated call completes
        it. Raises EngineError if the checkpoint is missing.
        """

    def created_rows(self, job_id: str, definition: StreamDefinition) -> int | None:
        """Return the row count of the table that the stream creates.

        Return None before its first batch with rows.
        """

    def missing(self, job_id: str, definition: StreamDefinition) -> str | None:
        """Return a message about a missing file that the stopped stream needs, or None if all exist."""

    def discard(self, job_id: str, definition: StreamDefinition, *, drop: bool) -> None:
        """Remove the checkpoint of a stopped stream and the files that it wrote for the table it creates.

        If the table already has the first batch, nothing is removed, unless *drop* is set; then the table is
        dropped too. A table that the stream would have replaced stays. May be repeated.
        """

    def forget(self, job_id: str, definition: StreamDefinition) -> None:
        """Delete the checkpoint of a completed job and everything else that the engine stores for it."""
