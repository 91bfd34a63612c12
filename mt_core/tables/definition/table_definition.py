"""Derives a table definition from a CREATE or ALTER statement and its analysed query (FLIP-435).

A definition must mean the same at every refresh, in any session. So it freezes what the statement's session
contributes: the current catalog and namespace, the time zone, the Spark settings and the expanded query. It
also records the types that the query returned, so that a later change of a source is detected instead of
causing silent casts. A threshold, which the session may set, relates freshness and refresh mode: each can be
derived from the other. A cron always means FULL.

Every error names the object and a way to fix it, because the author of the statement sees nothing else.
Checks that need the catalog or the storage are in `commands`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from mt_core.base.identifiers import quote
from mt_core.base.plural import plural
from mt_core.errors import DefinitionInvalid
from mt_core.model.cadence import Cadence
from mt_core.model.cron import Cron
from mt_core.model.formatter import format_instant, partitions_of, show_schedule_time
from mt_core.model.freshness import Freshness
from mt_core.model.partition import PartitionSpec
from mt_core.model.storage import METADATA_COLUMNS
from mt_core.model.table import Column, RefreshMode, TableDefinition, TableIdentifier
from mt_core.sql.statements import ColumnSpec, CreateMaterializedTable
from mt_core.tables.definition.partitioning import checked_formatters, partition_keys, spelt_transforms
from mt_core.tables.engine import AnalysedQuery
from mt_core.tables.settings import ZONE_KEY, ManagerSettings
from mt_core.tables.table_commands import CommandContext

SPARK_ZONE_KEY = "spark.sql.session.timeZone"
_SOME_DAY = datetime(2026, 6, 3, 12, tzinfo=UTC)
_MOMENT = timedelta(seconds=1)
# Enough for two weekends of an hourly schedule, or ten years of a monthly one.
_POINTS_CHECKED = 120


class CadenceFields(TypedDict):
    """The fields of a definition that determine how often it is refreshed; exactly one of them is None."""

    freshness: Freshness | None
    cron: Cron | None


def define(
    statement: CreateMaterializedTable,
    analysed: AnalysedQuery,
    *,
    identifier: TableIdentifier,
    context: CommandContext,
    settings: ManagerSettings,
) -> TableDefinition:
    """Return the definition that the statement declares; raise DefinitionInvalid if it is not valid."""
    settings = settings.in_session(context.properties)
    cadence, mode = derive(statement.cron or statement.freshness, statement.refresh_mode, settings)
    zone = zone_of(context, settings)
    cadence.grid(zone)
    columns, query = _columns(statement.columns, analysed, identifier)
    options = dict(statement.options)
    definition = TableDefinition(
        columns=columns,
        original_query=statement.query,
        expanded_query=query,
        **cadence_fields(cadence),
        refresh_mode=mode,
        logical_refresh_mode=statement.refresh_mode.value if statement.refresh_mode else "AUTOMATIC",
        zone=zone,
        comment=statement.comment,
        partition_keys=partition_keys(statement.partition_keys, columns, identifier),
        transforms=spelt_transforms(statement.transforms, columns, identifier),
        options=options,
        catalog=context.catalog,
        namespace=context.namespace,
        settings=settings_of(context),
        query_types=recorded_types(columns, analysed),
        sources=analysed.sources,
    )
    definition = replace(definition, options=checked_formatters(definition, identifier))
    check_partitions_of_cron(identifier, definition, settings)
    return definition


def settings_of(context: CommandContext) -> dict[str, str]:
    """Return the session settings to store with a table's query; the time zone is stored separately."""
    return {
        key: value
        for key, value in sorted(context.properties.items())
        if key.startswith("spark.") and key != SPARK_ZONE_KEY
    }


def zone_of(context: CommandContext, settings: ManagerSettings) -> str:
    """Return the time zone of a table created in a session, which is that of the session's own queries."""
    return context.zone or context.properties.get(ZONE_KEY, settings.zone)


