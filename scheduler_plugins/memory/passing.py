"""One look at many grids: the point each has just passed and the one that comes next. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mt_core.model.freshness import Freshness, grid_of
from mt_core.workflow.operations import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """The points of a schedule around an instant; `passed` is None when none has passed since the schedule began."""

    passed: datetime | None
    next: datetime


class Passing:
    """The points around *now*; schedules with one grid share one calculation, as thousands may be due at once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._points: dict[tuple[Freshness, str], tuple[datetime, datetime]] = {}

    def of(self, schedule: Schedule) -> Points:
        """Raises MtError when the schedule has no grid, such as for an unknown zone."""
        key = (schedule.freshness, schedule.zone)
        if key not in self._points:
            grid = grid_of(*key)
            self._points[key] = grid.at_or_before(self._now), grid.after(self._now)
        passed, following = self._points[key]
        if following <= schedule.since:
            following = grid_of(*key).after(schedule.since)
        return Points(passed=passed if passed > schedule.since else None, next=following)
