"""Handover: the scheduler in use takes over the tables whose workflows another scheduler had.

A workflow is a definition in the registry, and what its scheduler has for it, such as a DAG. The other
scheduler is not open and cannot be asked: what it has is left there, also of dropped tables. The one in use
creates its own at the next observation or command.
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
    """Make all tables with a workflow those of the scheduler in use; return what was done, in words."""
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
            # The state of a workflow that this scheduler had before is older than the table's status:
            # it is not adopted.
            tx.tables.replace(replace(now, scheduler=ours, handler=None, repair_until=tx.now()))

    in_transaction(services.registry, work)
    problem = services.keeper.objection(table)
    if problem:
        log.warning("%s", problem, extra={"action": "cannot_schedule", "table": str(table.identifier)})
    return f"{table.identifier} has its workflow in {ours} now, no longer in {table.scheduler}"
