"""Determines how old the source data that a table shows is, from the ledger only.

A table shows its sources as they were at its *data-as-of time*. For a source that is a materialized table,
this is the data-as-of time of the refresh that published the version that was read. For any other source, it
is the time when the source was read. The oldest of these times applies to the reading table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, tee
from typing import Any

from mt_core.model.run import DONE, RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.runs.decide import CONTINUOUS, SUSPENDED
from mt_core.tables.views.read_ahead import ReadAhead

# A continuous run publishes while it is RUNNING.
HAS_PUBLISHED = DONE | {RunStatus.RUNNING}
_RECENT = 20
Vector = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataAsOf:
    """The data-as-of time of a table, which shows its source data as it was at `until`.

    `by` is the upstream materialized table that read its sources at that time, or None if the table itself
    did.
    """

    until: datetime
    by: TableIdentifier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Showing:
    """What a table showed from `since` on, after a refresh that read the sources at `read_at`.

    `oldest` is the time of the oldest source commit that the next batch was the first to show, None if
    unknown.
    """

    snapshot: str | None
    read_at: datetime
    since: datetime
    oldest: datetime | None
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class DataAsOfReader:
    """Computes the data-as-of times of tables from *facts*.

    *fresh_at* maps the ids of CONTINUOUS tables to the time at which they were last found to be up to date.
    """

    facts: ReadAhead
    fresh_at: Mapping[str, datetime]
    _showings: dict[str, Iterator[_Showing]] = field(default_factory=dict)
    _known: dict[tuple[str, datetime, datetime], DataAsOf] = field(default_factory=dict)

    def of(self, table: MaterializedTable, vector: Vector, at: datetime) -> DataAsOf:
        """Return the data-as-of time of *table* after a refresh that read *vector* at the time *at*."""
        instants = [DataAsOf(until=at)]
        for source in vector:
            upstream = self.facts.materialized(source["name"]) if source["kind"] == "table" else None
            if upstream is not None and upstream.table_id != table.table_id:
                version = (source["version"] or {}).get("snapshot")
                instants += self._below(upstream, None if version is None else str(version), at)
        return min(instants, key=lambda each: each.until)

    def _below(self, table: MaterializedTable, snapshot: str | None, at: datetime) -> list[DataAsOf]:
        """Return the data-as-of time of version *snapshot* of *table* in a list.

        The list is empty if the run of that version is not in the ledger.
        """
        showings = self._showings_of(table)
        for newer, showing in enumerate(showings):
            if showing.snapshot != snapshot and showing.since > at:
                continue
            unchanged = self.fresh_at.get(table.table_id) if newer == 0 else showing.oldest
            until = max(showing.read_at, min(at, unchanged)) if unchanged is not None else showing.read_at
            key = (table.table_id, showing.since, until)
            if key not in self._known:
                below = self.of(table, showing.vector, until)
                self._known[key] = DataAsOf(until=below.until, by=below.by or table.identifier)
            return [self._known[key]]
        return []

    def _showings_of(self, table: MaterializedTable) -> Iterator[_Showing]:
        """Yield what the table showed, newest first; callers share what has been read."""
        known = self._showings.get(table.table_id)
        if known is None:
            known = _showings(islice(self.facts.runs(table.table_id, HAS_PUBLISHED), _RECENT))
        self._showings[table.table_id], showings = tee(known)
        return showings


def _showings(runs: Iterable[RefreshRun]) -> Iterator[_Showing]:
    """Yield what a table showed after each of its *runs* and their batches, newest first."""
    oldest: datetime | None = None
    for run in runs:
        vector: Vector = run.vector or ()
        for batch in reversed(run.recent):
            since = batch.began_at + timedelta(seconds=batch.seconds)
            yield _Showing(
                snapshot=batch.snapshot_id, read_at=batch.began_at, since=since, oldest=oldest, vector=vector
            )
            # The ledger does not store the versions that earlier batches read.
            vector = [{**source, "version": None} for source in run.vector or ()]
            oldest = None if batch.lag is None else since - timedelta(seconds=batch.lag)
        if not run.recent and run.finished_at is not None and run.decision not in (SUSPENDED, CONTINUOUS):
            read_at = run.started_at or run.requested_at
            yield _Showing(
                snapshot=run.snapshot_id, read_at=read_at, since=run.finished_at, oldest=oldest, vector=vector
            )
            oldest = None