def recorded_types(columns: Sequence[Column], analysed: AnalysedQuery) -> dict[str, str]:
    """Return the types that the query returns, keyed by the table's column names."""
    produced = {column.name.lower(): column.type for column in analysed.columns}
    return {column.name: produced[column.name.lower()] for column in columns}


def derive(
    cadence: Cadence | None, mode: RefreshMode | None, settings: ManagerSettings
) -> tuple[Cadence, RefreshMode]:
    """Return the cadence and the refresh mode after applying defaults.

    If only one of freshness and mode is declared, the other is derived from it. A cron means FULL. Raises
    DefinitionInvalid for a cron with CONTINUOUS.
    """
    if isinstance(cadence, Cron):
        if mode is RefreshMode.CONTINUOUS:
            raise DefinitionInvalid(
                f"SCHEDULE {cadence}: a table with a schedule is refreshed in "
                "REFRESH_MODE = FULL; leave REFRESH_MODE out, or write "
                "FRESHNESS = INTERVAL 'n' unit for a table that follows its sources.",
                key="REFRESH_MODE",
                value=mode.value,
            )
        return cadence, RefreshMode.FULL
    if cadence is None:
        full = mode is RefreshMode.FULL
        cadence = settings.default_freshness_full if full else settings.default_freshness_continuous
    if mode is None:
        short = cadence.seconds < settings.freshness_threshold_s
        mode = RefreshMode.CONTINUOUS if short else RefreshMode.FULL
    return cadence, mode


def cadence_fields(cadence: Cadence) -> CadenceFields:
    """Return the two fields of a definition that record *cadence*."""
    if isinstance(cadence, Cron):
        return {"freshness": None, "cron": cadence}
    return {"freshness": cadence, "cron": None}


def check_partitions_of_cron(
    identifier: TableIdentifier, definition: TableDefinition, settings: ManagerSettings
) -> None:
    """Raise DefinitionInvalid if a schedule time of a cron covers more partitions than a refresh may take."""
    formatters, grid = definition.date_formatters, definition.grid()
    if definition.cron is None or not formatters:
        return
    point = grid.at_or_before(_SOME_DAY)
    for _ in range(_POINTS_CHECKED):
        point = grid.after(point)
        count = len(
            partitions_of(point, definition.cron, definition.zone, formatters, most=settings.max_partitions)
        )
        if count > settings.max_partitions:
            raise DefinitionInvalid(
                f"SCHEDULE {definition.cron}: the schedule time "
                f"{show_schedule_time(point, definition.zone)} of {identifier} stands for more than "
                f"{settings.max_partitions} partitions, all those since the one before it; use a coarser "
                "date-formatter, or a schedule that is due more often.",
                table=str(identifier),
                key="SCHEDULE CRON",
                value=definition.cron.expression,
            )


def _columns(
    declared: Sequence[ColumnSpec] | None, analysed: AnalysedQuery, identifier: TableIdentifier
) -> tuple[tuple[Column, ...], str]:
    """Return the table's columns and the query with its columns in the same order."""
    produced = {column.name.lower(): column for column in analysed.columns}
    if len(produced) != len(analysed.columns):
        names = [column.name for column in analysed.columns]
        raise DefinitionInvalid(
            f"The query of {identifier} returns two columns of one name ({', '.join(names)}); "
            "rename one with AS."
        )
    if declared is None:
        return tuple(replace(column, nullable=True) for column in analysed.columns), analysed.expanded_query
    for spec in declared:
        if spec.name.lower() not in produced:
            known = ", ".join(column.name for column in analysed.columns)
            raise DefinitionInvalid(
                f"Column {spec.name} of {identifier} is not in its query, which returns {known}."
            )
    if all(spec.type is None for spec in declared):
        return _reordered(declared, analysed, identifier, produced)
    typed = {column.name.lower(): replace(column, nullable=True) for column in analysed.columns}
    for spec in declared:
        type_ = spec.type or produced[spec.name.lower()].type
        typed[spec.name.lower()] = Column(
            name=produced[spec.name.lower()].name, type=type_, nullable=spec.nullable, comment=spec.comment
        )
    return tuple(typed.values()), analysed.expanded_query


