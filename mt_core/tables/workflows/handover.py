"""Handover: tables whose workflows were another scheduler's become those of the scheduler in use.

A workflow is a definition in the registry and what its scheduler made of it. The other scheduler is not open and cannot be asked:
what it made is abandoned, and the one in use creates its own at the next observation, or at the next command.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from mt_core.model.table import MaterializedTable
from mt_core.tables.keeper import Keeper
from mt_core.tables.pages import every_table
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices

log = logging.getLogger(__name__)


def take_over_tables(services: TableServices) -> list[str]:
    """Make all tables and tombstones those of the scheduler in use; return what was done, in words."""
    ours = services.settings.scheduler_type
    done = [_moved(services, table) for table in every_table(services.registry) if table.scheduler != ours]
    in_transaction(services.registry, lambda tx: _release_tombstones(tx, services.keeper))
    return done


def _moved(services: TableServices, table: MaterializedTable) -> str:
    ours = services.settings.scheduler_type

    def work(tx: Transaction) -> None:
        now = tx.tables.get(table.table_id)
        if now is not None:
            # What the workflow is, if this scheduler has had it before, is older than the table's status: it is not adopted.
            tx.tables.replace(replace(now, scheduler=ours, handler=None, repair_until=tx.now()))

    in_transaction(services.registry, work)
    problem = services.keeper.objection(table)
    if problem:
        log.warning("%s", problem, extra={"action": "cannot_schedule", "table": str(table.identifier)})
    return f"{table.identifier} has its workflow in {ours} now, no longer in {table.scheduler}"


def _release_tombstones(tx: Transaction, keeper: Keeper) -> None:
    """Forget the handles of dropped tables in schedulers that are not in use."""
    for tombstone in tx.tombstones.all():
        if tombstone.handler is not None and not keeper.owns(tombstone.handler):
            tx.tombstones.put(replace(tombstone, handler=None))
