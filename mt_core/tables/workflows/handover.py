"""Handover: the current scheduler takes over the tables whose workflows were in another scheduler.

A workflow is a definition in the registry and an object in its scheduler, such as a DAG. The other scheduler
is not open and cannot be called, so its objects remain there, including those of dropped tables. The current
scheduler creates its own at the next observation or command.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from mt_core.model.table import MaterializedTable, RefreshMode
from mt_core.tables.pages import every_table
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices

log = logging.getLogger(__name__)


def take_over_tables(services: TableServices) -> list[str]:
    """Assign all tables with a workflow to the current scheduler and return a line for each table."""
    ours = services.settings.scheduler_type
    others = [table for table in every_table(services.registry) if table.scheduler != ours]
    return [
        _moved(services, table)
        for table in others
        if table.definition.refresh_mode is not RefreshMode.CONTINUOUS
    ]


def _moved(services: TableServices, table: MaterializedTable) -> str:
    ours = services.settings.scheduler_type

    def work(tx: Transaction) -> None:
        now = tx.tables.get(table.table_id)
        if now is not None:
            # If this scheduler still has a workflow from before, that is outdated: it must be repaired, not
            # adopted.
            tx.tables.replace(replace(now, scheduler=ours, handler=None, repair_until=tx.now()))

    in_transaction(services.registry, work)
    problem = services.keeper.objection(table)
    if problem:
        log.warning("%s", problem, extra={"action": "cannot_schedule", "table": str(table.identifier)})
    return f"{table.identifier} now has its workflow in {ours} instead of {table.scheduler}"
