"""Continuous refreshes as jobs: one for each table that is refreshed continuously,
whatever its look-out does at the moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mt_core.model.table import MaterializedTable, TableIdentifier


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousJob:
    """The continuous refresh of a table since CREATE or RESUME; its id is a new one each time."""

    job_id: str
    table: TableIdentifier
    started_at: datetime

    @classmethod
    def of(cls, table: MaterializedTable) -> ContinuousJob | None:
        """Return the job of *table*, None if it is not refreshed continuously now."""
        if table.continuous_job is None:
            return None
        return cls(job_id=table.continuous_job, table=table.identifier, started_at=table.status_at)
