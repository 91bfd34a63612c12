"""Reads the refreshes of a table from the registry, for the JSON of facts and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from mt_core.errors import FactUnreadable
from mt_core.gateway.facts.answers import unknown_table
from mt_core.model.freshness_hour import FreshnessHour
from mt_core.model.run import DONE, REFRESHES, RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.overview.history import HOUR, Curve, staleness
from mt_core.tables.registry import Transaction, each_row
from mt_core.tables.views.run_view import RunView, UnreadableRun

# A table with a FRESHNESS of 5 seconds has 17,000 refreshes a day. To read one takes 0.1 milliseconds.
MOST_RUNS = 20_000
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The refreshes of a table that ended from `since` to `until`, and its recorded hours.

    `runs` are sorted newest first, and also contain the last one before `since` that published. If there are
    more than were to be read, the oldest are left out, and the history is not complete. `running` is the
    refresh that is RUNNING, None if none is.
    """

    table: MaterializedTable
    since: datetime
    until: datetime
    runs: Sequence[RefreshRun]
    hours: Sequence[FreshnessHour]
    is_complete: bool
    running: RefreshRun | None = None

    @classmethod
    def read(
        cls,
        tx: Transaction,
        table: MaterializedTable,
        since: datetime,
        until: datetime,
        *,
        most: int = MOST_RUNS,
    ) -> History:
        """Return the history from *since* to *until*, with some *most* refreshes."""
        runs, is_complete = _runs_since(tx, table.table_id, since, most)
        with tx.past_unreadable():
            running = tx.runs.newest(table_id=table.table_id, statuses=(RunStatus.RUNNING,), limit=1)
        return cls(
            table=table,
            since=since,
            until=until,
            runs=runs,
            hours=tx.freshness.of(table.table_id, since - HOUR),
            is_complete=is_complete,
            running=next(iter(running), None),
        )

    def curve(self) -> Curve:
        """Return the staleness of the table over this time, with all points."""
        return staleness(self.table, self.runs, self.hours, self.since, self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshPage:
    """Runs of a table, newest first. Older ones than the run `before` follow, none if it is None."""

    views: Sequence[RunView | UnreadableRun]
    before: str | None

    @classmethod
    def read(cls, tx: Transaction, table_id: str, *, before: str | None, limit: int) -> RefreshPage:
        """Return up to *limit* runs that were requested before the run *before* (None: from the newest).

        Raises TableNotFound.
        """
        table = stored_table(tx, table_id)
        page = partial(tx.runs.newest, table_id=table_id, kinds=tuple(RunKind), before=before)
        views = [view_of(run, table) for run in each_row(tx, partial(page, limit=limit + 1))]
        return cls(views=views[:limit], before=id_of_run(views[limit - 1]) if len(views) > limit else None)


def stored_table(tx: Transaction, table_id: str) -> MaterializedTable | FactUnreadable:
    """Return a table, or the reason why it cannot be read. Raises TableNotFound."""
    try:
        table = tx.tables.get(table_id)
    except FactUnreadable as error:
        return error
    if table is None:
        raise unknown_table(table_id)
    return table


def id_of_run(view: RunView | UnreadableRun) -> str:
    return view.run.run_id if isinstance(view, RunView) else view.run_id


def view_of(
    run: RefreshRun | FactUnreadable, table: MaterializedTable | FactUnreadable | None
) -> RunView | UnreadableRun:
    """Return the view of a run of *table*, None if it was dropped; either may be unreadable."""
    readable = table if isinstance(table, MaterializedTable) else None
    if isinstance(run, RefreshRun):
        return RunView.of(run, readable)
    identifier = None if readable is None else readable.identifier
    if isinstance(table, FactUnreadable):
        identifier = TableIdentifier.from_json(table.columns)
    run_id, table_id = str(run.columns["run_id"]), str(run.columns["table_id"])
    return UnreadableRun(run_id=run_id, table_id=table_id, table=identifier, error=run)


def _runs_since(tx: Transaction, table_id: str, since: datetime, most: int) -> tuple[list[RefreshRun], bool]:
    """Return the refreshes that ended after *since* and the last one before that published.

    Also returns whether these are all: if there are more than *most*, the oldest are left out.
    """
    runs: list[RefreshRun] = []
    ended, limit = (*DONE, RunStatus.FAILED), min(_PAGE, most)
    page = partial(tx.runs.newest, table_id=table_id, statuses=ended, kinds=REFRESHES, limit=limit)
    before: str | None = None
    while len(runs) < most:
        rows = each_row(tx, partial(page, before=before))
        readable = [row for row in rows if isinstance(row, RefreshRun)]
        runs += readable
        if len(rows) < limit or any(_has_published_before(run, since) for run in readable):
            return runs, True
        last = rows[-1]
        before = last.run_id if isinstance(last, RefreshRun) else str(last.columns["run_id"])
    return runs, False


def _has_published_before(run: RefreshRun, instant: datetime) -> bool:
    return run.status in DONE and run.finished_at is not None and run.finished_at < instant
