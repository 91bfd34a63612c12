"""Cadence: how often a table is refreshed, by the freshness or the cron expression that it declares."""

from __future__ import annotations

from datetime import datetime, timedelta

from mt_core.model.cron import Cron, CronGrid
from mt_core.model.freshness import Freshness, FreshnessGrid

Cadence = Freshness | Cron
Grid = FreshnessGrid | CronGrid


def period_at(cadence: Cadence, zone: str, instant: datetime) -> timedelta:
    """Return how long what is read at *instant* stays fresh: the freshness, or until the next schedule time but one of a cron.

    A cron's is the time between its schedule times around *instant*.
    """
    if isinstance(cadence, Freshness):
        return timedelta(seconds=cadence.seconds)
    grid = cadence.grid(zone)
    return grid.after(instant) - grid.at_or_before(instant)
