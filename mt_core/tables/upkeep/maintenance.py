"""Maintenance: expires old snapshots, deletes unreferenced files, compacts tables, and deletes old runs.

`materialized-table.history` is the age at which snapshots expire.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from uuid import UUID

from mt_core.base.background import attempt
from mt_core.errors import EngineUnavailable, IllegalStatus, MtError, StorageMissing, TableBusy
from mt_core.model.run import OPEN
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus
from mt_core.tables.pages import on_each_page
from mt_core.tables.refresh.exclusion import wait_for_runs
from mt_core.tables.registry import Transaction
from mt_core.tables.services import TableServices
from mt_core.tables.upkeep.compaction import compact
from mt_core.tables.upkeep.retention import forget_old_freshness, forget_old_runs
from mt_core.tables.views.readers import versions_read

log = logging.getLogger(__name__)
ORPHAN_AGE = timedelta(days=1)


def maintain(services: TableServices) -> list[str]:
    """Maintain each table that needs it and return a line for each action."""
    forgotten = forget_old_runs(services)
    forget_old_freshness(services)
    done = [f"deleted {forgotten} old runs from the ledger"] if forgotten else []
    for table in on_each_page(services.registry, _idle):
        attempt(f"maintenance of {table.identifier}", partial(_maintain, services, table, done))
        attempt(f"compaction of {table.identifier}", partial(_compact, services, table, done))
    for table in on_each_page(services.registry, partial(_always_open, hour=services.clock.now().hour)):
        attempt(f"maintenance of {table.identifier}", partial(_remove_orphans, services, table))
    return done


def _idle(tx: Transaction, tables: Iterable[MaterializedTable]) -> list[MaterializedTable]:
    settled = [
        table for table in tables if table.intent is None and table.status is not RefreshStatus.INITIALIZING
    ]
    return [table for table in settled if not tx.runs.newest(table_id=table.table_id, statuses=OPEN, limit=1)]


def _always_open(tx: Transaction, tables: Iterable[MaterializedTable], hour: int) -> list[MaterializedTable]:
    """Return the CONTINUOUS tables that are to be maintained in this hour of the day."""
    continuous = (table for table in tables if table.definition.refresh_mode is RefreshMode.CONTINUOUS)
    return [table for table in continuous if table.intent is None and UUID(table.table_id).int % 24 == hour]


def _remove_orphans(services: TableServices, table: MaterializedTable) -> None:
    """Delete unreferenced files without a claim, because they are older than any batch in progress."""
    age = max(ORPHAN_AGE, services.settings.history)
    try:
        services.engine.housekeeping.remove_orphans(table.identifier, services.clock.surely() - age)
    except StorageMissing:
        return
    except MtError as error:
        _log_failure(table, error)


def _compact(services: TableServices, table: MaterializedTable, done: list[str]) -> None:
    with suppress(EngineUnavailable):
        run = compact(services, table)
        if run is not None:
            done.append(f"compacted {table.identifier}: {run.reason}")


def _log_failure(table: MaterializedTable, error: MtError) -> None:
    log.warning(
        "maintenance of %s failed: %s", table.identifier, error, extra={"action": "maintenance_failed"}
    )


def _maintain(services: TableServices, table: MaterializedTable, done: list[str]) -> None:
    now, engine, settings = services.clock.surely(), services.engine, services.settings
    # A stream commits up to twice within the freshness, and nothing else expires its snapshots.
    history = (
        min(settings.continuous_history, settings.history) if table.definition.streams else settings.history
    )
    try:
        read = versions_read(services, table.identifier)
        if not engine.housekeeping.has_expired(table.identifier, now - history, read):
            return
        with services.intents.command(table.identifier, "MAINTENANCE") as command:
            wait_for_runs(services, command.table, wait_s=0.0)
            engine.housekeeping.expire(table.identifier, now - history, read)
            engine.housekeeping.remove_orphans(table.identifier, now - max(ORPHAN_AGE, history))
    except (IllegalStatus, StorageMissing, TableBusy):
        return
    except MtError as error:
        _log_failure(table, error)
        return
    done.append(f"expired old snapshots of {table.identifier}")
