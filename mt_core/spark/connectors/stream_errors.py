"""Streams that no restart can continue: their error, and the way out of it."""

from __future__ import annotations

from mt_core.errors import EngineError
from mt_core.model.stream import StreamDefinition

NEW_JOB = "Run the INSERT again: its new job begins with the rows that the table has then."


class StreamBroken(EngineError):
    """A stream that no restart can continue."""

    internal = True


class StreamFilesMissing(EngineError):
    """A stream that goes on once a file that it needs is back: nothing is wrong with it,
    and it discards nothing.
    """

    internal = True

    @classmethod
    def of(cls, definition: StreamDefinition, missing: str) -> StreamFilesMissing:
        """Return the error of a job that waits for what the sentence *missing* names, with the way out."""
        if definition.keeps is not None:
            return cls(f"{missing} Put it back, and RESUME the table.")
        return cls(
            f"{missing} The job goes on once it is back; STOP JOB ends the job, "
            "and leaves the rows that it has written."
        )
