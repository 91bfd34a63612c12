"""CREATE MATERIALIZED TABLE.

The statement creates a row in the registry, a storage table and a workflow, in three systems that share no
transaction. So the row is inserted first, with the status INITIALIZING and an intent that records each effect
before it happens. The last transaction stores the workflow's handle, activates the table and queues its first
refresh. If any step fails, the effects are undone in reverse order, by the statement itself or, after a
crash, by the reconciler. Every undo step is harmless if its effect never happened.

Every check that can refuse the statement runs before the row is inserted. If only the response of the last
transaction was lost, the table is active and the statement succeeds.
"""

from __future__ import annotations

from dataclasses import replace

from mt_core.errors import MtError, TableExists, TableNotCreated
from mt_core.model.new_names import check_new_name
from mt_core.model.run import RunKind
from mt_core.model.table import MaterializedTable, RefreshStatus, TableDefinition, TableIdentifier
from mt_core.sql.statements import CreateMaterializedTable
from mt_core.tables.commands.drop import sweep
from mt_core.tables.commands.sources import analysed_alone, refuse_impossible
from mt_core.tables.commands.streams import refuse_unmaintainable_stream, with_streams
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.definition.options import check_table_options
from mt_core.tables.definition.partitioning import check_transforms
from mt_core.tables.definition.table_definition import (
    check_names,
    define,
    schedule_warnings,
    settings_of,
    zone_of,
)
from mt_core.tables.engine import Query, SourceVector
from mt_core.tables.refresh.forecast import recomputed_warnings
from mt_core.tables.refresh.late_data import late_warnings
from mt_core.tables.registry import Transaction, in_transaction
from mt_core.tables.services import TableServices, query_of, storage_spec
from mt_core.tables.settings import InitialRefresh, check_durations
from mt_core.tables.table_commands import CommandContext, CommandOutcome


def create(
    services: TableServices,
    statement: CreateMaterializedTable,
    identifier: TableIdentifier,
    context: CommandContext,
) -> CommandOutcome:
    """Create the table, its storage and its workflow, and queue its first refresh.

    If a step fails, the CREATE is undone unless the table is already active. Raises TableExists.
    """
    check_new_name(identifier.parts)
    without_effect = check_table_options(statement.options, str(identifier))
    definition = declared(services, statement, identifier, context)
    for tombstone in in_transaction(services.registry, lambda tx: tx.tombstones.all()):
        # Remove the leftovers of a dropped table with this name, so that the name can be reused immediately.
        if tombstone.identifier == identifier:
            sweep(services, tombstone)
    if services.engine.catalogs.relation_exists(identifier):
        raise TableExists(
            f"{identifier} exists already; choose another name, or use CREATE "
            "OR ALTER for a materialized table.",
            table=str(identifier),
        )
    vector = services.engine.sources.read_vector(query_of(definition))
    definition = with_streams(services, identifier, definition, vector)
    refuse_impossible(services, identifier, definition, vector)
    planned = initializing(services, identifier, definition, context)
    refuse_unmaintainable_stream(services, planned)
    table = in_transaction(services.registry, lambda tx: _announce(services, tx, planned))
    with services.intents.at_work(table):
        try:
            with services.names.lock(identifier):
                services.engine.storage.create_storage(storage_spec(table))
            table = services.intents.step(table, "workflow")
            handler = services.keeper.create(table, active=True)
            run_id = _activate(services, table, handler, context.caller or None)
        except MtError as error:
            run_id = _undone_unless_active(services, table, error)
    services.signal.set()
    return _outcome(services, table, vector, run_id, without_effect)


def _outcome(
    services: TableServices,
    table: MaterializedTable,
    vector: SourceVector,
    run_id: str | None,
    without_effect: tuple[str, ...],
) -> CommandOutcome:
    """Return the warnings of the statement and the run that it waits for."""
    identifier, definition, changes = table.identifier, table.definition, services.engine.changes
    recomputed = () if definition.streams else recomputed_warnings(changes, identifier, definition, vector)
    warnings = (
        *without_effect,
        *schedule_warnings(identifier, definition),
        *late_warnings(changes, identifier, definition),
        *recomputed,
    )
    return CommandOutcome(
        wait_for=run_id,
        created=identifier if run_id else None,
        recomputed=definition.interval if recomputed else None,
        warnings=warnings,
    )


