"""Streaming-only tables: a streaming job maintains them, because their sources retain no rows."""

from __future__ import annotations

from mt_core.errors import Unsupported
from mt_core.model.table import MaterializedTable


def refuse_refresh(table: MaterializedTable, what: str) -> None:
    """Raise Unsupported if *what* would have to refresh a table that a streaming job maintains."""
    if table.definition.streams:
        raise Unsupported(
            f"{what} of {table.identifier}: streaming job {table.continuous_job} maintains it, "
            f"and {table.definition.streams[0]} does not retain its rows, so they cannot be read again. "
            "SUSPEND and RESUME stop and continue the job; a new query needs DROP and CREATE.",
            table=str(table.identifier),
        )
