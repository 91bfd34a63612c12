"""The points of a grid in a range."""

from __future__ import annotations

from datetime import datetime

from mt_core.model.cadence import Grid


def points_between(grid: Grid, after: datetime, until: datetime) -> list[datetime]:
    """Return all points with after < point <= until, oldest first."""
    points = []
    while (after := grid.after(after)) <= until:
        points.append(after)
    return points
