"""SUSPEND, RESUME and DROP: the scheduler is asked, then the registry is changed by compare-and-set."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from mt_core.errors import IllegalStatus, MtError, StorageMissing
from mt_core.model.freshness import grid_of
from mt_core.model.run import OPEN, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshStatus, TableIdentifier
from mt_core.tables.commands import CommandOutcome
from mt_core.tables.fingerprint import fingerprint_of
from mt_core.tables.intents import found
from mt_core.tables.ledger import in_transaction
from mt_core.tables.ports import Tombstone, Transaction
from mt_core.tables.services import TableServices, storage_spec, workflow_of
from mt_core.workflow.handlers import RefreshHandler
from mt_core.workflow.operations import (
    DeleteRefreshWorkflow,
    ResumeRefreshWorkflow,
    SuspendRefreshWorkflow,
)
from mt_core.workflow.scheduler import WorkflowState

log = logging.getLogger(__name__)
CATCH_UP = "catch-up"


def suspend(services: TableServices, identifier: TableIdentifier, *, by: str) -> CommandOutcome:
    """Stop periodic refreshes; a workflow that is gone is made again, paused."""
    table = services.intents.take(identifier, "SUSPEND", check=_can_suspend)
    try:
        _pause_workflow(services, table)
    except MtError:
        services.intents.clear(table)
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
            f"{table.status_at:%Y-%m-%d %H:%M:%S} UTC."
        )


def _pause_workflow(services: TableServices, table: MaterializedTable) -> None:
    handler, token = handler_of(table), _token(table)
    if _workflow_state(services, handler) is WorkflowState.MISSING:
        services.scheduler.create_refresh_workflow(workflow_of(table, paused=True, token=token))
    else:
        services.scheduler.modify_refresh_workflow(SuspendRefreshWorkflow(handler=handler, token=token))


def resume(
    services: TableServices, identifier: TableIdentifier, options: Mapping[str, str], *, by: str
) -> CommandOutcome:
    """Refresh periodically again; repairs storage or a workflow that was removed behind our back."""
    given = dict(options)
    catch_up = given.pop(CATCH_UP, "all")
    if catch_up not in ("all", "none"):
        raise IllegalStatus(f"RESUME WITH ('{CATCH_UP}' = '{catch_up}'): use 'all' (the default) or 'none'.")
    detail = {"options": dict(options)}
    table = services.intents.take(identifier, "RESUME", check=lambda _table: None, detail=detail)
    try:
        repaired = _restore_storage(services, table)
        rescheduled = _unpause_workflow(services, table, given or None)
        if table.status is RefreshStatus.ACTIVATED and not (repaired or rescheduled or given):
            raise IllegalStatus(f"Materialized table {identifier} has been resumed already: it is ACTIVATED.")
    except MtError:
        services.intents.clear(table)
        raise
    forget = catch_up == "none"

    def last(tx: Transaction, now: MaterializedTable) -> MaterializedTable:
        resumed = _resumed(tx, now, given, forget=forget, by=by)
        return _with_rebuild(services, tx, now, resumed)

    services.intents.change(table, last)
    services.signal.set()
    return CommandOutcome()


def _restore_storage(services: TableServices, table: MaterializedTable) -> bool:
    try:
        services.engine.load(table.identifier)
    except StorageMissing:
        due = fingerprint_of(table.definition, table.dynamic_options)
        services.intents.change(table, lambda _tx, now: replace(now, rebuild_due=due))
        services.engine.create_storage(storage_spec(table))
        return True
    return False


def _unpause_workflow(services: TableServices, table: MaterializedTable, options: Mapping[str, str] | None) -> bool:
    """Return whether the workflow was not ticking before."""
    handler, token = handler_of(table), _token(table)
    state = _workflow_state(services, handler)
    if state is WorkflowState.MISSING:
        wanted = replace(table, dynamic_options=options if options is not None else table.dynamic_options)
        services.scheduler.create_refresh_workflow(workflow_of(wanted, paused=False, token=token))
    elif state is WorkflowState.PAUSED or options is not None or table.status is RefreshStatus.SUSPENDED:
        operation = ResumeRefreshWorkflow(handler=handler, dynamic_options=options, token=token)
        services.scheduler.modify_refresh_workflow(operation)
    return state is not WorkflowState.ACTIVE


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
    services: TableServices, tx: Transaction, before: MaterializedTable, table: MaterializedTable
) -> MaterializedTable:
    """Other options, or a rebuild that is due already: queue it, for what the table is now."""
    due = fingerprint_of(table.definition, table.dynamic_options)
    if before.rebuild_due is None and due == fingerprint_of(before.definition, before.dynamic_options):
        return table
    services.ledger.request_in(tx, table, services.whole_run(table, RunKind.REBUILD, tx.now()))
    return replace(table, rebuild_due=due)


def latest_point(table: MaterializedTable, now: datetime) -> datetime:
    """Return the latest schedule time of *table* that has passed."""
    return grid_of(table.definition.freshness, table.definition.zone).at_or_before(now)


def drop(services: TableServices, identifier: TableIdentifier, *, if_exists: bool) -> CommandOutcome:
    """Forget the table at once, then remove what belongs to it; what cannot be removed now is removed later."""

    def bury(tx: Transaction) -> Tombstone | None:
        if if_exists and tx.table_named(identifier) is None:
            return None
        return _bury(tx, found(tx, identifier))

    tombstone = in_transaction(services.registry, bury)
    if tombstone is None:
        return CommandOutcome()
    services.signal.set()
    _end_runs(services, tombstone)
    try:
        sweep(services, tombstone)
    except MtError as error:
        log.warning("leftovers of %s remain: %s", identifier, error, extra={"action": "drop_incomplete"})
        warning = f"{identifier} is dropped; what it left is removed as soon as that is possible ({error})"
        return CommandOutcome(warnings=(warning,))
    return CommandOutcome()


def _bury(tx: Transaction, table: MaterializedTable) -> Tombstone:
    tombstone = Tombstone(
        table_id=table.table_id,
        identifier=table.identifier,
        location=table.location,
        handler=handler_of(table).serialize(),
        dropped_at=tx.now(),
    )
    tx.put_tombstone(tombstone)
    tx.delete_definition(table.table_id)
    for run in tx.runs(table_id=table.table_id, statuses=OPEN):
        if run.status is RunStatus.QUEUED:
            ended = run.advance(RunStatus.CANCELED, finished_at=tx.now(), reason="its table was dropped")
        else:
            ended = replace(run, cancel_requested=True)
            for covered in tx.covered_runs(run.run_id):
                tx.replace_run(replace(covered, cancel_requested=True), expected=covered)
        tx.replace_run(ended, expected=run)
    tx.delete_table(table.table_id)
    return tombstone


def _end_runs(services: TableServices, tombstone: Tombstone) -> None:
    """Cancel Spark work on the table and give it a moment to end, so that it leaves no files behind."""

    def ended() -> bool:
        running = in_transaction(
            services.registry,
            lambda tx: tx.runs(table_id=tombstone.table_id, statuses=[RunStatus.RUNNING], limit=1),
        )
        if running:
            services.engine.cancel(running[0].job_id or "")
        return not running

    services.signal.wait(ended, services.settings.drop_wait_s)


def sweep(services: TableServices, tombstone: Tombstone) -> None:
    """Remove workflow, storage and files of a dropped table; harmless to repeat."""
    if tombstone.handler is not None:
        handler = RefreshHandler.deserialize(tombstone.handler)
        services.scheduler.delete_refresh_workflow(DeleteRefreshWorkflow(handler=handler))
    services.engine.drop_storage(tombstone.identifier, tombstone.table_id, tombstone.location)
    in_transaction(services.registry, lambda tx: tx.delete_tombstone(tombstone.table_id))


def handler_of(table: MaterializedTable) -> RefreshHandler:
    """Return the refresh handler of *table*, or the one its workflow will have."""
    if table.handler is not None:
        return RefreshHandler.deserialize(table.handler)
    return RefreshHandler(scheduler=table.scheduler, workflow_id=table.table_id)


def _workflow_state(services: TableServices, handler: RefreshHandler) -> WorkflowState:
    return services.scheduler.describe_refresh_workflows([handler])[handler.workflow_id].state


def _token(table: MaterializedTable) -> int:
    return table.intent.token if table.intent else table.revision
