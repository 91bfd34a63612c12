"""Work that a gateway continues even if no client is connected."""

from __future__ import annotations

from mt_core.base.plural import plural
from mt_core.model.job import QUERIES, JobStatus
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshStatus
from mt_core.tables.registry import Transaction

_UNDER_WAY = (RunStatus.QUEUED, RunStatus.RUNNING)


def remaining_work(tx: Transaction) -> str:
    """Describe the jobs, tables and refreshes that need the gateway; return "" if there are none.

    Queries are not included, because they end with their clients. Suspended tables and streams are not
    included either, because they wait for a statement.
    """
    jobs = [
        job for job in tx.jobs.open() if job.status is not JobStatus.SUSPENDED and job.kind not in QUERIES
    ]
    tables = [table for table in tx.tables.page() if table.status is not RefreshStatus.SUSPENDED]
    runs = tx.runs.newest(statuses=_UNDER_WAY)
    counted = (
        (len(jobs), "job runs", "jobs run"),
        (len(tables), "materialized table is ACTIVATED", "materialized tables are ACTIVATED"),
        (len(runs), "refresh is under way", "refreshes are under way"),
    )
    return ", ".join(f"{count} {plural(count, one, more)}" for count, one, more in counted if count)
