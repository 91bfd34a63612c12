"""Streams that no restart can continue: their error, and the way out of it."""

from __future__ import annotations

from mt_core.errors import EngineError

NEW_JOB = "Run the INSERT again: its new job begins with the rows that the table has then."


class StreamBroken(EngineError):
    """A stream that no restart can continue."""

    internal = True
