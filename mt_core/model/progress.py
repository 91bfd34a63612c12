"""How far the job of a statement or a refresh is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Tasks of a job's Spark stages, and the rows that they have read."""

    done: int
    total: int
    rows_read: int = 0
