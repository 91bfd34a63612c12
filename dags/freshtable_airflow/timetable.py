"""Timetables: the schedule of a materialized table in the form that Airflow uses.

A timetable knows when its table was created. While a DAG has no run, Airflow asks for the next run at every
parse. If a timetable counted from the current time, the first run would be lost if the scheduler was down
when it was due. And a backfill counts as a run, after which the latest past schedule time would run as well.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pendulum
from airflow.exceptions import AirflowTimetableInvalid
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from airflow.timetables.trigger import CronTriggerTimetable

from freshtable_airflow.cron import CronGrid, cron_grid_of
from freshtable_airflow.grid import Grid, grid_of

_FRACTION = re.compile(r"(?<=:\d\d)\.\d+")
MICROSECOND = timedelta(microseconds=1)


def plan(
    grid: Grid | CronGrid,
    since: datetime,
    last: DataInterval | None,
    restriction: TimeRestriction,
    now: datetime,
) -> pendulum.DateTime | None:
    """Return the next schedule time to run, or None if it is later than the end of *restriction*.

    Nothing runs immediately on creation, schedule times before *since* are not caught up, and only the latest
    of several missed ones runs. A backfill, which sets `catchup`, gets every schedule time in its range,
    including those before the table was created.
    """
    earliest = restriction.earliest
    if last is not None:
        following = grid.after(last.end)
    elif restriction.catchup and earliest is not None:
        following = grid.after(earliest - MICROSECOND)
    else:
        following = grid.after(since)
    if not restriction.catchup:
        following = max(following, grid.at_or_before(now), grid.after(since))
        if earliest is not None:
            following = max(following, grid.after(earliest - MICROSECOND))
    if restriction.latest is not None and following > restriction.latest:
        return None
    return pendulum.instance(following)


class _TableTimetable(Timetable):
    """Base class of the tables' timetables: runs at each schedule time, but not before *since*."""

    since: str | None

    def grid(self) -> Grid | CronGrid:
        """Return the schedule times; raise ValueError naming an invalid value."""
        raise NotImplementedError

    def validate(self) -> None:
        try:
            self.grid()
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
        point = plan(
            self.grid(), _instant(self.since), last_automated_data_interval, restriction, pendulum.now("UTC")
        )
        return None if point is None else DagRunInfo.exact(point)


class GridTimetable(_TableTimetable):
    """Runs at the schedule times of a table's freshness in its time zone; without `since` it is never due.

    `cron` is the label that Airflow shows instead of the interval; no schedule time is computed from it.
    """

    def __init__(
        self, amount: int, unit: str, *, timezone: str = "UTC", since: str | None = None, cron: str = ""
    ) -> None:
        self.amount, self.unit, self.zone, self.since, self.cron = amount, unit, timezone, since, cron
        if since is None:
            self.description = "never"
        elif cron:
            self.description = CronTriggerTimetable(cron, timezone="UTC").description
        else:
            self.description = f"every {amount} {unit.lower()}{'' if amount == 1 else 's'} in {timezone}"
        # Airflow never calls a timetable that cannot be scheduled.
        self.can_be_scheduled = self.periodic = since is not None

    @property
    def summary(self) -> str:
        """The schedule as shown in Airflow's lists, in whole seconds.

        The gateway compares it with the schedule that it serves.
        """
        if self.since is None:
            return "never"
        return (
            f"{self.cron or f'every {self.amount} {self.unit}'} ({self.zone}) since "
            f"{_FRACTION.sub('', self.since)}"
        )

    def serialize(self) -> dict[str, Any]:
        grid = {"amount": self.amount, "unit": self.unit, "timezone": self.zone, "since": self.since}
        # Without a label the key is omitted, because the stored form of a DAG must not change unnecessarily.
        return {**grid, "cron": self.cron} if self.cron else grid

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        return cls(
            data["amount"],
            data["unit"],
            timezone=data["timezone"],
            since=data["since"],
            cron=data.get("cron", ""),
        )

    def grid(self) -> Grid:
        return grid_of(self.amount, self.unit, self.zone)


class ExpressionTimetable(_TableTimetable):
    """Runs at the schedule times of a cron expression in a table's time zone."""

    def __init__(self, expression: str, *, timezone: str, since: str) -> None:
        self.expression, self.zone, self.since = expression, timezone, since
        self.description = CronTriggerTimetable(expression, timezone="UTC").description

    @property
    def summary(self) -> str:
        """The schedule as shown in Airflow's lists, in whole seconds.

        The gateway compares it with the schedule that it serves.
        """
        return f"{self.expression} ({self.zone}) since {_FRACTION.sub('', self.since or '')}"

    def serialize(self) -> dict[str, Any]:
        return {"expression": self.expression, "timezone": self.zone, "since": self.since}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        return cls(data["expression"], timezone=data["timezone"], since=data["since"])

    def grid(self) -> CronGrid:
        return cron_grid_of(self.expression, self.zone)


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as cause:
        raise AirflowTimetableInvalid(
            f"since: '{text}' is not an ISO instant such as 2026-11-21T17:00:00+00:00."
        ) from cause
    if instant.tzinfo is None:
        raise AirflowTimetableInvalid(f"since: '{text}' has no offset from UTC.")
    return instant
