"""Cadence: how often a table is refreshed, by the freshness or the cron expression that it declares."""

from __future__ import annotations

from datetime import datetime, timedelta

from mt_core.model.cron import Cron, CronGrid
from mt_core.model.freshness import Freshness, FreshnessGrid

Cadence = Freshness | Cron
Grid = FreshnessGrid | CronGrid


def fresh_until(cadence: Cadence, zone: str, instant: datetime) -> datetime:
    """Return until when what was read at *instant* is as fresh as declared:
    for the freshness, or to the next time of a cron.
    """
    if isinstance(cadence, Freshness):
        return instant + timedelta(seconds=cadence.seconds)
    return cadence.grid(zone).after(instant)


def period_at(cadence: Cadence, zone: str, instant: datetime) -> timedelta:
    """Return how far apart refreshes are at *instant*: by the freshness,
    or as a cron's schedule times around it.
    """
    if isinstance(cadence, Freshness):
        return timedelta(seconds=cadence.seconds)
    grid = cadence.grid(zone)
    return grid.after(instant) - grid.at_or_before(instant)
