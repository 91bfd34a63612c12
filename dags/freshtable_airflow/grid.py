"""The grid of schedule times of a freshness in a zone. Pure, and point for point the gateway's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from freshtable_airflow.zone import (
    SECOND,
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
        index = self._index(instant)
        while (point := self._point(index)) <= instant:
            index += 1
        return point

    def at_or_before(self, instant: datetime) -> datetime:
        index = self._index(instant) + 1
        while (point := self._point(index)) > instant:
            index -= 1
        return point

    def _index(self, instant: datetime) -> int:
        return (instant.astimezone(self.zone).date() - FIRST_MONDAY).days // self.days

    def _point(self, index: int) -> datetime:
        return instant_at(datetime.combine(FIRST_MONDAY + timedelta(days=index * self.days), time()), self.zone)


@dataclass(frozen=True)
class _WallClockGrid:
    """`step` divides a day, so the wall clock is a multiple of it since midnight as it is one since 1970."""

    step: int
    zone: ZoneInfo

    def after(self, instant: datetime) -> datetime:
        seconds = seconds_of(instant)
        return instant_of(min(self._ceiling(seconds + 1), self._floor(seconds, fill=True) + self.step))

    def at_or_before(self, instant: datetime) -> datetime:
        return instant_of(self._floor(seconds_of(instant), fill=True))

    def _floor(self, seconds: int, *, fill: bool = False) -> int:
        offset = offset_at(seconds, self.zone)
        point = (seconds + offset) // self.step * self.step - offset
        if offset_at(point, self.zone) != offset:
            change = transition_between(point, seconds, self.zone)
            point = change if self._skips_a_point(change) else self._floor(change - 1)
        return point + (seconds - point) // self.step * self.step if fill else point

    def _ceiling(self, seconds: int) -> int:
        if self._skips_a_point(seconds):
            return seconds
        offset = offset_at(seconds, self.zone)
        point = -(-(seconds + offset) // self.step) * self.step - offset
        if offset_at(point, self.zone) == offset:
            return point
        return self._ceiling(transition_between(seconds, point, self.zone))

    def _skips_a_point(self, seconds: int) -> bool:
        """Whether the clock is put forward at this instant, over a multiple of the step."""
        start = seconds + offset_at(seconds - 1, self.zone)
        end = seconds + offset_at(seconds, self.zone)
        return start < end and (end - 1) // self.step * self.step >= start


@dataclass(frozen=True)
class _ElapsedGrid:
    step: int

    def after(self, instant: datetime) -> datetime:
        return self.at_or_before(instant) + self.step * SECOND

    def at_or_before(self, instant: datetime) -> datetime:
        return instant_of((seconds_of(instant) - FIRST_INSTANT) // self.step * self.step + FIRST_INSTANT)


# Endless schedule times: `after` is the first point later than an instant, `at_or_before` the last that is not later.
Grid = _CalendarGrid | _WallClockGrid | _ElapsedGrid


def grid_of(amount: int, unit: str, zone: str) -> Grid:
    """Return the grid of the freshness in the IANA zone *zone*; raises ValueError naming what does not fit."""
    if unit not in UNIT_SECONDS:
        raise ValueError(f"The unit {unit} is not known; use one of {', '.join(UNIT_SECONDS)}.")
    if isinstance(amount, bool) or not isinstance(amount, int) or not 0 < amount * UNIT_SECONDS[unit] <= LONGEST_S:
        raise ValueError(
            f"An interval of {amount!r} {unit} has no grid; use a whole number from 1 second to 36500 days."
        )
    seconds, named = amount * UNIT_SECONDS[unit], zone_named(zone)
    if seconds % DAY_S == 0:
        return _CalendarGrid(seconds // DAY_S, named)
    return _WallClockGrid(seconds, named) if _cron_can_say(seconds) else _ElapsedGrid(seconds)


def _cron_can_say(seconds: int) -> bool:
    if seconds % 3_600 == 0:
        return 24 % (seconds // 3_600) == 0
    return 60 % (seconds // 60 if seconds % 60 == 0 else seconds) == 0
