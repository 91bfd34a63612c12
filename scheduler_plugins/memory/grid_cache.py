"""The schedule times of many schedules around one instant: the latest and the next. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from mt_core.model.cadence import Cadence
from mt_core.workflow.operations import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """The schedule times around an instant; `passed` is None if no past one needs a tick."""

    passed: datetime | None
    next: datetime


@dataclass(slots=True)
class GridCache:
    """The schedule times around *now*.

    Thousands of workflows may be due at the same instant, so equal schedules share one computation.
    """

    now: datetime
    _points: dict[tuple[Cadence, str], tuple[datetime, datetime]] = field(default_factory=dict)

    def around(self, schedule: Schedule, *, done: datetime | None = None, begun: bool = False) -> Points:
        """Return the next schedule time, and the latest one if after both the schedule's start and *done*.

        The start is ignored if the schedule had *begun* before the clock was set back. Raises MtError if the
        schedule times cannot be computed, for example because the time zone is unknown.
        """
        key = (schedule.cadence, schedule.zone)
        if key not in self._points:
            grid = schedule.grid()
            self._points[key] = grid.at_or_before(self.now), grid.after(self.now)
        passed, following = self._points[key]
        if following <= schedule.since and not begun:
            following = schedule.grid().after(schedule.since)
        due = (begun or passed > schedule.since) and (done is None or passed > done)
        return Points(passed=passed if due else None, next=following)
