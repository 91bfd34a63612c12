"""Cadence: how often a table is refreshed, declared as a freshness or a cron expression."""

from __future__ import annotations

from datetime import datetime, timedelta

from mt_core.model.cron import Cron, CronGrid
from mt_core.model.freshness import Freshness, FreshnessGrid

Cadence = Freshness | Cron
Grid = FreshnessGrid | CronGrid


def fresh_until(cadence: Cadence, zone: str, instant: datetime) -> datetime:
    """Return until when rows read at *instant* are as fresh as declared.

    With a freshness this is *instant* plus the freshness; with a cron it is the next schedule time.
    """
    if isinstance(cadence, Freshness):
        return instant + timedelta(seconds=cadence.seconds)
    return cadence.grid(zone).after(instant)


def period_at(cadence: Cadence, zone: str, instant: datetime) -> timedelta:
    """Return the time between refreshes around *instant*.

    With a freshness this is the freshness; with a cron it is the time from the last schedule time to the
    next.
    """
    if isinstance(cadence, Freshness):
        return timedelta(seconds=cadence.seconds)
    grid = cadence.grid(zone)
    return grid.after(instant) - grid.at_or_before(instant)
