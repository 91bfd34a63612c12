"""What is known of a table's workflow without a request to its scheduler, for pages that must not wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mt_core.errors import WorkflowError
from mt_core.model.table import MaterializedTable
from mt_core.tables.keeper import KeeperReport, KeeperState
from mt_core.tables.services import TableServices


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFacts:
    """The last report on a table and its time, and the URL of the workflow in the scheduler's web interface.

    Report and time are None until the first report. The URL is None if the scheduler has no web interface,
    if it has no such workflow, and while it is not open.
    """

    report: KeeperReport | None = None
    reported_at: datetime | None = None
    page_url: str | None = None


def workflow_facts(services: TableServices, table: MaterializedTable) -> WorkflowFacts:
    """Return what is known of the workflow of *table*, without a request to its scheduler."""
    last = services.reports.get(table.table_id)
    if last is None:
        return WorkflowFacts(page_url=_page_url(services, table))
    reported_at, report = last
    is_missing = report.state is KeeperState.MISSING
    page_url = None if is_missing else _page_url(services, table)
    return WorkflowFacts(report=report, reported_at=reported_at, page_url=page_url)


def _page_url(services: TableServices, table: MaterializedTable) -> str | None:
    try:
        return services.keeper.page_url(table)
    except WorkflowError:
        # The scheduler is not open yet. A page without the link is better than an error.
        return None