def _reordered(
    declared: Sequence[ColumnSpec],
    analysed: AnalysedQuery,
    identifier: TableIdentifier,
    produced: Mapping[str, Column],
) -> tuple[tuple[Column, ...], str]:
    if len(declared) != len(analysed.columns):
        raise DefinitionInvalid(
            f"The column list of {identifier} names {len(declared)} {plural(len(declared), 'column')}, "
            f"but its query returns {len(analysed.columns)}; the numbers must match."
        )
    columns = tuple(
        replace(produced[spec.name.lower()], nullable=True, comment=spec.comment) for spec in declared
    )
    selected = ", ".join(quote(column.name) for column in columns)
    return columns, f"SELECT {selected} FROM (\n{analysed.expanded_query}\n)"


def schedule_warnings(identifier: TableIdentifier, definition: TableDefinition) -> tuple[str, ...]:
    """Return a warning if some partitions are not refreshed by any schedule time.

    This happens if several partitions lie between two schedule times, because each schedule time refreshes
    only one.
    """
    if definition.cron is not None:
        # A schedule time of a cron covers all partitions since the previous one.
        return definition.cron.warnings
    formatters = definition.date_formatters
    if not formatters:
        return ()
    point = definition.grid().at_or_before(_SOME_DAY)
    (first,) = partitions_of(point, definition.interval, definition.zone, formatters)
    last = {
        key: format_instant(point - _MOMENT, pattern, definition.zone) for key, pattern in formatters.items()
    }
    if first == PartitionSpec.of(last):
        return ()
    return (
        f"Each schedule time of {identifier} refreshes one partition ({first}), but with "
        f"FRESHNESS = {definition.interval} its data lie in several (up to {PartitionSpec.of(last)}): "
        "use a coarser date-formatter or a shorter freshness, or the others are refreshed by hand only.",
    )


def check_names(table: str, names: Sequence[str]) -> None:
    """Raise DefinitionInvalid for a column name that Iceberg cannot write or reserves for metadata."""
    for number, name in enumerate(names, 1):
        if not name:
            raise DefinitionInvalid(
                f"Column {number} of {table} has an empty name, with which Iceberg writes no rows; "
                "give it a name in the query with AS.",
                table=table,
            )
        if name in METADATA_COLUMNS:
            raise DefinitionInvalid(
                f"Column {name} of {table} has the name of a metadata column of Iceberg, "
                "which reads no table with such a column; give it another name in the query with AS, "
                f"such as {name} AS {name.removeprefix('_')}_of_source.",
                table=table,
                name=name,
            )


def check_appended(
    table: TableIdentifier, old: Sequence[Column], new: Sequence[Column]
) -> tuple[Column, ...]:
    """Return the columns that a new query appends; raise DefinitionInvalid for any other difference."""
    if len(new) < len(old):
        raise DefinitionInvalid(
            f"The new query of {table} returns {len(new)} {plural(len(new), 'column')}, "
            f"but the table has {len(old)}; columns cannot be dropped, only appended at the end."
        )
    for number, (before, after) in enumerate(zip(old, new, strict=False), 1):
        if before.name.lower() != after.name.lower() or before.type.lower() != after.type.lower():
            raise DefinitionInvalid(
                f"Column {number} of the new query of {table} is {after.name} {after.type.upper()}, "
                f"but in the table it is {before.name} {before.type.upper()}; "
                "a new query may only append columns at the end."
            )
    names = [column.name for column in new]
    if len({name.lower() for name in names}) != len(names):
        raise DefinitionInvalid(
            f"The new query of {table} returns two columns of one name ({', '.join(names)}); "
            "rename one with AS."
        )
    return tuple(replace(column, nullable=True) for column in new[len(old) :])
