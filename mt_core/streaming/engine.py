"""What a detached job needs of an engine: to check, prepare, start, watch, stop and copy a stream."""

from __future__ import annotations

from typing import Protocol

from mt_core.model.stream import StreamDefinition, StreamProgress
from mt_core.plans.compiled import Topology


class StreamEngine(Protocol):
    """Runs streams, each by the id of its job; safe from any thread.

    `start`, `stop`, `savepoint` and `forget` may be repeated, also by another process after the one that
    began them ended: so they are given the definition. All but `progress` raise EngineUnavailable while the
    engine starts and after it is lost.
    """

    def prepare(self, definition: StreamDefinition, job_id: str) -> StreamDefinition:
        """Analyse each statement, once, and return the definition with its plan,
        such as where its sources begin, and its tables.

        Nothing runs. Raises Unsupported or QueryFailed, with the position and the way out,
        and PlanInvalid unless the operators take the TTLs of a compiled plan that the definition has.
        """

    def check(self, definition: StreamDefinition) -> None:
        """Raise Unsupported or QueryFailed unless a stream can keep a materialized table by the query
        of *definition*.
        """

    def topology(self, definition: StreamDefinition) -> Topology:
        """Return the operators of each statement, with the TTLs of their states; nothing runs.

        Raises what `prepare` raises.
        """

    def start(self, job_id: str, definition: StreamDefinition, attempt: int) -> None:
        """Begin the stream, or go on from its checkpoint, and return at once; harmless if that attempt runs.

        No earlier attempt, of any process, can publish a batch from then on. One that does not find
        its checkpoint, or another file that it needs, reports what is missing, and writes nothing.
        """

    def progress(self, job_id: str) -> StreamProgress:
        """Return how far the stream of this process has come: not running if there is none,
        or the engine is lost.
        """

    def stop(self, job_id: str, definition: StreamDefinition) -> None:
        """Stop the stream; when this returns, no batch of it runs, and no attempt of any process
        can publish another.
        """

    def savepoint(
        self, job_id: str, definition: StreamDefinition, folder: str, *, drain: bool = False
    ) -> str:
        """Stop the stream at the end of a batch, copy its checkpoint to *folder*,
        and return the path of the copy.

        With *drain* it first reads all that its sources have by now, and gives what its windows still hold.
        The copy is whole or not there; a repeated call completes it. Raises EngineError if the
        checkpoint is missing.
        """

    def created_rows(self, job_id: str, definition: StreamDefinition) -> int | None:
        """Return how many rows the table has that the stream creates, None before its first batch
        with rows.
        """

    def missing(self, job_id: str, definition: StreamDefinition) -> str | None:
        """Return what the stream, which does not run, needs and does not find, in words;
        None if all of it is there.
        """

    def discard(self, job_id: str, definition: StreamDefinition, *, drop: bool) -> None:
        """Remove the files that the stream, which does not run, wrote for the table that it creates,
        and its checkpoint.

        Once the table has the first batch that is done with *drop* only, and the table goes too;
        else all stays as it is. One that it was to replace stays. May be repeated.
        """

    def forget(self, job_id: str, definition: StreamDefinition) -> None:
        """Delete the checkpoint of a job that has ended, and all else that the engine keeps for it."""