def declared(
    services: TableServices,
    statement: CreateMaterializedTable,
    identifier: TableIdentifier,
    context: CommandContext,
) -> TableDefinition:
    """Return the definition that the statement declares, checked against query, catalog and storage."""
    services.engine.catalogs.check_catalog(identifier)
    context = replace(context, zone=statement.zone or context.zone)
    query = Query(
        text=statement.query,
        catalog=context.catalog,
        namespace=context.namespace,
        zone=zone_of(context, services.settings),
        settings=settings_of(context),
    )
    check_durations(statement.options)
    analysed = analysed_alone(services, identifier, query, context)
    check_names(str(identifier), [column.name for column in analysed.columns])
    definition = define(
        statement, analysed, identifier=identifier, context=context, settings=services.settings
    )
    produced = {column.name: column for column in analysed.columns}
    queries = services.engine.queries
    queries.check_assignable([produced[column.name] for column in definition.columns], definition.columns)
    columns = queries.check_columns(identifier, definition.columns)
    check_transforms(identifier, definition.transforms, columns)
    return replace(definition, columns=columns)


def _announce(services: TableServices, tx: Transaction, planned: MaterializedTable) -> MaterializedTable:
    identifier = planned.identifier
    taken = tx.tables.named(identifier)
    if taken is not None:
        raise TableExists(
            f"Materialized table {identifier} exists already ({taken.status}); "
            "choose another name, use CREATE OR ALTER, or DROP it first.",
            table=str(identifier),
        )
    now = tx.now()
    intent = services.intents.new(tx, "CREATE", "storage", 1, {})
    table = replace(planned, created_at=now, status_at=now, covered_until=now, intent=intent)
    tx.tables.insert(table)
    return table


def initializing(
    services: TableServices, identifier: TableIdentifier, definition: TableDefinition, context: CommandContext
) -> MaterializedTable:
    """Return the table as CREATE would insert it, with provisional times that the transaction replaces."""
    table_id, now = services.new_id(), services.clock.now()
    return MaterializedTable(
        table_id=table_id,
        identifier=identifier,
        definition=definition,
        created_at=now,
        status_by=context.caller or "CREATE",
        status_at=now,
        location=services.engine.catalogs.location_of(identifier, table_id),
        covered_until=now,
        covered=(),
        scheduler=services.settings.scheduler_type,
    )


def _activate(
    services: TableServices, table: MaterializedTable, handler: str, requested_by: str | None
) -> str | None:
    """Store the handle, the status and the first run in the last transaction, which clears the intent.

    Returns the id of the run, or None if CREATE starts no run.
    """
    first = services.new_run(table, RunKind.INITIAL, table.created_at, requested_by=requested_by)
    refreshed = not table.definition.streams and services.settings.initial_refresh is not InitialRefresh.NONE
    runs_now = refreshed and services.settings.initial_refresh is InitialRefresh.ON_CREATE

    def last(tx: Transaction, now: MaterializedTable) -> MaterializedTable:
        if runs_now:
            tx.runs.insert(replace(first, requested_at=tx.now()))
        active = now.advance(RefreshStatus.ACTIVATED, by=now.status_by, at=tx.now())
        if refreshed:
            # A rebuild is due until a run of the whole table has succeeded, because the first run may fail.
            active = replace(active, rebuild_due=fingerprint_of(active.definition))
        return replace(active, handler=handler, intent=None)

    services.intents.change(table, last)
    return first.run_id if runs_now else None


def _undone_unless_active(services: TableServices, table: MaterializedTable, error: MtError) -> str | None:
    """Undo the CREATE and raise its error.

    If the table is active, only the response of the last transaction was lost: return the run that it queued.
    """
    try:
        now, runs = in_transaction(
            services.registry,
            lambda tx: (tx.tables.get(table.table_id), tx.runs.newest(table_id=table.table_id)),
        )
        if now is not None and now.status is not RefreshStatus.INITIALIZING:
            return next((run.run_id for run in runs if run.kind is RunKind.INITIAL), None)
        undo_create(services, table)
    except MtError as cleanup:
        raise TableNotCreated(
            f"Materialized table {table.identifier} was not created: {error} Its leftovers could not be "
            f"removed yet ({cleanup}); DROP MATERIALIZED TABLE {table.identifier} removes them.",
            table=str(table.identifier),
        ) from error
    if isinstance(error, TableExists):
        raise error
    raise TableNotCreated(
        f"Materialized table {table.identifier} was not created, and nothing was left behind: {error}",
        table=str(table.identifier),
    ) from error


def undo_create(services: TableServices, table: MaterializedTable) -> None:
    """Undo a CREATE in reverse order. Idempotent, and harmless for steps that did not happen."""
    services.keeper.remove(table.table_id)
    with services.names.lock(table.identifier):
        services.engine.storage.drop_storage(table.identifier, table.table_id, table.location)

    def forget(tx: Transaction) -> None:
        now = tx.tables.get(table.table_id)
        if now is not None and now.status is RefreshStatus.INITIALIZING:
            tx.workflows.delete(table.table_id)
            tx.tables.delete(table.table_id)

    in_transaction(services.registry, forget)
