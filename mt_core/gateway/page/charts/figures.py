"""Figures: how fresh a table was in some time, and what its refreshes took and wrote. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from mt_core.gateway.facts.refreshes import History
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus
from mt_core.tables.overview.history import HOUR, Curve, CurvePoint
from mt_core.tables.overview.standing import says_something

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalest:
    """The highest staleness in seconds, and when it was reached."""

    seconds: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How fresh a table was from `since` to `until`, and what its refreshes did.

    Its staleness is known for `known_s` seconds, of which it was late for `late_s`; `stalest` is None if it
    is not known at all. `median_s` and `p95_s` are durations from the request to the end of a refresh that
    wrote rows, of a CONTINUOUS table of its last batches; None if there was none. `rows_a_day` and
    `bytes_a_day` are averages, over one day at least. `ended` are the numbers of refreshes by their status,
    and `batches` is the number of batches of a CONTINUOUS table.
    """

    since: datetime
    until: datetime
    known_s: float
    late_s: float
    stalest: Stalest | None
    median_s: float | None
    p95_s: float | None
    rows_a_day: float | None
    bytes_a_day: float | None
    ended: Mapping[RunStatus, int] = field(default_factory=dict)
    batches: int = 0

    @property
    def fresh(self) -> float | None:
        """The share of the known time in which the table was not late, None if nothing is known."""
        return 1 - self.late_s / self.known_s if self.known_s else None


def figures_of(history: History, curve: Curve) -> Figures:
    """Return the figures of a table over the time of *history*, whose curve with all points is *curve*.

    The time in which the table was suspended does not count as fresh or late.
    """
    table = history.table
    runs = [run for run in history.runs if _ended_within(run, history)]
    is_continuous = table.definition.refresh_mode is RefreshMode.CONTINUOUS
    stopped = table.status is RefreshStatus.SUSPENDED
    until = min(history.until, max(table.status_at, history.since)) if stopped else history.until
    known_s, late_s = _known_and_late(curve, history.since, until, is_continuous=is_continuous)
    running = [] if history.running is None else [history.running]
    durations = sorted(_durations([*runs, *running], history.since))
    days = max((history.until - max(history.since, table.created_at)) / DAY, 1.0)
    rows = _rows(runs, curve, is_continuous=is_continuous)
    bytes_read = [run.bytes_read for run in runs if run.bytes_read is not None]
    return Figures(
        since=history.since,
        until=history.until,
        known_s=known_s,
        late_s=late_s,
        stalest=_stalest(curve.points, until),
        median_s=_quantile(durations, 0.5),
        p95_s=_quantile(durations, 0.95),
        rows_a_day=None if rows is None else rows / days,
        bytes_a_day=sum(bytes_read) / days if bytes_read else None,
        ended=Counter(run.status for run in runs),
        batches=sum(hour.batches for hour in curve.hours),
    )


def _ended_within(run: RefreshRun, history: History) -> bool:
    return run.finished_at is not None and run.finished_at >= history.since and says_something(run)


# ------------------------------------------------------------------------------------------------- staleness


def _known_and_late(
    curve: Curve, since: datetime, until: datetime, *, is_continuous: bool
) -> tuple[float, float]:
    """Return for how many seconds until *until* the staleness is known, and for how many it was too high."""
    known_s, late_s = 0.0, defaultdict[datetime, float](float)
    for begin, end in _stretches(curve.points):
        if begin.at >= until or begin.seconds is None:
            continue
        ends = min(end.at, until)
        known_s += (ends - begin.at).total_seconds()
        late_from = begin.at + timedelta(seconds=max(begin.promise - begin.seconds, 0.0))
        if not is_continuous:
            for hour, seconds in _by_hour(late_from, ends):
                late_s[hour] += seconds
    for recorded in curve.hours:
        # The record also has the time in which only a table below was late.
        within = (min(recorded.hour + HOUR, until) - max(recorded.hour, since)).total_seconds()
        late_s[recorded.hour] = max(late_s[recorded.hour], min(recorded.late_s, max(within, 0.0)))
    return known_s, min(sum(late_s.values()), known_s)


def _by_hour(begin: datetime, end: datetime) -> Iterator[tuple[datetime, float]]:
    """Yield how many seconds of the time from *begin* to *end* lie in each hour."""
    while begin < end:
        hour = begin.replace(minute=0, second=0, microsecond=0)
        until = min(hour + HOUR, end)
        yield hour, (until - begin).total_seconds()
        begin = until


def _stretches(points: Sequence[CurvePoint]) -> Iterator[tuple[CurvePoint, CurvePoint]]:
    """Yield the pairs of neighbouring points between which time passes."""
    return (pair for pair in pairwise(points) if pair[1].at > pair[0].at)


def _stalest(points: Iterable[CurvePoint], until: datetime) -> Stalest | None:
    """Return the highest staleness up to *until*, at its first time."""
    stalest: Stalest | None = None
    for point in points:
        if point.seconds is None:
            continue
        seconds, at = point.seconds, point.at
        if at > until:
            seconds, at = seconds - (at - until).total_seconds(), until
        if seconds >= 0 and (stalest is None or seconds > stalest.seconds):
            stalest = Stalest(seconds=seconds, at=at)
    return stalest


# ------------------------------------------------------------------------------------------------- refreshes


def _durations(runs: Iterable[RefreshRun], since: datetime) -> Iterator[float]:
    for run in runs:
        for batch in run.recent:
            if batch.began_at >= since:
                yield batch.seconds
        if run.status is RunStatus.SUCCEEDED and run.finished_at is not None and not run.recent:
            yield (run.finished_at - run.requested_at).total_seconds()


def _rows(runs: Iterable[RefreshRun], curve: Curve, *, is_continuous: bool) -> int | None:
    """Return the number of rows written; None if no refresh says it."""
    if is_continuous:
        # A run may go on for an hour, and its batches are counted in the hours.
        return sum(hour.rows for hour in curve.hours) if curve.hours else None
    rows = [run.rows for run in runs if run.rows is not None]
    return sum(rows) if rows else None


def _quantile(values: Sequence[float], share: float) -> float | None:
    """Return the quantile *share* (0 to 1) of *values*, which are sorted; None if there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else None
