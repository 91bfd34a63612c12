"""The history of a table's staleness: a curve, with the staleness at which the table is late. Pure functions.

The curve of a FULL table needs no records of its own, because the ledger determines it. A refresh that
published, or that found nothing new, shows the sources as of its read time, from its end on. Between two such
refreshes the table ages by one second a second, so the curve is a saw-tooth. A CONTINUOUS table publishes too
often for that. It has a record for each hour (`FreshnessHour`), which contains only the worst staleness of
the hour, so its curve is a staircase. The saw-tooth shows the table's own staleness, the staircase also that
of the tables below it.

A chart has a few hundred points, while a table may have thousands of refreshes. The curve is therefore
divided into equal spans of time, and of each span only the highest and the lowest point remain. So no maximum
is lost, and the result has at most the requested number of points. Less than `FEWEST_POINTS` are too few for
this; then only the ends of the curve remain. `staleness` returns the curve with all its points, and `thinned`
reduces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby, pairwise

from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.run import DONE, REFRESHES, RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode
from mt_core.tables.overview.lateness import Promise
from mt_core.tables.runs.decide import CONTINUOUS, SUSPENDED

HOUR = timedelta(hours=1)
FEWEST_POINTS = 5
MARKED = frozenset({RunStatus.FAILED, RunStatus.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The staleness at an instant, and the staleness from which on the table is late, in seconds.

    `seconds` is None if nothing is known from this instant to the next point. Two points may have the same
    instant: the staleness before and after a publish.
    """

    at: datetime
    seconds: float | None
    promise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Refreshes close to each other that failed, or that were skipped; `run_id` is the newest of them."""

    at: datetime
    status: RunStatus
    run_id: str
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The staleness of a table over time, oldest first."""

    points: tuple[CurvePoint, ...]
    marks: tuple[Mark, ...]
    hours: tuple[FreshnessHour, ...]


def staleness(
    table: MaterializedTable,
    runs: Iterable[RefreshRun],
    hours: Iterable[FreshnessHour],
    since: datetime,
    until: datetime,
) -> Curve:
    """Return the curve of *table* from *since* to *until*, with all points and marks.

    *since* is earlier than *until*. *runs* are its runs that ended in this time and, so that the curve begins
    at *since*, the last one before that published; *hours* are its recorded hours. The order of both is
    irrelevant.
    """
    runs = [run for run in runs if _says_something(run)]
    hours = sorted((each for each in hours if since - HOUR < each.hour < until), key=lambda each: each.hour)
    if table.definition.refresh_mode is RefreshMode.CONTINUOUS:
        points = _staircase(table, hours, since, until)
    else:
        points = _saw_tooth(table, runs, since, until)
    marks = sorted(
        (
            Mark(at=run.finished_at, status=run.status, run_id=run.run_id)
            for run in runs
            if run.status in MARKED and run.finished_at is not None and since <= run.finished_at <= until
        ),
        key=lambda mark: mark.at,
    )
    return Curve(points=tuple(points), marks=tuple(marks), hours=tuple(hours))


def thinned(curve: Curve, since: datetime, until: datetime, points: int) -> Curve:
    """Return a curve from *since* to *until* with at most *points* points, which are 2 or more."""
    spans = _Spans(since=since, until=until, count=max((points - 2) // 3, 1))
    kept = list(curve.points)
    if len(kept) > points:
        kept = [kept[0], *(_extremes(kept, spans) if points >= FEWEST_POINTS else ()), kept[-1]]
    return Curve(points=tuple(kept), marks=tuple(_merged(curve.marks, spans)), hours=curve.hours)


def _says_something(run: RefreshRun) -> bool:
    """Return whether a run is a refresh that has ended and says something about the table's rows."""
    return (
        run.kind in REFRESHES and run.finished_at is not None and run.decision not in (SUSPENDED, CONTINUOUS)
    )


# -------------------------------------------------------------------------------------------------- the curve


def _saw_tooth(
    table: MaterializedTable, runs: Iterable[RefreshRun], since: datetime, until: datetime
) -> Iterator[CurvePoint]:
    """Yield two points for each time in which the table shows the same rows: its begin and its end."""
    promised, ends = _promise_of(table), (until, until)
    for (begin, shows), (end, _) in pairwise([*_showings(runs), ends]):
        promise = (promised.late_from(shows) - shows).total_seconds()
        for at in (max(begin, since), min(end, until)) if begin < until and end > since else ():
            yield CurvePoint(at=at, seconds=(at - shows).total_seconds(), promise=promise)


def _promise_of(table: MaterializedTable) -> Promise:
    definition = table.definition
    return Promise(mode=definition.refresh_mode, cadence=definition.cadence, zone=definition.zone)


def _showings(runs: Iterable[RefreshRun]) -> Iterator[tuple[datetime, datetime]]:
    """Yield from when on the table has shown its sources, and as of which instant, oldest first.

    A refresh that read its sources before the one whose rows are shown does not make the table older.
    """
    published = sorted(
        (run.finished_at, run.started_at or run.requested_at)
        for run in runs
        if run.status in DONE and run.finished_at is not None
    )
    newest: datetime | None = None
    for begin, read_at in published:
        if newest is None or read_at > newest:
            newest = read_at
            yield begin, read_at


def _staircase(
    table: MaterializedTable, hours: Sequence[FreshnessHour], since: datetime, until: datetime
) -> Iterator[CurvePoint]:
    """Yield two points for each recorded hour, and one without staleness where a record is missing."""
    promise = float(table.definition.interval.seconds)
    for number, each in enumerate(hours):
        end = min(each.hour + HOUR, until)
        for at in (max(each.hour, since), end):
            yield CurvePoint(at=at, seconds=each.worst_s, promise=promise)
        following = hours[number + 1].hour if number + 1 < len(hours) else until
        if following > end:
            yield CurvePoint(at=end, seconds=None, promise=promise)


# --------------------------------------------------------------------------------------------------- thinning


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spans:
    """*count* equal spans of the time from *since* to *until*."""

    since: datetime
    until: datetime
    count: int

    def number(self, at: datetime) -> int:
        """Return the number of the span that contains *at*."""
        return min(int((at - self.since) / (self.until - self.since) * self.count), self.count - 1)


def _extremes(curve: list[CurvePoint], spans: _Spans) -> Iterator[CurvePoint]:
    """Yield the highest and the lowest point of each span, and its last one if it begins a gap.

    The ends of the curve are left out.
    """
    for _, near in groupby(curve[1:-1], lambda point: spans.number(point.at)):
        points = list(near)
        known = [(point.seconds, number) for number, point in enumerate(points) if point.seconds is not None]
        kept = {min(known)[1], max(known)[1]} if known else set()
        if points[-1].seconds is None:
            kept.add(len(points) - 1)
        yield from (points[number] for number in sorted(kept))


def _merged(marks: Iterable[Mark], spans: _Spans) -> Iterator[Mark]:
    """Yield one mark for each span and status, oldest first."""
    for _, near in groupby(marks, lambda mark: spans.number(mark.at)):
        newest: dict[RunStatus, Mark] = {}
        for mark in near:
            times = newest[mark.status].times + 1 if mark.status in newest else 1
            newest[mark.status] = replace(mark, times=times)
        yield from sorted(newest.values(), key=lambda mark: mark.at)
