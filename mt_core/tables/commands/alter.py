"""ALTER … AS, CREATE OR ALTER, ALTER … SET and RESET: commands that change a definition under an intent.

A statement first checks the new definition against the table as it read it, without any lock. The intent is
then written only if the definition has not changed since. Under the intent the storage is changed first, then
the keeper, and last the registry, in the transaction that clears the intent. Readers therefore see the old
definition until everything else matches the new one. If the process of a command is lost, the reconciler can
finish the command from the detail of its intent.

The fingerprint determines whether the whole table must be rebuilt. Options that only determine how rows are
computed or stored are not part of it. Columns can only be appended, because older snapshots still have the
existing ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from mt_core.errors import DefinitionInvalid, TableBusy
from mt_core.model.freshness import Freshness
from mt_core.model.storage import UPSERT
from mt_core.model.table import (
    Column,
    MaterializedTable,
    RefreshMode,
    RefreshStatus,
    TableDefinition,
    TableIdentifier,
)
from mt_core.sql.statements import CreateMaterializedTable, SetSchedule
from mt_core.tables.commands.create import declared
from mt_core.tables.commands.sources import analysed_alone, refuse_impossible
from mt_core.tables.commands.upsert_sources import refuse_read
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.definition.options import STRATEGY, check_known, check_table_options, is_formatter
from mt_core.tables.definition.partitioning import check_transforms
from mt_core.tables.definition.table_definition import (
    cadence_fields,
    check_appended,
    check_names,
    check_partitions_of_cron,
    derive,
    recorded_types,
    schedule_warnings,
    settings_of,
    zone_of,
)
from mt_core.tables.refresh.exclusion import wait_for_runs
from mt_core.tables.refresh.forecast import refuse_unmaintainable
from mt_core.tables.refresh.streaming_only import refuse_refresh
from mt_core.tables.registry import Transaction
from mt_core.tables.services import TableServices, query_of, storage_spec
from mt_core.tables.settings import THRESHOLD_KEY, check_durations
from mt_core.tables.table_commands import CommandContext, CommandOutcome


def alter_query(
    services: TableServices, identifier: TableIdentifier, query: str, context: CommandContext
) -> CommandOutcome:
    """Change the query, which may append nullable columns at the end.

    The whole table has to be rebuilt afterwards.
    """
    table = services.intents.current(identifier)
    refuse_refresh(table, "ALTER … AS")
    old = replace(
        table.definition, catalog=context.catalog, namespace=context.namespace, settings=settings_of(context)
    )
    analysed = analysed_alone(services, identifier, query_of(old, query), context)
    check_names(str(identifier), [column.name for column in analysed.columns])
    columns = services.engine.queries.check_columns(identifier, analysed.columns)
    appended = check_appended(identifier, table.definition.columns, columns)
    stored = (*table.definition.columns, *appended)
    check_transforms(identifier, old.transforms, stored)
    new = replace(
        old,
        original_query=query,
        expanded_query=analysed.expanded_query,
        columns=stored,
        query_types=recorded_types(stored, analysed),
        sources=analysed.sources,
    )
    warnings = _zone_warnings(services, table, context)
    return _redefine(services, table, new, appended, warnings, context.caller or None)


def create_or_alter(
    services: TableServices,
    statement: CreateMaterializedTable,
    table: MaterializedTable,
    context: CommandContext,
) -> CommandOutcome:
    """Apply CREATE OR ALTER to an existing table: query, new columns, options, comment and freshness.

    Raises DefinitionInvalid if the partitioning or the time zone would change.
    """
    identifier = table.identifier
    _refuse_other_zone(identifier, table.definition, statement.zone)
    warnings = (
        *check_table_options(statement.options, str(identifier)),
        *_zone_warnings(services, table, context),
    )
    new = declared(services, statement, identifier, context)
    if new.partitioning != table.definition.partitioning:
        raise DefinitionInvalid(
            f"CREATE OR ALTER cannot change the partitioning of {identifier} "
            f"({', '.join(table.definition.partitioning) or 'none'}); DROP and CREATE it."
        )
    appended = check_appended(identifier, table.definition.columns, new.columns)
    stored = (*table.definition.columns, *appended)
    # The statement may spell the columns in a different case.
    types = {name.lower(): type_ for name, type_ in new.query_types.items()}
    query_types = {column.name: types[column.name.lower()] for column in stored}
    streams = table.definition.streams
    new = replace(new, columns=stored, query_types=query_types, zone=table.definition.zone, streams=streams)
    if fingerprint_of(new) != fingerprint_of(table.definition):
        refuse_refresh(table, "CREATE OR ALTER with another query or other columns")
    _refuse_full(table, new)
    return _redefine(services, table, new, appended, warnings, context.caller or None)


def _zone_warnings(
    services: TableServices, table: MaterializedTable, context: CommandContext
) -> tuple[str, ...]:
    session_zone, zone = zone_of(context, services.settings), table.definition.zone
    if session_zone == zone:
        return ()
    return (
        f"{table.identifier} keeps its time zone {zone}, in which its query runs; "
        f"that of this session is {session_zone}.",
    )


def _redefine(
    services: TableServices,
    seen: MaterializedTable,
    new: TableDefinition,
    appended: Sequence[Column],
    warnings: tuple[str, ...],
    requested_by: str | None,
) -> CommandOutcome:
    refuse_impossible(services, seen.identifier, new, services.engine.sources.read_vector(query_of(new)))
    old = seen.definition
    detail = {"reschedules": (new.cadence, new.refresh_mode) != (old.cadence, old.refresh_mode)}
    run_id: str | None = None

    def redefined(tx: Transaction, now: MaterializedTable) -> MaterializedTable:
        nonlocal run_id
        run_id = None
        now = _rescheduled(services, now, new, tx.now()) if detail["reschedules"] else now
        due = fingerprint_of(new)
        if due == fingerprint_of(old):
            now = trusted(replace(now, definition=new))
            if (
                now.rebuild_due is not None
                and now.doubt is not None
                and now.status is RefreshStatus.ACTIVATED
            ):
                services.request_rebuild(tx, now, requested_by)
            return now
        if now.status is RefreshStatus.ACTIVATED:
            run_id = services.request_rebuild(tx, now, requested_by).run_id
        return replace(now, definition=new, rebuild_due=due, doubt=None)

    check = partial(_refuse_changed, seen=seen)
    with services.intents.command(seen.identifier, "ALTER", check=check, detail=detail) as command:
        _change_storage(services, command.table, new, appended)
        trusted = services.end_doubt(command.table)
        if detail["reschedules"]:
            services.keeper.reschedule(_rescheduled(services, command.table, new, services.clock.now()))
        command.finish(redefined)
    if (old.cadence, old.date_formatters) != (new.cadence, new.date_formatters):
        warnings = (*warnings, *schedule_warnings(seen.identifier, new))
    if seen.status is RefreshStatus.SUSPENDED and fingerprint_of(new) != fingerprint_of(old):
        warnings = (*warnings, _still_suspended(seen))
    return CommandOutcome(wait_for=run_id, warnings=warnings)


def _still_suspended(table: MaterializedTable) -> str:
    why = f" ({table.status_reason})" if table.status_reason else ""
    return (
        f"{table.identifier} is SUSPENDED{why} and still has the rows of its old definition; "
        f"ALTER MATERIALIZED TABLE {table.identifier} RESUME refreshes it by the new one."
    )


def _refuse_changed(now: MaterializedTable, seen: MaterializedTable) -> None:
    if (now.table_id, now.definition) != (seen.table_id, seen.definition):
        raise TableBusy(
            f"Another command changed {now.identifier} in the meantime; check it and ALTER it again.",
            table=str(now.identifier),
        )


def _change_storage(
    services: TableServices, table: MaterializedTable, new: TableDefinition, appended: Sequence[Column]
) -> None:
    """Change the storage while no run is RUNNING."""
    before, after = storage_spec(table), storage_spec(replace(table, definition=new))
    if not appended and (before.properties, before.comment) == (after.properties, after.comment):
        return
    wait_for_runs(services, table, wait_s=services.settings.alter_wait_s)
    if appended:
        services.engine.storage.add_columns(table.identifier, appended)
    services.engine.storage.set_properties(
        after, forgotten=before.properties.keys() - after.properties.keys()
    )


def alter_options(
    services: TableServices,
    identifier: TableIdentifier,
    *,
    options: Mapping[str, str],
    removed: Sequence[str],
) -> CommandOutcome:
    """Set and remove options that determine how rows are computed and stored. Idempotent.

    These options change no row, so nothing has to be rebuilt. Raises DefinitionInvalid for a date-formatter.
    """
    seen, where = services.intents.current(identifier), f"{'SET' if options else 'RESET'} of {identifier}"
    for key in (*options, *removed):
        if is_formatter(key):
            raise DefinitionInvalid(
                f"{where}: {key} decides which rows a schedule time refreshes; "
                "change it with CREATE OR ALTER MATERIALIZED TABLE, which refreshes the whole table again.",
                table=str(identifier),
                key=key,
            )
    warnings = check_table_options(options, str(identifier), "SET")
    # An option that this release does not know can still be removed.
    check_known([key for key in removed if key not in seen.definition.options], where)
    merged = {key: value for key, value in seen.definition.options.items() if key not in removed} | dict(
        options
    )
    check_durations(merged)
    new = replace(seen.definition, options=merged)
    if STRATEGY in options:
        refuse_unmaintainable(services.engine.changes, identifier, new)
    if UPSERT in options:
        refuse_read(services, identifier, new)
    check, detail = partial(_refuse_changed, seen=seen), {"set": dict(options), "reset": list(removed)}
    with services.intents.command(identifier, "ALTER", check=check, detail=detail) as command:
        _change_storage(services, command.table, new, ())
        command.finish(lambda _tx, now: replace(now, definition=new))
    return CommandOutcome(warnings=warnings)


def set_freshness(
    services: TableServices, identifier: TableIdentifier, freshness: Freshness, context: CommandContext
) -> CommandOutcome:
    """Change the freshness of the table, with effect from now.

    As in CREATE, the session's properties determine which refresh mode the freshness implies. A declared mode
    does not change.
    """
    old = services.intents.current(identifier).definition
    declared_mode = old.logical_refresh_mode
    asked = RefreshMode(declared_mode) if declared_mode in set(RefreshMode) else None
    settings = services.settings.in_session(context.properties)
    _, mode = derive(freshness, asked, settings)
    new = replace(old, **cadence_fields(freshness), refresh_mode=mode)
    than = "at least" if mode is RefreshMode.FULL else "under"
    why = f"FRESHNESS = {freshness} is {than} {THRESHOLD_KEY}, {settings.freshness_threshold_s} s"
    return _with_mode_warning(_keep_fresh(services, identifier, new), identifier, old, new, why)


def set_schedule(
    services: TableServices, identifier: TableIdentifier, statement: SetSchedule
) -> CommandOutcome:
    """Refresh the table on a cron schedule from now on, instead of by its freshness.

    The time zone does not change. Raises DefinitionInvalid if the table is declared CONTINUOUS.
    """
    old = services.intents.current(identifier).definition
    _refuse_other_zone(identifier, old, statement.zone)
    if old.logical_refresh_mode == RefreshMode.CONTINUOUS:
        raise DefinitionInvalid(
            f"{identifier} is declared with REFRESH_MODE = CONTINUOUS, and a schedule means FULL; "
            f"ALTER MATERIALIZED TABLE {identifier} SET REFRESH_MODE = FULL first.",
            table=str(identifier),
            key="REFRESH_MODE",
            value=old.logical_refresh_mode,
        )
    new = replace(old, **cadence_fields(statement.cron), refresh_mode=RefreshMode.FULL)
    check_partitions_of_cron(identifier, new, services.settings)
    return _with_mode_warning(
        _keep_fresh(services, identifier, new), identifier, old, new, "a schedule means FULL"
    )


def _with_mode_warning(
    outcome: CommandOutcome, identifier: TableIdentifier, old: TableDefinition, new: TableDefinition, why: str
) -> CommandOutcome:
    """Return *outcome*, with a warning if the refresh mode has changed.

    The warning contains the statement that undoes the change.
    """
    if new.refresh_mode is old.refresh_mode:
        return outcome
    keep_freshness = ""
    if new.cron is None:
        keep_freshness = (
            f"ALTER MATERIALIZED TABLE {identifier} SET "
            f"REFRESH_MODE = {old.refresh_mode} keeps the freshness in the old mode, "
        )
    before = f"FRESHNESS = {old.interval}" if old.cron is None else f"SCHEDULE {old.cron}"
    warning = (
        f"The refresh mode of {identifier} changed from {old.refresh_mode} to {new.refresh_mode}: {why}. "
        f"{keep_freshness}ALTER MATERIALIZED TABLE {identifier} SET {before} restores both."
    )
    return replace(outcome, warnings=(*outcome.warnings, warning))


def _refuse_other_zone(identifier: TableIdentifier, definition: TableDefinition, zone: str | None) -> None:
    if zone is not None and zone != definition.zone:
        raise DefinitionInvalid(
            f"AT TIME ZONE '{zone}': {identifier} has the time zone {definition.zone}, in which its query "
            "runs and its partitions are named; leave AT TIME ZONE out, or DROP and CREATE the table.",
            table=str(identifier),
            key="AT TIME ZONE",
            value=zone,
        )


def _refuse_full(table: MaterializedTable, new: TableDefinition) -> None:
    if new.refresh_mode is RefreshMode.FULL:
        refuse_refresh(table, "Refresh mode FULL")


def set_refresh_mode(
    services: TableServices, identifier: TableIdentifier, mode: RefreshMode
) -> CommandOutcome:
    """Change the refresh mode, whatever the freshness; the rows do not change.

    Raises DefinitionInvalid for CONTINUOUS if the table has a cron schedule.
    """
    old = services.intents.current(identifier).definition
    if old.cron is not None and mode is RefreshMode.CONTINUOUS:
        raise DefinitionInvalid(
            f"{identifier} has SCHEDULE {old.cron}, which means REFRESH_MODE = FULL; "
            f"ALTER MATERIALIZED TABLE {identifier} SET FRESHNESS = INTERVAL 'n' unit first.",
            table=str(identifier),
            key="REFRESH_MODE",
            value=mode.value,
        )
    return _keep_fresh(services, identifier, replace(old, refresh_mode=mode, logical_refresh_mode=mode.value))


def _keep_fresh(services: TableServices, identifier: TableIdentifier, new: TableDefinition) -> CommandOutcome:
    """Change the table's cadence and refresh mode to those of *new*, and reschedule it with its keeper."""

    def changed(tx: Transaction, now: MaterializedTable) -> MaterializedTable:
        definition = replace(
            now.definition,
            freshness=new.freshness,
            cron=new.cron,
            refresh_mode=new.refresh_mode,
            logical_refresh_mode=new.logical_refresh_mode,
        )
        return _rescheduled(services, now, definition, tx.now())

    seen = services.intents.current(identifier)
    _refuse_full(seen, new)
    continuous = seen.is_watched and new.refresh_mode is RefreshMode.CONTINUOUS
    with services.intents.command(
        identifier, "SET FRESHNESS", detail={"reschedules": not continuous}
    ) as command:
        if not continuous:
            services.keeper.reschedule(_rescheduled(services, command.table, new, services.clock.now()))
        command.finish(changed)
    return CommandOutcome(warnings=schedule_warnings(identifier, new))


def _rescheduled(
    services: TableServices, table: MaterializedTable, new: TableDefinition, at: datetime
) -> MaterializedTable:
    """Return *table* with definition *new*, which may have another cadence and refresh mode."""
    # The covered spans say nothing about the points of another grid, so those are due again.
    changed = replace(table, definition=new, covered=())
    if new.refresh_mode is table.definition.refresh_mode:
        return changed
    # The table was fresh until *at*, so no earlier schedule time of the new cadence is due.
    changed = replace(
        changed,
        handler=None,
        scheduler=services.settings.scheduler_type,
        covered_until=max(table.covered_until, at),
    )
    return replace(changed, handler=services.keeper.handle_of(changed))
