"""SUSPEND and RESUME: the scheduler is asked, then the registry is changed by compare-and-set."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from mt_core.errors import IllegalStatus, MtError, StorageMissing
from mt_core.model.freshness import grid_of
from mt_core.model.run import RunKind
from mt_core.model.table import MaterializedTable, RefreshStatus, TableIdentifier
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.definition.options import CATCH_UP, check_dynamic_options
from mt_core.tables.keeper import KeeperState
from mt_core.tables.ports import Transaction
from mt_core.tables.services import TableServices, storage_spec
from mt_core.tables.table_commands import CommandOutcome

log = logging.getLogger(__name__)


def suspend(services: TableServices, identifier: TableIdentifier, *, by: str) -> CommandOutcome:
    """Stop periodic refreshes; a workflow that is gone is made again, paused."""
    table = services.intents.take(identifier, "SUSPEND", check=_can_suspend)
    try:
        services.keeper.ensure(table, active=False)
    except MtError as error:
        services.intents.give_up(table, error)
        raise
    services.intents.change(
        table,
        lambda tx, now: replace(now.advance(RefreshStatus.SUSPENDED, by=by, at=tx.now()), intent=None),
    )
    return CommandOutcome()


def _can_suspend(table: MaterializedTable) -> None:
    if table.status is RefreshStatus.SUSPENDED:
        raise IllegalStatus(
            f"Materialized table {table.identifier} has been suspended already, by {table.status_by} at "
            f"{table.status_at:%Y-%m-%d %H:%M:%S} UTC.",
            table=str(table.identifier),
        )


def resume(
    services: TableServices,
    identifier: TableIdentifier,
    options: Mapping[str, str],
    *,
    by: str,
    requested_by: str | None = None,
) -> CommandOutcome:
    """Refresh periodically again; repairs storage or a workflow that was removed behind our back.

    *requested_by* is the name of the token that a rebuild, if one is due, is asked for with.
    """
    given = dict(options)
    catch_up = given.pop(CATCH_UP, "all")
    if catch_up not in ("all", "none"):
        raise IllegalStatus(f"RESUME WITH ('{CATCH_UP}' = '{catch_up}'): use 'all' (the default) or 'none'.")
    warnings = check_dynamic_options(given, f"RESUME WITH of {identifier}", CATCH_UP)
    detail = {"options": dict(options)}
    table = services.intents.take(identifier, "RESUME", check=lambda _table: None, detail=detail)
    try:
        repaired = _restore_storage(services, table)
        before = services.keeper.ensure(table, active=True, options=given or None)
        ran = before is KeeperState.ACTIVE and table.status is RefreshStatus.ACTIVATED
        if ran and not (repaired or given):
            raise IllegalStatus(
                f"Materialized table {identifier} has been resumed already: it is ACTIVATED.", table=str(identifier)
            )
    except MtError as error:
        services.intents.give_up(table, error)
        raise
    forget = catch_up == "none"

    def last(tx: Transaction, now: MaterializedTable) -> MaterializedTable:
        return _with_rebuild(services, tx, _resumed(tx, now, given, forget=forget, by=by), requested_by)

    services.intents.change(table, last)
    services.signal.set()
    return CommandOutcome(warnings=warnings)


def _restore_storage(services: TableServices, table: MaterializedTable) -> bool:
    try:
        services.engine.load(table.identifier)
    except StorageMissing:
        due = fingerprint_of(table.definition)
        services.intents.change(table, lambda _tx, now: replace(now, rebuild_due=due))
        with services.names.alone(table.identifier):
            services.engine.create_storage(storage_spec(table))
        return True
    return False


def _resumed(
    tx: Transaction, now: MaterializedTable, options: Mapping[str, str], *, forget: bool, by: str
) -> MaterializedTable:
    active = now if now.status is RefreshStatus.ACTIVATED else now.advance(RefreshStatus.ACTIVATED, by=by, at=tx.now())
    if options:
        active = replace(active, dynamic_options=dict(options))
    if forget:
        active = replace(active, covered_until=max(active.covered_until, latest_point(active, tx.now())))
    return replace(active, intent=None)


def _with_rebuild(
    services: TableServices, tx: Transaction, table: MaterializedTable, requested_by: str | None
) -> MaterializedTable:
    """Queue the rebuild that is due, if one is, for what the table is now."""
    if table.rebuild_due is None:
        return table
    run = services.whole_run(table, RunKind.REBUILD, tx.now(), requested_by=requested_by)
    services.ledger.request_in(tx, table, run)
    return replace(table, rebuild_due=fingerprint_of(table.definition))


def latest_point(table: MaterializedTable, now: datetime) -> datetime:
    """Return the latest schedule time of *table* that has passed."""
    return grid_of(table.definition.freshness, table.definition.zone).at_or_before(now)
