"""Continuous refreshes as jobs: one for each active CONTINUOUS table, whether or not a batch is running."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mt_core.model.table import MaterializedTable, TableIdentifier


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousJob:
    """The continuous refresh of a table since CREATE or RESUME, each of which gives it a new id."""

    job_id: str
    table: TableIdentifier
    started_at: datetime

    @classmethod
    def of(cls, table: MaterializedTable) -> ContinuousJob | None:
        """Return the job of *table*, None if it is not refreshed continuously now."""
        if table.continuous_job is None:
            return None
        return cls(job_id=table.continuous_job, table=table.identifier, started_at=table.status_at)
