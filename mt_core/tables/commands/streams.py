"""Streams as sources: tables that do not store their rows, so that only a streaming job can read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mt_core.base.identifiers import display_name
from mt_core.errors import DefinitionInvalid
from mt_core.model.connector_table import ConnectorTable
from mt_core.model.table import MaterializedTable, RefreshMode, TableDefinition, TableIdentifier
from mt_core.sql.connectors.kinds import SINKS, TOPICS
from mt_core.tables.engine import SourceVector
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices


def with_streams(
    services: TableServices, identifier: TableIdentifier, definition: TableDefinition, vector: SourceVector
) -> TableDefinition:
    """Return the definition of a new table, with the sources in *vector* that only streaming jobs can read.

    Raises DefinitionInvalid if the table's refresh mode does not allow such sources.
    """
    tables = _connector_tables(services)
    streams = tuple(
        source.name for source in vector.sources if source.name in tables and _is_endless(tables[source.name])
    )
    changing = [name for name in streams if _changes_rows(tables[name])]
    if changing:
        raise DefinitionInvalid(
            f"{identifier} cannot read {changing[0]}, whose connector '{tables[changing[0]].connector}' "
            "updates and deletes rows by key: a materialized table's job only appends rows. "
            "Use a streaming job that writes the rows to an Iceberg table with the "
            "same PRIMARY KEY (SET 'execution.runtime-mode' = 'streaming', then INSERT INTO it SELECT … "
            f"FROM {changing[0]}), and define {identifier} on that table.",
            table=str(identifier),
        )
    if streams and definition.refresh_mode is not RefreshMode.CONTINUOUS:
        raise DefinitionInvalid(
            f"{identifier} cannot have refresh mode {definition.refresh_mode}, since {streams[0]} is "
            "unbounded and does not retain its rows: only a streaming job can read it, which is CONTINUOUS. "
            "Use REFRESH_MODE = CONTINUOUS, or a shorter "
            f"FRESHNESS. Another way: {_other_way(identifier, streams[0])}",
            table=str(identifier),
        )
    return replace(definition, streams=streams)


def refuse_streams(
    services: TableServices, identifier: TableIdentifier, definition: TableDefinition, vector: SourceVector
) -> None:
    """Raise DefinitionInvalid if a table with *definition* cannot be refreshed from a source in *vector*."""
    tables = _connector_tables(services)
    for source in vector.sources:
        table = tables.get(source.name)
        if table is not None and table.connector in SINKS:
            raise DefinitionInvalid(
                f"{identifier} cannot read {source.name}, whose connector '{table.connector}' is a sink; "
                "read another table.",
                table=str(identifier),
            )
        if (
            table is not None
            and source.name not in definition.streams
            and (_is_endless(table) or table.connector in TOPICS)
        ):
            raise DefinitionInvalid(
                f"{identifier} cannot read {source.name}, whose connector '{table.connector}' "
                "is unbounded and does not retain its rows, which a refresh would have to read. "
                f"{_other_way(identifier, source.name)}",
                table=str(identifier),
            )


def refuse_unmaintainable_stream(services: TableServices, table: MaterializedTable) -> None:
    """Raise DefinitionInvalid if *table* reads streams and no streaming job can maintain it."""
    streams = table.definition.streams
    problem = services.keeper.objection(table) if streams else ""
    if problem:
        raise DefinitionInvalid(
            f"{table.identifier} cannot be maintained by a streaming job: "
            f"{problem} {_other_way(table.identifier, streams[0])}",
            table=str(table.identifier),
        )


def _connector_tables(services: TableServices) -> Mapping[str, ConnectorTable]:
    tables = in_transaction(services.registry, lambda tx: list(tx.connector_tables.all()))
    return {display_name(each.parts): each for each in tables}


def _is_endless(table: ConnectorTable) -> bool:
    return table.unbounded is not None or (table.topic is not None and not table.topic.is_bounded)


def _changes_rows(table: ConnectorTable) -> bool:
    return table.topic is not None and bool(table.topic.keys)


def _other_way(identifier: TableIdentifier, source: str) -> str:
    return (
        "Use a streaming job that stores the rows (SET 'execution.runtime-mode' = 'streaming', then INSERT "
        f"INTO an Iceberg table SELECT … FROM {source}), and define {identifier} on the table that the job "
        "writes."
    )
