"""Heard commits: what the engine tells of the rows that its own process commits to any table, as they come."""

from __future__ import annotations

from typing import Protocol


class HeardCommits(Protocol):
    """For one thread. May raise EngineUnavailable and EngineError."""

    def next_commit(self, timeout_s: float) -> str | None:
        """Wait until this engine has committed rows to a table, and return its name as a source; None if it did not in time.

        What other processes commit is not heard of, nor what the engine committed before the first call.
        """
