"""Freshness: how stale a table may become, and its schedule times.

The problem: "every 15 minutes" and "every day" must mean the same schedule times for the scheduler, the
ledger and the partitions of a table. This holds for any process, and across changes to and from summer time.
The idea: the schedule times are a pure function of the freshness and the time zone, counted from Monday
1970-01-05, so no process has to remember the last one. Whole days follow the calendar. Lengths that divide an
hour or a day follow local time, so that people see round times. All others are counted in UTC. Invariant: two
consecutive schedule times are never further apart than the freshness, so a table that is refreshed at each of
them is never staler than declared. The exception is the calendar grid, where a local day may have 25 hours.
The limit is 36,500 days, because longer intervals have no useful schedule time within the years that datetime
supports.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from mt_core.base.plural import plural
from mt_core.errors import DefinitionInvalid
from mt_core.model.zone import instant_at, instant_of, offset_at, seconds_of, transition_between, zone_named

FIRST_MONDAY = date(1970, 1, 5)
FIRST_INSTANT = seconds_of(datetime(1970, 1, 5, tzinfo=UTC))
DAY_S = 86_400
LONGEST_S = 36_500 * DAY_S


class FreshnessUnit(StrEnum):
    """The units of an interval."""

    SECOND = "SECOND"
    MINUTE = "MINUTE"
    HOUR = "HOUR"
    DAY = "DAY"
    WEEK = "WEEK"


UNIT_SECONDS = {
    FreshnessUnit.SECOND: 1,
    FreshnessUnit.MINUTE: 60,
    FreshnessUnit.HOUR: 3_600,
    FreshnessUnit.DAY: DAY_S,
    FreshnessUnit.WEEK: 7 * DAY_S,
}


@dataclass(frozen=True, slots=True)
class Freshness:
    """How stale a table may become, as declared; raises DefinitionInvalid for a value that is not allowed."""

    amount: int
    unit: str

    def __post_init__(self) -> None:
        if self.unit not in UNIT_SECONDS:
            units = ", ".join(FreshnessUnit)
            raise DefinitionInvalid(
                f"FRESHNESS: the unit {self.unit} is not supported; use one of {units}.",
                key="FRESHNESS",
                value=self.unit,
            )
        if self.amount <= 0:
            raise DefinitionInvalid(
                f"FRESHNESS: only positive integers are supported, not '{self.amount}'; "
                f"write INTERVAL '1' {self.unit}.",
                key="FRESHNESS",
                value=self.amount,
            )
        if self.seconds > LONGEST_S:
            raise DefinitionInvalid(
                f"FRESHNESS: {self} is too long; 36500 days is the longest.", key="FRESHNESS", value=str(self)
            )

    @classmethod
    def of_seconds(cls, seconds: int) -> Freshness:
        """Return the freshness of *seconds* in the largest unit, up to DAY, that divides it."""
        for unit in (FreshnessUnit.DAY, FreshnessUnit.HOUR, FreshnessUnit.MINUTE):
            if seconds % UNIT_SECONDS[unit] == 0:
                return cls(seconds // UNIT_SECONDS[unit], unit.value)
        return cls(seconds, FreshnessUnit.SECOND.value)

    @property
    def words(self) -> str:
        """The length as text for users, such as `10 seconds` or `1 day`."""
        return f"{self.amount} {plural(self.amount, self.unit.lower())}"

    @property
    def every(self) -> str:
        """The frequency as text for users, such as `every 1 day`."""
        return f"every {self.words}"

    def grid(self, zone: str) -> FreshnessGrid:
        """Return the schedule times in the IANA zone *zone*; raise DefinitionInvalid for an unknown zone."""
        return grid_of(self, zone)

    def __str__(self) -> str:
        return f"INTERVAL '{self.amount}' {self.unit}"

    @property
    def seconds(self) -> int:
        """The length in seconds, counting a day as 24 hours."""
        return self.amount * UNIT_SECONDS[FreshnessUnit(self.unit)]

    @property
    def days(self) -> int | None:
        """The length in days, or None if it is not a whole number of days."""
        return None if self.seconds % DAY_S else self.seconds // DAY_S


def before(schedule_time: datetime, freshness: Freshness, zone: str) -> datetime:
    """Return *schedule_time* minus *freshness*, in UTC.

    Whole days are subtracted in the calendar of *zone*, all other lengths in elapsed time. The first instant
    of a local day counts as its midnight, even if midnight itself is skipped.
    """
    if freshness.days is None:
        return schedule_time.astimezone(UTC) - timedelta(seconds=freshness.seconds)
    named = zone_named(zone)
    wall = schedule_time.astimezone(named).replace(tzinfo=None)
    midnight = datetime.combine(wall.date(), time())
    if instant_at(midnight, named) == schedule_time:
        wall = midnight
    return instant_at(wall - timedelta(days=freshness.days), named)


def grid_of(freshness: Freshness, zone: str) -> FreshnessGrid:
    """Return the endless sequence of schedule times of *freshness* in the IANA time zone *zone*, in UTC.

    Raises DefinitionInvalid for an unknown zone.

    Equal lengths have equal grids: 60 SECOND = 1 MINUTE, 24 HOUR = 1 DAY, 7 DAY = 1 WEEK. The grid of n whole
    days is every n-th local midnight, counted from Monday 1970-01-05. A skipped midnight means the first
    instant after the gap, and a midnight that occurs twice counts only the first time. Intervals that cron
    can express (seconds and minutes that divide 60, hours that divide 24) are due when local time is a
    multiple of the interval since midnight. A skipped time means the first instant after the gap, and a time
    that occurs twice counts twice. If setting the clock back would put two points further apart than the
    interval, an extra point is added one interval after the earlier one. So no table becomes staler than
    promised. All other intervals are due at 1970-01-05T00:00Z + k * interval, whatever the zone.
    """
    named = zone_named(zone)
    if freshness.days is not None:
        return _CalendarGrid(freshness.days, named)
    return _WallClockGrid(
        freshness.seconds, named if _cron_can_express(freshness.seconds) else zone_named("UTC")
    )


def cron_of(freshness: Freshness) -> str | None:
    """Return *freshness* as a five-field cron expression in the table's zone, or None if there is none.

    On days when the clock changes, the grid has more points than the expression; on all other days they
    agree.
    """
    minutes, odd = divmod(freshness.seconds, 60)
    if freshness.seconds in (DAY_S, 7 * DAY_S):
        return "0 0 * * *" if freshness.seconds == DAY_S else "0 0 * * 1"
    if odd or not _cron_can_express(freshness.seconds):
        return None
    step, field = (minutes, "{} * * * *") if minutes < 60 else (minutes // 60, "0 {} * * *")
    return field.format("*" if step == 1 else f"*/{step}")


def _cron_can_express(seconds: int) -> bool:
    if seconds % 3_600 == 0:
        return 24 % (seconds // 3_600) == 0
    return 60 % (seconds // 60 if seconds % 60 == 0 else seconds) == 0


@dataclass(frozen=True, slots=True)
class _CalendarGrid:
    days: int
    zone: ZoneInfo

    def after(self, instant: datetime) -> datetime:
        """Return the first point later than *instant*."""
        return self._point(self._index(instant) + 1)

    def at_or_before(self, instant: datetime) -> datetime:
        """Return the last point that is not later than *instant*."""
        return self._point(self._index(instant))

    def _index(self, instant: datetime) -> int:
        """Return the number of the last point that is not later than *instant*."""
        # If the clock is set back across midnight, the next day begins before this local date has ended.
        index = (instant.astimezone(self.zone).date() - FIRST_MONDAY).days // self.days + 1
        while self._point(index) > instant:
            index -= 1
        return index

    def _point(self, index: int) -> datetime:
        return instant_at(
            datetime.combine(FIRST_MONDAY + timedelta(days=index * self.days), time()), self.zone
        )


@dataclass(frozen=True, slots=True)
class _WallClockGrid:
    """Multiples of `step` in local time, counted from Monday 1970-01-05.

    They are also multiples since midnight if `step` divides a day.
    """

    step: int
    zone: ZoneInfo

    def after(self, instant: datetime) -> datetime:
        """Return the first point later than *instant*."""
        seconds = seconds_of(instant)
        # Consecutive points are never more than one step apart.
        point = self._floor(seconds + self.step, fill=True)
        while (earlier := self._floor(point - 1, fill=True)) > seconds:
            point = earlier
        return instant_of(point)

    def at_or_before(self, instant: datetime) -> datetime:
        """Return the last point that is not later than *instant*."""
        return instant_of(self._floor(seconds_of(instant), fill=True))

    def _floor(self, seconds: int, *, fill: bool = False) -> int:
        """Return the last point not later than *seconds*.

        Points are multiples in local time and, with *fill*, also whole steps after the last of them.
        """
        offset = offset_at(seconds, self.zone)
        point = self._multiple(seconds + offset) - offset
        if offset_at(point, self.zone) != offset:
            change = transition_between(point, seconds, self.zone)
            # When the clock is set forward, it skips these local seconds; *end* is exclusive.
            start, end = (change + offset_at(instant, self.zone) for instant in (change - 1, change))
            skips_a_point = start < end and self._multiple(end - 1) >= start
            point = change if skips_a_point else self._floor(change - 1)
        return point + (seconds - point) // self.step * self.step if fill else point

    def _multiple(self, wall: int) -> int:
        return (wall - FIRST_INSTANT) // self.step * self.step + FIRST_INSTANT


FreshnessGrid = _CalendarGrid | _WallClockGrid
