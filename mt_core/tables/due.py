"""Which grid points a table still has to cover, and the partitions they stand for: pure.

Every grid point since CREATE is due until a run that had it written into it is SUCCEEDED or SKIPPED. `covered_until` is a
watermark: nothing up to it is due, so that looking for due points stays cheap however old the table is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mt_core.model.formatter import partitions_of
from mt_core.model.freshness import grid_of
from mt_core.model.partition import WHOLE, Scope
from mt_core.model.run import RefreshRun
from mt_core.model.table import MaterializedTable

MAX_POINTS = 5000
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The due points one run takes, newest first, and the newest point that is left for a further run (None: nothing is)."""

    points: tuple[datetime, ...]
    rest: datetime | None = None


def scope_of(table: MaterializedTable, points: Iterable[datetime]) -> Scope:
    """Return the partitions that *points* stand for; the whole table if it has no date-formatters."""
    formatters = table.definition.date_formatters
    if not formatters:
        return WHOLE
    definition = table.definition
    return Scope.of(partitions_of(point, definition.freshness, definition.zone, formatters) for point in points)


def due_share(
    table: MaterializedTable, covering: Iterable[RefreshRun], until: datetime, *, max_partitions: int
) -> Share:
    """Return the newest due points up to *until*, as many as fit into *max_partitions* partitions."""
    covered = covered_points(covering)
    taken: list[datetime] = []
    partitions: set[object] = set()
    for point in _downwards(table, until):
        if point in covered:
            continue
        partition = scope_of(table, [point])
        full = len(partitions) >= max_partitions and partition not in partitions
        if full or len(taken) >= MAX_POINTS:
            return Share(points=tuple(taken), rest=point)
        partitions.add(partition)
        taken.append(point)
    return Share(points=tuple(taken))


def is_due(table: MaterializedTable, covering: Iterable[RefreshRun], point: datetime) -> bool:
    """Whether *point* is a grid point since CREATE that no run has covered."""
    grid = grid_of(table.definition.freshness, table.definition.zone)
    on_grid = grid.at_or_before(point) == point
    return on_grid and point > table.covered_until and point not in covered_points(covering)


def advance_watermark(table: MaterializedTable, covering: Iterable[RefreshRun]) -> MaterializedTable:
    """Return the table with `covered_until` moved over every point that is covered without a gap."""
    covered = covered_points(covering)
    grid = grid_of(table.definition.freshness, table.definition.zone)
    mark = table.covered_until
    while (following := grid.after(mark)) in covered:
        mark = following
    return table if mark == table.covered_until else replace(table, covered_until=mark)


def covered_points(covering: Iterable[RefreshRun]) -> Collection[datetime]:
    """Return the points written into *covering*, which are SUCCEEDED or SKIPPED runs."""
    return {point for run in covering for point in run.points}


def _downwards(table: MaterializedTable, until: datetime) -> Iterator[datetime]:
    grid = grid_of(table.definition.freshness, table.definition.zone)
    point = grid.at_or_before(until)
    while point > table.covered_until:
        yield point
        point = grid.at_or_before(point - _TICK)
