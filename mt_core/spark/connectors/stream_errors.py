"""Errors of streams that a restart cannot fix. Their messages say what to do."""

from __future__ import annotations

from mt_core.errors import EngineError
from mt_core.model.stream import StreamDefinition

NEW_JOB = "Run the INSERT again: its new job begins with the rows that the table has then."


class StreamBroken(EngineError):
    """Raised if a restart cannot continue the stream."""

    internal = True


class StreamFilesMissing(EngineError):
    """Raised if a file that the stream needs is missing.

    After the file is restored, the stream continues without loss.
    """

    internal = True

    @classmethod
    def of(cls, definition: StreamDefinition, missing: str) -> StreamFilesMissing:
        """Return the error with the sentence *missing*, followed by what to do."""
        if definition.keeps is not None:
            return cls(f"{missing} Put it back, and RESUME the table.")
        return cls(
            f"{missing} The job continues once it is back; STOP JOB ends the job "
            "and keeps the rows that it has written."
        )
