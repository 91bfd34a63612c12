"""The ledger of one table: a page of its runs as rows.

Which run is open is part of the address, so that a link to it can be sent to a colleague, Airflow can lead to
it, and it stays open when the browser brings the list up to date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mt_core.gateway.facts.refreshes import RefreshPage
from mt_core.gateway.page.formats import count_text, number_text
from mt_core.model.run import REFRESHES, RefreshRun, RunStatus
from mt_core.tables.brief import brief_scope, brief_text
from mt_core.tables.registry import Transaction
from mt_core.tables.views.run_view import RunView, UnreadableRun

ROWS = 20
Listed = RunView | UnreadableRun


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A run in a row. `view` is None if the run cannot be read; then `result` says why.

    `result` is a few words, `scope` the partitions, shortened, and `seconds` the time from the begin to the
    end, None before the end.
    """

    run_id: str
    view: RunView | None
    result: str
    is_open: bool = False

    @classmethod
    def of(cls, listed: Listed, opened: str = "") -> LedgerRow:
        if isinstance(listed, UnreadableRun):
            result = f"cannot be read: {listed.error}"
            return cls(run_id=listed.run_id, view=None, result=result, is_open=listed.run_id == opened)
        run_id = listed.run.run_id
        return cls(run_id=run_id, view=listed, result=result_text(listed), is_open=run_id == opened)

    @property
    def run(self) -> RefreshRun | None:
        return None if self.view is None else self.view.run

    @property
    def at(self) -> datetime | None:
        """When the run began, or was requested if it has not begun."""
        run = self.run
        return None if run is None else run.started_at or run.requested_at

    @property
    def seconds(self) -> float | None:
        run = self.run
        if run is None or run.started_at is None or run.finished_at is None:
            return None
        return (run.finished_at - run.started_at).total_seconds()

    @property
    def scope(self) -> str:
        return "" if self.run is None else brief_scope(self.run.scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A page of rows, newest first.

    `following` is the run after which the next page begins, None on the last page.
    """

    rows: Sequence[LedgerRow]
    following: str | None

    @classmethod
    def read(cls, tx: Transaction, table_id: str, *, after: str, opened: str) -> Ledger:
        """Return the page after the run *after* ("": the first), with *opened* open. Raises TableNotFound."""
        page = RefreshPage.read(tx, table_id, before=after or None, limit=ROWS)
        return cls(rows=[LedgerRow.of(view, opened) for view in page.views], following=page.before)


def result_text(view: RunView) -> str:
    """Return the outcome of a run, or what it waits for, in a few words on one line."""
    run = view.run
    match run.status:
        case RunStatus.FAILED:
            return brief_text(run.error) or "gave no reason"
        case RunStatus.SUCCEEDED if run.kind in REFRESHES and not run.batches:
            return _written_text(run)
        case RunStatus.QUEUED:
            return brief_text(view.reason) or "waits for a worker"
        case RunStatus.RUNNING if run.cancel_requested:
            return "is being cancelled"
        case RunStatus.COALESCED:
            return brief_text(view.reason) or "another refresh covers it"
        case _:
            return brief_text(view.reason) or ""


def _written_text(run: RefreshRun) -> str:
    counts = changed_text(run) or ("" if run.rows is None else count_text(run.rows, "row"))
    return ": ".join(filter(None, (run.strategy, counts)))


def changed_text(run: RefreshRun) -> str:
    """Return the rows that a run changed, such as `12 inserted, 3 deleted`; "" if that is unknown."""
    counts = (
        ("inserted", run.rows_inserted),
        ("updated", run.rows_updated),
        ("deleted", run.rows_deleted),
    )
    if all(count is None for _, count in counts):
        return ""
    return ", ".join(f"{number_text(count)} {verb}" for verb, count in counts if count) or "0 rows"
