"""Reads the standings of many tables from the registry, with one query per kind of fact.

Of each table, the few newest runs are read, because these say nearly everything: parsing runs is most of the
work. Only where they do not, such as for a table whose last refreshes have all failed, older ones are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from mt_core.errors import FactUnreadable
from mt_core.model.run import RefreshRun
from mt_core.model.table import stream_job
from mt_core.tables.overview.standing import ENDED, HAS_PUBLISHED, Refreshes, Standing, says_something
from mt_core.tables.registry import Transaction, each_row

# The number of newest runs that are read of each table; of a table whose earlier versions are read, `DEEP`.
FEW, DEEP = 4, 20


def with_refreshes(tx: Transaction, standings: Collection[Standing], *, most: int = FEW) -> list[Standing]:
    """Return *standings* with what up to *most* newest runs of each table say.

    What the given standings remember of older runs is kept.
    """
    with tx.past_unreadable():
        refreshes = _refreshes(tx, [standing.table_id for standing in standings], most)
        errors = job_errors(tx, [standing.table_id for standing in standings if standing.streams])
    return [
        replace(
            standing,
            refreshes=refreshes[standing.table_id].with_remembered(standing.refreshes),
            job_error=errors.get(standing.table_id),
        )
        for standing in standings
    ]


def job_errors(tx: Transaction, table_ids: Iterable[str]) -> dict[str, str | None]:
    """Return the errors of the streaming jobs of tables, by table id; tables without a job are left out."""
    jobs = {stream_job(table_id): table_id for table_id in table_ids}
    return {jobs[job.job_id]: job.error for job in tx.jobs.with_ids(list(jobs))} if jobs else {}


def _refreshes(tx: Transaction, table_ids: Collection[str], most: int) -> dict[str, Refreshes]:
    rows: dict[str, list[RefreshRun | FactUnreadable]] = {table_id: [] for table_id in table_ids}
    for row in each_row(tx, lambda: tx.runs.newest_of_each(table_ids, limit=most)):
        rows[_table_of(row)].append(row)
    refreshes: dict[str, Refreshes] = {}
    for table_id, page in rows.items():
        runs = [row for row in page if isinstance(row, RefreshRun)]
        has_older = len(page) >= most
        runs = _with_older(tx, runs) if has_older and runs else runs
        # A table of which many runs have been read is not read again for older ones.
        refreshes[table_id] = Refreshes.of(runs, has_older=has_older and most < DEEP)
    return refreshes


def _with_older(tx: Transaction, newest: Sequence[RefreshRun]) -> list[RefreshRun]:
    """Return *newest* and, if none of them has ended or published, older runs up to one that has."""
    runs = list(newest)
    for statuses in (ENDED, HAS_PUBLISHED):
        before: RefreshRun | None = runs[-1]
        while before is not None and not any(run.status in statuses and says_something(run) for run in runs):
            page = tx.runs.newest(
                table_id=before.table_id, statuses=statuses, before=before.run_id, limit=DEEP
            )
            runs += page
            before = page[-1] if len(page) == DEEP else None
    return runs


def _table_of(row: RefreshRun | FactUnreadable) -> str:
    return str(row.columns["table_id"]) if isinstance(row, FactUnreadable) else row.table_id
