"""The schedule times of a freshness in a time zone, without I/O and identical to the gateway's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from freshtable_airflow.zone import (
    instant_at,
    instant_of,
    offset_at,
    seconds_of,
    transition_between,
    zone_named,
)

FIRST_MONDAY = date(1970, 1, 5)
FIRST_INSTANT = seconds_of(datetime(1970, 1, 5, tzinfo=timezone.utc))
DAY_S = 86_400
LONGEST_S = 36_500 * DAY_S
UNIT_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": DAY_S, "WEEK": 7 * DAY_S}


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


Grid = _CalendarGrid | _WallClockGrid


def grid_of(amount: int, unit: str, zone: str) -> Grid:
    """Return the schedule times of a freshness in the IANA time zone *zone*.

    Raises ValueError naming an invalid value.
    """
    if unit not in UNIT_SECONDS:
        raise ValueError(f"The unit {unit} is not known; use one of {', '.join(UNIT_SECONDS)}.")
    if (
        isinstance(amount, bool)
        or not isinstance(amount, int)
        or not 0 < amount * UNIT_SECONDS[unit] <= LONGEST_S
    ):
        raise ValueError(
            f"An interval of {amount!r} {unit} has no grid; use a whole number from 1 second to 36500 days."
        )
    seconds, named = amount * UNIT_SECONDS[unit], zone_named(zone)
    if seconds % DAY_S == 0:
        return _CalendarGrid(seconds // DAY_S, named)
    return _WallClockGrid(seconds, named if _cron_can_express(seconds) else zone_named("UTC"))


def _cron_can_express(seconds: int) -> bool:
    if seconds % 3_600 == 0:
        return 24 % (seconds // 3_600) == 0
    return 60 % (seconds // 60 if seconds % 60 == 0 else seconds) == 0
