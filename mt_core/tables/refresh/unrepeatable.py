"""Unrepeatable tables: those that a streaming job keeps, whose sources keep none of their rows
for a refresh to read.
"""

from __future__ import annotations

from mt_core.errors import Unsupported
from mt_core.model.table import MaterializedTable


def refuse_refresh(table: MaterializedTable, what: str) -> None:
    """Raise Unsupported for *what* would need a refresh of a table that a streaming job keeps."""
    if table.definition.streams:
        raise Unsupported(
            f"{what} of {table.identifier}: streaming job {table.continuous_job} keeps it, "
            f"and {table.definition.streams[0]} keeps none of its rows, so that they cannot be read again. "
            "SUSPEND and RESUME stop the job and let it go on; a new query needs DROP and CREATE.",
            table=str(table.identifier),
        )
