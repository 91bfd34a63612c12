"""EXPLAIN CREATE MATERIALIZED TABLE: which table would be created, and how it would be refreshed."""

from __future__ import annotations

from collections.abc import Iterator

from mt_core.errors import TableExists
from mt_core.model.formatter import show_schedule_time
from mt_core.model.new_names import check_new_name
from mt_core.model.table import RefreshMode, TableDefinition, TableIdentifier
from mt_core.sql.statements import CreateMaterializedTable
from mt_core.tables.commands.create import declared, initializing
from mt_core.tables.commands.streams import refuse_streams, refuse_unmaintainable_stream, with_streams
from mt_core.tables.definition.options import AUTO, FULL, INCREMENTAL, check_table_options
from mt_core.tables.definition.show_create import type_text
from mt_core.tables.engine import SourceVector
from mt_core.tables.refresh.cycles import refuse_cycle
from mt_core.tables.refresh.explain import source_lines
from mt_core.tables.refresh.forecast import forecast_lines, refuse_unmaintainable, strategy_option
from mt_core.tables.refresh.late_data import late_lines
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices, query_of
from mt_core.tables.settings import THRESHOLD_KEY
from mt_core.tables.table_commands import CommandContext

_STRATEGIES = {
    AUTO: "applies what changed where that is exact and costs less than to compute all rows",
    INCREMENTAL: "applies what changed wherever that is exact",
    FULL: "computes all rows when a source changed",
}


def explain_create(
    services: TableServices,
    statement: CreateMaterializedTable,
    identifier: TableIdentifier,
    context: CommandContext,
) -> tuple[str, tuple[str, ...]]:
    """Return the text and the warnings; raise the errors that CREATE would raise before its first effect."""
    warnings = check_table_options(statement.options, str(identifier))
    exists = in_transaction(services.registry, lambda tx: tx.tables.named(identifier)) is not None
    if not (exists and statement.or_alter) and (
        exists or services.engine.catalogs.relation_exists(identifier)
    ):
        raise TableExists(
            f"{identifier} exists already; choose another name, or EXPLAIN REFRESH a materialized table.",
            table=str(identifier),
        )
    if not exists:
        check_new_name(identifier.parts)
    definition = declared(services, statement, identifier, context)
    vector = services.engine.sources.read_vector(query_of(definition))
    definition = with_streams(services, identifier, definition, vector)
    refuse_streams(services, identifier, definition, vector)
    refuse_cycle(services.registry, services.engine.sources, identifier, vector)
    if definition.streams:
        refuse_unmaintainable_stream(services, initializing(services, identifier, definition, context))
    else:
        refuse_unmaintainable(services.engine.changes, identifier, definition)
    columns = (f"{column.name} {type_text(column.type)}" for column in definition.columns)
    lines = [
        f"{'Change' if exists else 'Creation'} of {identifier}",
        f"  columns:  {', '.join(columns)}",
        *([f"  parts:    {', '.join(definition.partition_keys)}"] if definition.partition_keys else []),
        *([f"  layout:   {', '.join(map(str, definition.transforms))}"] if definition.transforms else []),
        f"  mode:     {definition.refresh_mode} ({_why_mode(services, definition, context)})",
        f"  schedule: {_schedule(services, definition)}",
        *(
            _stream_lines(definition, vector)
            if definition.streams
            else _refresh_lines(services, definition, vector)
        ),
    ]
    return "\n".join(lines), warnings


def _refresh_lines(
    services: TableServices, definition: TableDefinition, vector: SourceVector
) -> Iterator[str]:
    strategy = strategy_option(definition)
    yield f"  strategy: {strategy}: {_STRATEGIES[strategy]}"
    yield from late_lines(services.engine.changes, definition)
    yield from source_lines(vector, forecast_lines(services.engine.changes, definition, vector.sources))


def _stream_lines(definition: TableDefinition, vector: SourceVector) -> Iterator[str]:
    yield "  kept by:  a streaming job, which adds each row once; no refresh can compute the table again"
    read = {
        source.name: (
            "read as a stream" if source.name in definition.streams else "read as it stands at each batch",
        )
        for source in vector.sources
    }
    yield from source_lines(vector, read)


def _why_mode(services: TableServices, definition: TableDefinition, context: CommandContext) -> str:
    if definition.logical_refresh_mode in set(RefreshMode):
        return "declared"
    if definition.cron is not None:
        return "derived: it has a schedule"
    threshold = services.settings.in_session(context.properties).freshness_threshold_s
    than = "at least" if definition.refresh_mode is RefreshMode.FULL else "under"
    return f"derived: FRESHNESS = {definition.interval} is {than} {THRESHOLD_KEY}, {threshold} s"


def _schedule(services: TableServices, definition: TableDefinition) -> str:
    if definition.streams:
        return f"within {definition.interval.words} of a new row"
    if definition.refresh_mode is not RefreshMode.FULL:
        return f"within {definition.interval.words} of a change"
    first = definition.grid().after(in_transaction(services.registry, lambda tx: tx.now()))
    return (
        f"{definition.cadence.every} in {definition.zone}, "
        f"first at {show_schedule_time(first, definition.zone)}"
    )
