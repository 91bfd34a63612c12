"""The schedule times of a cron expression in a zone. Pure, and point for point the gateway's own.

croniter computes on the wall clock, without a zone: with aware times it runs `30 2 * * *` twice when the
clock is put back. A local time that is skipped means the first instant after the gap; one that occurs twice
counts once, the first time, unless the hour field begins with `*`. The gateway has checked the expression.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

from freshtable_airflow.zone import EPOCH, UTC, instant_at, instants_at, zone_named

SECOND = timedelta(seconds=1)
FIELDS = 5
# Of all dates February 29 has the longest way to the next one: from 2096 to 2104.
LONGEST_GAP_YEARS = 9


@dataclass(frozen=True)
class CronGrid:
    """Aware UTC datetimes without end."""

    expression: str
    zone: ZoneInfo

    def after(self, instant: datetime) -> datetime:
        """Return the first point strictly later than *instant*."""
        wall = self._wall(instant)
        local = _local_after(self.expression, wall)
        while (point := instant_at(local, self.zone)) <= instant:
            local = _local_after(self.expression, local)
        shown = instants_at(wall, self.zone)
        if len(shown) == 1 or not self._takes_both:
            return point
        # The local times of this hour come again. In its first course that is from its beginning on,
        # at most its length ago.
        first, second = shown
        local = _local_after(self.expression, wall if instant >= second else wall - (second - first))
        while local <= wall and len(instants_at(local, self.zone)) == 1:
            local = _local_after(self.expression, local)
        return min(point, instants_at(local, self.zone)[-1])

    def at_or_before(self, instant: datetime) -> datetime:
        """Return the last point that is not later than *instant*."""
        wall = self._wall(instant)
        local = _local_at_or_before(self.expression, wall)
        shown = instants_at(local, self.zone)
        points = [point for point in shown if point <= instant] if self._takes_both else [shown[0]]
        first, *second = instants_at(wall, self.zone)
        if second and instant >= second[0]:
            # All local times of this hour have been shown once, those that come again later too.
            local = _local_at_or_before(self.expression, wall + (second[0] - first))
            while local > wall and len(instants_at(local, self.zone)) == 1:
                local = _local_at_or_before(self.expression, local - SECOND)
            points.append(instant_at(local, self.zone))
        return max(points)

    @property
    def _takes_both(self) -> bool:
        return self.expression.split(" ")[1].startswith("*")

    def _wall(self, instant: datetime) -> datetime:
        # What Airflow hands in is a pendulum instant, which has a clock of its own.
        plain = datetime.fromtimestamp(instant.timestamp(), UTC)
        return plain.astimezone(self.zone).replace(tzinfo=None, fold=0, microsecond=0)


def cron_grid_of(expression: str, zone: str) -> CronGrid:
    """Return the grid of an expression in the IANA zone *zone*;
    raises ValueError naming what does not fit.
    """
    named = zone_named(zone)
    try:
        if len(expression.split(" ")) != FIELDS:
            raise ValueError(f"'{expression}' does not have five fields.")
        _local_after(expression, EPOCH.replace(tzinfo=None))
    except CroniterError as cause:
        raise ValueError(f"'{expression}' has no schedule times: {cause}") from cause
    return CronGrid(expression, named)


@cache
def _parsed(expression: str) -> croniter:
    """Return the expression as croniter has read it, to be copied: it moves as it is asked."""
    return croniter(expression, EPOCH.replace(tzinfo=None), max_years_between_matches=LONGEST_GAP_YEARS)


@lru_cache(maxsize=4_096)
def _local_after(expression: str, wall: datetime) -> datetime:
    places = copy.copy(_parsed(expression))
    places.set_current(wall, force=True)
    return places.get_next(datetime)


@lru_cache(maxsize=4_096)
def _local_at_or_before(expression: str, wall: datetime) -> datetime:
    places = copy.copy(_parsed(expression))
    places.set_current(wall + SECOND, force=True)
    return places.get_prev(datetime)
