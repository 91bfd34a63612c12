"""The schedule times that a table still has to cover, and their partitions. Pure functions.

Every schedule time since CREATE is due until a run that covers it has SUCCEEDED or was SKIPPED.
`covered_until` is a watermark: no schedule time up to it is due. Later ones that are covered are stored as
spans, which end where a schedule time is due. So the cost of finding due schedule times grows with the number
of gaps, not with the age of the oldest one.

A future schedule time is never covered, because no run can have read what the sources will contain then. So
if a clock that was ahead is set back, the schedule times that it repeats are due again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mt_core.model.cadence import Grid
from mt_core.model.formatter import partitions_of
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.table import MaterializedTable, Span

MAX_POINTS = 5000
# How far a scheduler's clock may be ahead; schedule times later than that are in the future.
CLOCK_SKEW = timedelta(minutes=1)
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The due schedule times that one run takes, newest first, and the first one left for a further run."""

    points: tuple[datetime, ...]
    rest: datetime | None = None


def scope_of(table: MaterializedTable, points: Iterable[datetime]) -> Scope:
    """Return the partitions of *points*, or the whole table if it has no date-formatters."""
    formatters = table.definition.date_formatters
    if not formatters:
        return WHOLE
    definition = table.definition
    return Scope.of(
        spec
        for point in points
        for spec in partitions_of(point, definition.cadence, definition.zone, formatters)
    )


def due_share(
    table: MaterializedTable, until: datetime, *, max_partitions: int, without: Collection[datetime] = ()
) -> Share:
    """Return the newest due schedule times up to *until*, within *max_partitions*, excluding *without*."""
    return share_of(
        table, (point for point in _downwards(table, until) if point not in without), max_partitions
    )


def share_of(
    table: MaterializedTable, points: Iterable[datetime], max_partitions: int, max_points: int = MAX_POINTS
) -> Share:
    """Return the first of *points* that together have no more than *max_partitions* partitions.

    A schedule time of a cron that has more partitions than that gets a share of its own.
    """
    taken: list[datetime] = []
    partitions: set[PartitionSpec] = set()
    for point in points:
        more = (scope_of(table, [point]).specs or frozenset()) - partitions
        full = taken and more and len(partitions) + len(more) > max_partitions
        if full or len(taken) >= max_points:
            return Share(points=tuple(taken), rest=point)
        partitions |= more
        taken.append(point)
    return Share(points=tuple(taken))


def points_between(table: MaterializedTable, after: datetime, until: datetime) -> list[datetime]:
    """Return the newest schedule times between *after* and *until*, newest first, up to `MAX_POINTS`."""
    grid, points = _grid(table), list[datetime]()
    point = grid.at_or_before(until)
    while point > after and len(points) < MAX_POINTS:
        points.append(point)
        point = grid.at_or_before(point - _TICK)
    return points


def has_come(point: datetime, now: datetime) -> bool:
    """Return whether *point* is not in the future, allowing for the clock skew of schedulers."""
    return point <= now + CLOCK_SKEW


def is_due(table: MaterializedTable, point: datetime) -> bool:
    """Return whether *point* is a schedule time since CREATE that no run has covered."""
    on_grid = _grid(table).at_or_before(point) == point
    covered = any(first <= point <= last for first, last in table.covered)
    return on_grid and point > table.covered_until and not covered


def cover(table: MaterializedTable, points: Iterable[datetime]) -> MaterializedTable:
    """Return *table* with *points* covered and `covered_until` advanced to the first gap."""
    grid, mark = _grid(table), table.covered_until
    on_grid = ((point, point) for point in points if grid.at_or_before(point) == point)
    spans = _joined(grid, (span for span in (*table.covered, *on_grid) if span[1] > mark))
    if spans and spans[0][0] <= grid.after(mark):
        mark, spans = spans[0][1], spans[1:]
    same = mark == table.covered_until and tuple(spans) == table.covered
    return table if same else replace(table, covered_until=mark, covered=tuple(spans))


def without_to_come(table: MaterializedTable, now: datetime) -> MaterializedTable:
    """Return *table* as if created no later than *now*, with no future schedule time covered or failing."""
    latest = now + CLOCK_SKEW
    spans = tuple((first, min(last, latest)) for first, last in table.covered if has_come(first, now))
    after = replace(
        table,
        created_at=min(table.created_at, latest),
        covered_until=min(table.covered_until, latest),
        covered=spans,
        failing=tuple(point for point in table.failing if has_come(point, now)),
    )
    return table if after == table else after


def _joined(grid: Grid, spans: Iterable[Span]) -> Sequence[Span]:
    """Return *spans* sorted, merging those without a schedule time between them."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= grid.after(joined[-1][1]):
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _downwards(table: MaterializedTable, until: datetime) -> Iterator[datetime]:
    """Yield the due points up to *until*, newest first."""
    grid, spans = _grid(table), list(table.covered)
    point = grid.at_or_before(until)
    while point > table.covered_until:
        while spans and spans[-1][0] > point:
            spans.pop()
        if spans and point <= spans[-1][1]:
            point = grid.at_or_before(spans.pop()[0] - _TICK)
        else:
            yield point
            point = grid.at_or_before(point - _TICK)


def _grid(table: MaterializedTable) -> Grid:
    return table.definition.grid()
