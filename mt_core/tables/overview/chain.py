"""How old the source data is that tables show, through the chain of tables that they read.

A table shows its sources as they were at its *data-as-of time*. For a source that is a materialized table,
this is the data-as-of time of the refresh that published the version that was read. For any other source, it
is the time when the source was read. The oldest of these times applies to the reading table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mt_core.model.table import TableIdentifier
from mt_core.tables.overview.standing import ReadVersion, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class DataAsOf:
    """The data-as-of time of a table, which shows its source data as it was at `until`.

    `by` is the upstream materialized table that read its sources at that time, or None if the table itself
    did.
    """

    until: datetime
    by: TableIdentifier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Computes data-as-of times from the *standings* of all tables.

    *fresh_at* maps the ids of CONTINUOUS tables to the time at which they were last found to be up to date.
    `short` collects the ids of tables whose standing does not reach back to a version that was read.
    """

    standings: Mapping[TableIdentifier, Standing]
    fresh_at: Mapping[str, datetime]
    short: set[str] = field(default_factory=set)
    # What was computed before. A table that reads itself through others ends at None.
    _known: dict[tuple[str, int, datetime], DataAsOf | None] = field(default_factory=dict)

    def read_at(self, standing: Standing) -> datetime | None:
        """Return the latest time at which a table is known to have been up to date, None if never."""
        found = self.fresh_at.get(standing.table_id) if standing.is_watched else None
        return max(filter(None, (found, standing.refreshes.read_at)), default=None)

    def data_as_of(self, standing: Standing) -> DataAsOf | None:
        """Return the data-as-of time of what a table shows now, or None if no refresh is known."""
        at = self.read_at(standing)
        return None if at is None else self.of(standing, standing.refreshes.reads, at)

    def of(self, standing: Standing, reads: Iterable[ReadVersion], at: datetime) -> DataAsOf:
        """Return the data-as-of time of a table after a refresh that read *reads* at the time *at*."""
        oldest = DataAsOf(until=at)
        for read in reads:
            upstream = self.standings.get(read.table)
            if upstream is not None and upstream.table_id != standing.table_id:
                below = self._below(upstream, read.snapshot, at)
                if below is not None and below.until < oldest.until:
                    oldest = below
        return oldest

    def _below(self, standing: Standing, snapshot: str | None, at: datetime) -> DataAsOf | None:
        """Return the data-as-of time of version *snapshot* of a table, None if its run is unknown."""
        showings = standing.refreshes.showings
        for place, showing in enumerate(showings):
            if showing.snapshot != snapshot and showing.since > at:
                continue
            unchanged = showings[place - 1].first_commit if place else self.fresh_at.get(standing.table_id)
            until = showing.read_at if unchanged is None else max(showing.read_at, min(at, unchanged))
            key = (standing.table_id, place, until)
            if key not in self._known:
                self._known[key] = None
                below = self.of(standing, showing.reads, until)
                self._known[key] = DataAsOf(until=below.until, by=below.by or standing.identifier)
            return self._known[key]
        if standing.refreshes.has_older:
            self.short.add(standing.table_id)
        return None
