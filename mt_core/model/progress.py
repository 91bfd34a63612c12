"""The progress of a job that carries out a statement or a refresh."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Completed and total tasks of the job's Spark stages, and the rows that they have read."""

    done: int
    total: int
    rows_read: int = 0
