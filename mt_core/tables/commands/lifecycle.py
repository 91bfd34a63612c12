"""SUSPEND and RESUME: they change the keeper first, then the registry by compare-and-set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mt_core.errors import IllegalStatus, StorageMissing
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, RefreshStatus, TableIdentifier
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.definition.options import CATCH_UP, check_dynamic_options
from mt_core.tables.keeper import KeeperState
from mt_core.tables.refresh.streaming_only import refuse_refresh
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.runs.failures import why_suspend
from mt_core.tables.services import TableServices, storage_spec
from mt_core.tables.table_commands import CommandOutcome


def suspend(
    services: TableServices, identifier: TableIdentifier, *, by: str, reason: str | None = None
) -> CommandOutcome:
    """Stop scheduled refreshes; if the workflow is missing, create it paused."""
    # Only automatic suspensions have a reason; users give none.
    detail = {} if reason is None else {"by": by, "reason": reason}
    with services.intents.command(identifier, "SUSPEND", check=_can_suspend, detail=detail) as command:
        services.keeper.ensure(command.table, active=False)
        command.finish(
            lambda tx, now: now.advance(RefreshStatus.SUSPENDED, by=by, at=tx.now(), reason=reason)
        )
    return CommandOutcome()


def suspend_failing(services: TableServices, table_id: str) -> None:
    """Suspend the table if it has failed too often in a row; raise the errors that SUSPEND raises."""

    def read(tx: Transaction) -> tuple[MaterializedTable | None, Sequence[RefreshRun]]:
        failed = tx.runs.newest(table_id=table_id, statuses=[RunStatus.FAILED], limit=1)
        return tx.tables.get(table_id), failed

    table, failed = in_transaction(services.registry, read)
    why = why_suspend(services.settings, table) if table is not None else None
    if table is not None and why is not None:
        suspend(services, table.identifier, by=why, reason=failed[0].error if failed else None)


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
    """Resume scheduled refreshes and recreate the storage or the workflow if it is missing.

    If a rebuild is due, it is requested on behalf of the token named *requested_by*. Raises IllegalStatus if
    the table is already active and nothing had to be changed.
    """
    dynamic = dict(options)
    catch_up = dynamic.pop(CATCH_UP, "all")
    if catch_up not in ("all", "none"):
        raise IllegalStatus(f"RESUME WITH ('{CATCH_UP}' = '{catch_up}'): use 'all' (the default) or 'none'.")
    warnings = check_dynamic_options(dynamic, f"RESUME WITH of {identifier}", CATCH_UP)

    def resumed(tx: Transaction, now: MaterializedTable) -> MaterializedTable:
        if now.status is not RefreshStatus.ACTIVATED:
            now = now.advance(RefreshStatus.ACTIVATED, by=by, at=tx.now())
        now = trusted(replace(now, dynamic_options=dynamic or now.dynamic_options))
        if catch_up == "none":
            latest = now.definition.grid().at_or_before(tx.now())
            now = replace(now, covered_until=max(now.covered_until, latest))
        if now.rebuild_due is None:
            return now
        services.request_rebuild(tx, replace(now, intent=None), requested_by)
        return replace(now, rebuild_due=fingerprint_of(now.definition))

    with services.intents.command(identifier, "RESUME", detail={"options": dict(options)}) as command:
        table = command.table
        repaired = _restore_storage(services, table, dynamic)
        before = services.keeper.ensure(table, active=True, options=dynamic or None)
        if before is KeeperState.ACTIVE and not (repaired or dynamic or table.doubt):
            _refuse_activated(table)
        trusted = services.end_doubt(table)
        command.finish(resumed)
    services.signal.set()
    return CommandOutcome(warnings=warnings)


def _check_resumable(services: TableServices, table: MaterializedTable, options: Mapping[str, str]) -> None:
    """Raise an error if a table over streams cannot be resumed.

    Refresh options do not apply to a table over streams, and its rows cannot be computed again.
    """
    if options:
        refuse_refresh(table, f"RESUME WITH ({', '.join(map(repr, options))})")
    try:
        services.engine.metadata.load(table.identifier)
    except StorageMissing as cause:
        raise IllegalStatus(
            f"The storage of materialized table {table.identifier} is missing, "
            "and with it the rows that its streaming job wrote; DROP and CREATE it.",
            table=str(table.identifier),
        ) from cause


def _refuse_activated(table: MaterializedTable) -> None:
    if table.status is RefreshStatus.ACTIVATED:
        raise IllegalStatus(
            f"Materialized table {table.identifier} has been resumed already: it is ACTIVATED.",
            table=str(table.identifier),
        )


def _restore_storage(services: TableServices, table: MaterializedTable, options: Mapping[str, str]) -> bool:
    """Create the storage table if it is missing, empty and due for a rebuild.

    Returns whether it was missing.
    """
    if table.definition.streams:
        _check_resumable(services, table, options)
        return False
    try:
        services.engine.metadata.load(table.identifier)
    except StorageMissing:
        due = fingerprint_of(table.definition)
        services.intents.change(table, lambda _tx, now: replace(now, rebuild_due=due))
        with services.names.lock(table.identifier):
            services.engine.storage.create_storage(storage_spec(table))
        return True
    return False
