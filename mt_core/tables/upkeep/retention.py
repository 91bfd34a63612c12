"""Retention: deletes what only shows the past, when it is old.

Ended runs are deleted from the ledger after `materialized-table.refresh.history`. No later refresh depends on
them, because the table records what is covered. The newest runs of each table are retained whatever their
age, so that a table that is refreshed once a month shows its last results. The hours of freshness are
deleted after two weeks, and the record of deletions after a day, because whoever reads it reads it each 30
seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from mt_core.model.run import TERMINAL, RefreshRun
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices

NEWEST_RETAINED = 20
# A page takes about ten milliseconds, during which no other transaction can begin.
PAGE = 500
FRESHNESS_HISTORY = timedelta(days=14)
DELETIONS_HISTORY = timedelta(days=1)


def forget_old_runs(services: TableServices) -> int:
    """Delete ended runs that are older than the refresh history and return their number.

    The newest `NEWEST_RETAINED` runs of each table are kept. If the history is 0, all runs are kept.
    """
    older_than = services.clock.surely() - services.settings.refresh_history
    forgotten, after, more = 0, None, bool(services.settings.refresh_history)
    while more:
        after, number, more = in_transaction(
            services.registry, partial(_forget_page, after=after, older_than=older_than)
        )
        forgotten += number
    return forgotten


def forget_old_freshness(services: TableServices) -> None:
    """Delete the hours of freshness and the deletions that nobody asks for any more."""
    now = services.clock.surely()

    def forget(tx: Transaction) -> None:
        tx.freshness.forget(now - FRESHNESS_HISTORY)
        tx.changes.forget(now - DELETIONS_HISTORY)

    in_transaction(services.registry, forget)


def _forget_page(tx: Transaction, *, after: str | None, older_than: datetime) -> tuple[str | None, int, bool]:
    """Delete the deletable runs in a page of the oldest runs that follow *after*.

    Returns the last run of the page that was retained, the number of deleted runs, and whether more pages
    follow.
    """
    page = tx.runs.oldest(after=after, limit=PAGE)
    old = [run for run in page if run.requested_at < older_than]
    retained = _newest(tx, {run.table_id for run in old})
    deleted = {run.run_id for run in old if run.run_id not in retained and run.status in TERMINAL}
    tx.runs.delete(deleted)
    staying = [run.run_id for run in page if run.run_id not in deleted]
    return staying[-1] if staying else after, len(deleted), len(old) == PAGE


def _newest(tx: Transaction, table_ids: Iterable[str]) -> set[str]:
    """Return the ids of the newest runs of the tables that exist and of the runs that cover them."""
    existing = [table_id for table_id in table_ids if tx.tables.get(table_id) is not None]
    runs: Sequence[RefreshRun] = [
        run for each in existing for run in tx.runs.newest(table_id=each, limit=NEWEST_RETAINED)
    ]
    return {run_id for run in runs for run_id in (run.run_id, run.covered_by) if run_id is not None}
