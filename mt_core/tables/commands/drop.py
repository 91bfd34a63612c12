"""DROP MATERIALIZED TABLE: deletes the row immediately; a tombstone records what remains to be removed."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from mt_core.errors import MtError, TableBusy, WorkflowError
from mt_core.model.run import OPEN, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.sql.statements import DropBehavior, DropTable
from mt_core.tables.intents import get_table
from mt_core.tables.registry import Tombstone, Transaction, in_transaction
from mt_core.tables.runs.ledger import canceled_with_table
from mt_core.tables.services import TableServices
from mt_core.tables.table_commands import CommandOutcome
from mt_core.tables.views.readers import readers_of
from mt_core.tables.views.stream_tables import check_no_stream

log = logging.getLogger(__name__)
_FOLDERS = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


def drop_with_readers(
    services: TableServices, identifier: TableIdentifier, statement: DropTable
) -> CommandOutcome:
    """Drop a table.

    The statement's behavior determines whether tables that read it are dropped too (CASCADE), prevent the
    drop with TableBusy (RESTRICT), or are not affected.
    """
    readers = readers_of(services, identifier)
    named = ", ".join(str(each) for each in readers)
    if readers and statement.behavior is DropBehavior.RESTRICT:
        raise TableBusy(
            f"{identifier} is read by {named}; DROP them first, or use CASCADE, which drops them too.",
            table=str(identifier),
        )
    cascades = statement.behavior is DropBehavior.CASCADE
    dependents = _dependents(services, identifier) if cascades else []
    dropped = {each.parts for each in (*dependents, identifier)}
    in_transaction(
        services.registry,
        lambda tx: check_no_stream(
            tx, dropped.__contains__, f"DROP MATERIALIZED TABLE {identifier}", ends_kept=True
        ),
    )
    outcomes = [drop(services, each, if_exists=True) for each in dependents]
    outcome = drop(services, identifier, if_exists=statement.if_exists)
    warnings = [warning for each in (*outcomes, outcome) for warning in each.warnings]
    if readers and not cascades:
        warnings.append(f"{identifier} is read by {named}; their refreshes fail until it is recreated.")
    return replace(outcome, warnings=tuple(warnings))


def _dependents(services: TableServices, identifier: TableIdentifier) -> list[TableIdentifier]:
    """Return all direct and indirect readers of *identifier*, each before the tables that it reads."""
    dependents: list[TableIdentifier] = []
    ahead = [identifier]
    while ahead:
        new = [
            each
            for each in readers_of(services, ahead.pop())
            if each not in dependents and each != identifier
        ]
        dependents += new
        ahead += new
    return dependents[::-1]


def drop(services: TableServices, identifier: TableIdentifier, *, if_exists: bool) -> CommandOutcome:
    """Delete the table's row, then remove everything that belongs to the table.

    The reconciler removes what cannot be removed now.
    """
    bury = partial(_bury, services=services, identifier=identifier, if_exists=if_exists)
    tombstone, elsewhere = in_transaction(services.registry, bury)
    if tombstone is None:
        return CommandOutcome()
    services.signal.set()
    try:
        _end_runs(services, tombstone)
        sweep(services, tombstone)
    except MtError as error:
        log.warning("leftovers of %s remain: %s", identifier, error, extra={"action": "drop_incomplete"})
        warning = f"{identifier} is dropped; its leftovers are removed as soon as possible ({error})"
        return CommandOutcome(warnings=(warning, *elsewhere))
    return CommandOutcome(warnings=elsewhere)


def _bury(
    tx: Transaction, *, services: TableServices, identifier: TableIdentifier, if_exists: bool
) -> tuple[Tombstone | None, tuple[str, ...]]:
    """Delete the table's row and store a tombstone instead.

    Returns the tombstone (None if there was no table) and warnings about files that are not removed.
    """
    if if_exists and tx.tables.named(identifier) is None:
        return None, ()
    table = get_table(tx, identifier)
    tombstone = Tombstone(
        table_id=table.table_id,
        identifier=table.identifier,
        location=table.location,
        handler=services.keeper.handle_of(table),
        dropped_at=tx.now(),
    )
    tx.tombstones.put(tombstone)
    tx.workflows.delete(table.table_id)
    for run in tx.runs.newest(table_id=table.table_id, statuses=OPEN):
        if run.status is RunStatus.QUEUED:
            ended = canceled_with_table(run, tx.now())
        else:
            ended = replace(run, cancel_requested=True)
            for covered in tx.runs.covered_by(run.run_id):
                tx.runs.replace(replace(covered, cancel_requested=True), expected=covered)
        tx.runs.replace(ended, expected=run)
    tx.tables.delete(table.table_id)
    # The user chose these folders, which may also contain files of other tables.
    folders = sorted({table.definition.options[key] for key in _FOLDERS if key in table.definition.options})
    return tombstone, tuple(
        f"Files of {identifier} under {folder} are not removed; remove them by hand." for folder in folders
    )


def _end_runs(services: TableServices, tombstone: Tombstone) -> None:
    """Cancel the table's running run and wait briefly for its end, so that it leaves no files behind."""

    def ended() -> bool:
        running = in_transaction(
            services.registry,
            lambda tx: tx.runs.newest(table_id=tombstone.table_id, statuses=[RunStatus.RUNNING], limit=1),
        )
        if running:
            services.engine.jobs.cancel(running[0].job_id or "")
        return not running

    services.signal.wait(ended, services.settings.drop_wait_s)


def sweep(services: TableServices, tombstone: Tombstone) -> None:
    """Remove the workflow, storage and files of a dropped table. Idempotent.

    The storage is removed even if the scheduler is unavailable; the scheduler's requests for the table are
    then refused.
    """
    failure: WorkflowError | None = None
    if tombstone.handler is not None:
        try:
            services.keeper.remove(tombstone.table_id, tombstone.handler)
        except WorkflowError as error:
            failure = error
    with services.names.lock(tombstone.identifier):
        services.engine.storage.drop_storage(tombstone.identifier, tombstone.table_id, tombstone.location)
    if failure is not None:
        raise failure
    in_transaction(services.registry, lambda tx: tx.tombstones.delete(tombstone.table_id))
