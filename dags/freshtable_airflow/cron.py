"""The schedule times of a cron expression in a time zone, without I/O and identical to the gateway's.

croniter computes in local time, without a zone: with aware times it would run `30 2 * * *` twice when the
clock is set back. A skipped local time means the first instant after the gap. A local time that occurs twice
counts only the first time, unless the hour field begins with `*`. The gateway has already validated the
expression.
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
# February 29 has the longest gap between two occurrences: from 2096 to 2104.
LONGEST_GAP_YEARS = 9


@dataclass(frozen=True)
class CronGrid:
    """The schedule times of a cron expression: an endless sequence of aware UTC datetimes."""

    expression: str
    zone: ZoneInfo

    def after(self, instant: datetime) -> datetime:
        """Return the first schedule time later than *instant*."""
        wall = self._wall(instant)
        local = _local_after(self.expression, wall)
        while (point := instant_at(local, self.zone)) <= instant:
            local = _local_after(self.expression, local)
        occurrences = instants_at(wall, self.zone)
        if len(occurrences) == 1 or not self._takes_both:
            return point
        # This local time occurs twice. Before its second occurrence, search from the beginning of the
        # repeated period, which lies no further back than the clock is set. After it, search from *wall*.
        first, second = occurrences
        local = _local_after(self.expression, wall if instant >= second else wall - (second - first))
        while local <= wall and len(instants_at(local, self.zone)) == 1:
            local = _local_after(self.expression, local)
        return min(point, instants_at(local, self.zone)[-1])

    def at_or_before(self, instant: datetime) -> datetime:
        """Return the last schedule time that is not later than *instant*."""
        wall = self._wall(instant)
        local = _local_at_or_before(self.expression, wall)
        occurrences = instants_at(local, self.zone)
        points = (
            [point for point in occurrences if point <= instant] if self._takes_both else [occurrences[0]]
        )
        first, *second = instants_at(wall, self.zone)
        if second and instant >= second[0]:
            # In the second pass, local times later than *wall* have already occurred once too.
            local = _local_at_or_before(self.expression, wall + (second[0] - first))
            while local > wall and len(instants_at(local, self.zone)) == 1:
                local = _local_at_or_before(self.expression, local - SECOND)
            points.append(instant_at(local, self.zone))
        return max(points)

    @property
    def _takes_both(self) -> bool:
        return self.expression.split(" ")[1].startswith("*")

    def _wall(self, instant: datetime) -> datetime:
        # Airflow passes pendulum instants, which have their own time zone arithmetic.
        plain = datetime.fromtimestamp(instant.timestamp(), UTC)
        return plain.astimezone(self.zone).replace(tzinfo=None, fold=0, microsecond=0)


def cron_grid_of(expression: str, zone: str) -> CronGrid:
    """Return the schedule times of an expression in the IANA time zone *zone*.

    Raises ValueError naming an invalid value.
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
    """Return croniter's parsed expression; callers must copy it, because iterating changes it."""
    return croniter(expression, EPOCH.replace(tzinfo=None), max_years_between_matches=LONGEST_GAP_YEARS)


@lru_cache(maxsize=4_096)
def _local_after(expression: str, wall: datetime) -> datetime:
    iterator = copy.copy(_parsed(expression))
    iterator.set_current(wall, force=True)
    return iterator.get_next(datetime)


@lru_cache(maxsize=4_096)
def _local_at_or_before(expression: str, wall: datetime) -> datetime:
    iterator = copy.copy(_parsed(expression))
    iterator.set_current(wall + SECOND, force=True)
    return iterator.get_prev(datetime)
