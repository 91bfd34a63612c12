"""Housekeeping: snapshots older than `materialized-table.history` expire, files nobody refers to go, and old runs are forgotten."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from mt_core.background import attempt
from mt_core.errors import IllegalStatus, MtError, StorageMissing, TableBusy
from mt_core.model.run import OPEN
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.tables.pages import on_each_page
from mt_core.tables.ports import Transaction
from mt_core.tables.refresh.fencing import claim_exclusively
from mt_core.tables.services import TableServices
from mt_core.tables.upkeep.retention import forget_old_runs

log = logging.getLogger(__name__)
ORPHAN_AGE = timedelta(days=1)


def maintain(services: TableServices) -> list[str]:
    """Look after every table that has something to expire and nothing to do; return what was done, in words."""
    forgotten = forget_old_runs(services)
    done = [f"forgot {forgotten} old runs of the ledger"] if forgotten else []
    for table in on_each_page(services.registry, _idle):
        attempt(f"maintenance of {table.identifier}", partial(_look_after, services, table, done))
    return done


def _look_after(services: TableServices, table: MaterializedTable, done: list[str]) -> None:
    try:
        if _maintain(services, table):
            done.append(f"expired old snapshots of {table.identifier}")
    except (IllegalStatus, StorageMissing, TableBusy):
        return
    except MtError as error:
        log.warning("maintenance of %s failed: %s", table.identifier, error, extra={"action": "maintenance_failed"})


def _idle(tx: Transaction, tables: Iterable[MaterializedTable]) -> list[MaterializedTable]:
    settled = [table for table in tables if table.intent is None and table.status is not RefreshStatus.INITIALIZING]
    return [table for table in settled if not tx.runs(table_id=table.table_id, statuses=OPEN, limit=1)]


def _maintain(services: TableServices, table: MaterializedTable) -> bool:
    older_than = services.clock.now() - services.settings.history
    if not services.engine.has_expired(table.identifier, older_than):
        return False
    held = services.intents.take(table.identifier, "MAINTENANCE", check=lambda _table: None)
    try:
        claim_exclusively(services, held, wait_s=0.0)
        services.engine.expire(table.identifier, older_than)
        services.engine.remove_orphans(
            table.identifier, services.clock.now() - max(ORPHAN_AGE, services.settings.history)
        )
    finally:
        services.intents.clear(held)
    return True
