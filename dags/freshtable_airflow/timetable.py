"""Timetables: the schedule of a materialized table as Airflow asks for it.

Both know since when their table exists. Airflow asks anew at every parse while a DAG has no run, so that a timetable which
counts from now would lose the first tick when the scheduler was away over it; and a backfill counts as a run, after which the
newest point of the past would be run as well.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Protocol

import pendulum
from airflow.exceptions import AirflowTimetableInvalid
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from airflow.timetables.trigger import CronTriggerTimetable

from freshtable_airflow.grid import Grid, grid_of, grid_of_cron
from freshtable_airflow.zone import zone_named

_FRACTION = re.compile(r"(?<=:\d\d)\.\d+")
MICROSECOND = timedelta(microseconds=1)


class Points(Protocol):
    """What a plan needs of a schedule."""

    def after(self, instant: datetime) -> datetime: ...
    def at_or_before(self, instant: datetime) -> datetime: ...


def plan(
    points: Points, since: datetime, last: DataInterval | None, restriction: TimeRestriction, now: datetime
) -> pendulum.DateTime | None:
    """Return the point to run next, or None when it lies behind the restriction's end.

    Nothing runs at once on creation, no point from before *since* is caught up, of several that were missed the newest is;
    a backfill, which asks with `catchup`, gets every point of its range, whenever the table was made.
    """
    earliest = restriction.earliest
    if last is not None:
        following = points.after(last.end)
    elif restriction.catchup and earliest is not None:
        following = points.after(earliest - MICROSECOND)
    else:
        following = points.after(since)
    if not restriction.catchup:
        following = max(following, points.at_or_before(now), points.after(since))
        if earliest is not None:
            following = max(following, points.after(earliest - MICROSECOND))
    if restriction.latest is not None and following > restriction.latest:
        return None
    return pendulum.instance(following)


class GridTimetable(Timetable):
    """Every so many units on the grid that a table's freshness has in its zone; with no `since` it is never due."""

    def __init__(self, amount: int, unit: str, *, timezone: str = "UTC", since: str | None = None) -> None:
        self.amount, self.unit, self.zone, self.since = amount, unit, timezone, since
        self.description = (
            f"every {amount} {unit.lower()}{'' if amount == 1 else 's'} in {timezone}" if since else "never"
        )
        # Airflow asks a timetable that cannot be scheduled for nothing.
        self.can_be_scheduled = self.periodic = since is not None

    @property
    def summary(self) -> str:
        return f"every {self.amount} {self.unit} ({self.zone}) since {_seconds(self.since)}" if self.since else "never"

    def serialize(self) -> dict[str, Any]:
        return {"amount": self.amount, "unit": self.unit, "timezone": self.zone, "since": self.since}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        return cls(data["amount"], data["unit"], timezone=data["timezone"], since=data["since"])

    def validate(self) -> None:
        try:
            grid_of(self.amount, self.unit, self.zone)
        except ValueError as cause:
            raise AirflowTimetableInvalid(str(cause)) from cause
        if self.since is not None:
            _instant(self.since)

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if self.since is None:
            return None
        grid = grid_of(self.amount, self.unit, self.zone)
        return _run_at(plan(grid, _instant(self.since), last_automated_data_interval, restriction, _now()))


class CronTimetable(CronTriggerTimetable):
    """A cron expression in a table's zone; one that says an interval gives that interval's grid, DST included."""

    def __init__(self, cron: str, *, timezone: str, since: str) -> None:
        try:
            zone_named(timezone)
        except ValueError as cause:
            raise AirflowTimetableInvalid(str(cause)) from cause
        super().__init__(cron, timezone=timezone)
        self.zone, self.since = timezone, since

    @property
    def summary(self) -> str:
        return f"{self._expression} ({self.zone}) since {_seconds(self.since)}"

    def serialize(self) -> dict[str, Any]:
        return {"expression": self._expression, "timezone": self.zone, "since": self.since}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        return cls(data["expression"], timezone=data["timezone"], since=data["since"])

    def validate(self) -> None:
        super().validate()
        _instant(self.since)

    @property
    def points(self) -> Points:
        """The points of the cron."""
        grid: Grid | None = grid_of_cron(self._expression, self.zone)
        return grid or _CronPoints(self)

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        return _run_at(plan(self.points, _instant(self.since), last_automated_data_interval, restriction, _now()))


class _CronPoints:
    """The points that Airflow finds for a cron expression."""

    def __init__(self, timetable: CronTimetable) -> None:
        self._timetable = timetable

    def after(self, instant: datetime) -> datetime:
        found: datetime = self._timetable._get_next(pendulum.instance(instant))
        return found

    def at_or_before(self, instant: datetime) -> datetime:
        found: datetime = self._timetable._align_to_prev(pendulum.instance(instant))
        return found


def _run_at(point: pendulum.DateTime | None) -> DagRunInfo | None:
    return None if point is None else DagRunInfo.exact(point)


def _now() -> datetime:
    return pendulum.now("UTC")


def _seconds(text: str) -> str:
    """Return an ISO instant without its fraction of a second: people read it."""
    return _FRACTION.sub("", text)


def _instant(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as cause:
        raise AirflowTimetableInvalid(
            f"since: '{text}' is no ISO instant such as 2026-11-21T17:00:00+00:00."
        ) from cause
    if found.tzinfo is None:
        raise AirflowTimetableInvalid(f"since: '{text}' has no offset from UTC.")
    return found
