"""Continuous refreshes as jobs: one for each table that is refreshed continuously, whatever its look-out does at the moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import NAMESPACE_OID, uuid5

from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus, TableIdentifier


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousJob:
    """The continuous refresh of a table since CREATE or RESUME; its id is a new one each time."""

    job_id: str
    table: TableIdentifier
    started_at: datetime

    @classmethod
    def of(cls, table: MaterializedTable) -> ContinuousJob | None:
        """Return the job of *table*, None if it is not refreshed continuously now."""
        continuous = table.definition.refresh_mode is RefreshMode.CONTINUOUS
        if not continuous or table.status is not RefreshStatus.ACTIVATED:
            return None
        job_id = uuid5(NAMESPACE_OID, f"{table.table_id} {table.status_at.isoformat()}").hex
        return cls(job_id=job_id, table=table.identifier, started_at=table.status_at)
