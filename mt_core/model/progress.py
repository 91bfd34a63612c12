"""The progress of a job that runs a statement or a refresh."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The completed and total tasks of the job's Spark stages, and the number of rows read."""

    done: int
    total: int
    rows_read: int = 0
