"""Continuous refreshes as jobs: one for each active CONTINUOUS table, whether or not a batch is running."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mt_core.model.table import MaterializedTable, TableIdentifier


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousJob:
    """The continuous refresh of a table since its last CREATE or RESUME, which assigns a new job id."""

    job_id: str
    table: TableIdentifier
    started_at: datetime

    @classmethod
    def of(cls, table: MaterializedTable) -> ContinuousJob | None:
        """Return the job of *table*, or None if the table is not being refreshed continuously."""
        if table.continuous_job is None:
            return None
        return cls(job_id=table.continuous_job, table=table.identifier, started_at=table.status_at)
