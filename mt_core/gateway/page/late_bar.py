"""The bar of a table: how much of the time until it is late has passed, as lists and the graph draw it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mt_core.tables.overview.facts import TableFacts

# How long the bar is, and where in it the table becomes late.
BAR, MARK = 120, 90


@dataclass(frozen=True, slots=True, kw_only=True)
class LateBar:
    """A bar, by the `share` of the time from what the table shows to `late_at` that has passed."""

    share: float

    @property
    def filled(self) -> float:
        """How much of `BAR` is filled."""
        return round(min(max(self.share * MARK, 0), BAR), 1)


def late_bar(facts: TableFacts, now: datetime) -> LateBar | None:
    """Return the bar of a table, None if it has no rows or no time at which it is late."""
    if facts.shows is None or facts.late_at is None or facts.late_at <= facts.shows:
        return None
    return LateBar(share=(now - facts.shows) / (facts.late_at - facts.shows))
