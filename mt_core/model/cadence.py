"""Cadence: how often a table is refreshed, as declared by a freshness or a cron expression."""

from __future__ import annotations

from datetime import datetime, timedelta

from mt_core.model.cron import Cron, CronGrid
from mt_core.model.freshness import Freshness, FreshnessGrid

Cadence = Freshness | Cron
Grid = FreshnessGrid | CronGrid


def fresh_until(cadence: Cadence, zone: str, instant: datetime) -> datetime:
    """Return how long rows read at *instant* stay as fresh as declared: for the freshness, or until the next
    time of the cron.
    """
    if isinstance(cadence, Freshness):
        return instant + timedelta(seconds=cadence.seconds)
    return cadence.grid(zone).after(instant)


def period_at(cadence: Cadence, zone: str, instant: datetime) -> timedelta:
    """Return the time between refreshes at *instant*: the freshness, or the distance of the cron's schedule
    times around it.
    """
    if isinstance(cadence, Freshness):
        return timedelta(seconds=cadence.seconds)
    grid = cadence.grid(zone)
    return grid.after(instant) - grid.at_or_before(instant)
