"""Streams as sources: tables that have no rows of their own, which a streaming job can read
and a refresh cannot.
"""

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
    """Return the definition of a new table with the sources of *vector* that only a streaming job can read.

    Raises DefinitionInvalid for a mode that such a table cannot have.
    """
    tables = _connector_tables(services)
    streams = tuple(
        source.name for source in vector.sources if source.name in tables and _is_endless(tables[source.name])
    )
    changing = [name for name in streams if _changes_rows(tables[name])]
    if changing:
        raise DefinitionInvalid(
            f"{identifier} cannot read {changing[0]}, whose connector '{tables[changing[0]].connector}' "
            "sets and deletes rows by key: a job that keeps a table only adds rows to it. "
            "Let a streaming job keep the rows in an Iceberg table with the "
            "same PRIMARY KEY (SET 'execution.runtime-mode' = 'streaming', then INSERT INTO it SELECT … "
            f"FROM {changing[0]}), and let {identifier} read that table.",
            table=str(identifier),
        )
    if streams and definition.refresh_mode is not RefreshMode.CONTINUOUS:
        raise DefinitionInvalid(
            f"{identifier} cannot be of refresh mode {definition.refresh_mode}, since {streams[0]} has rows "
            "without end and keeps none of them: only a streaming job can read it, which is CONTINUOUS. "
            "Give REFRESH_MODE = CONTINUOUS, or a shorter "
            f"FRESHNESS. Another way: {_other_way(identifier, streams[0])}",
            table=str(identifier),
        )
    return replace(definition, streams=streams)


def refuse_streams(
    services: TableServices, identifier: TableIdentifier, definition: TableDefinition, vector: SourceVector
) -> None:
    """Raise DefinitionInvalid for a source of *vector* without rows that a table of *definition*
    can be kept by.
    """
    tables = _connector_tables(services)
    for source in vector.sources:
        table = tables.get(source.name)
        if table is not None and table.connector in SINKS:
            raise DefinitionInvalid(
                f"{identifier} cannot read {source.name}, whose connector '{table.connector}' takes rows "
                "and gives none; read another table.",
                table=str(identifier),
            )
        if (
            table is not None
            and source.name not in definition.streams
            and (_is_endless(table) or table.connector in TOPICS)
        ):
            raise DefinitionInvalid(
                f"{identifier} cannot read {source.name}, whose connector '{table.connector}' "
                "has rows without end and keeps none of them: a refresh reads what a table has. "
                f"{_other_way(identifier, source.name)}",
                table=str(identifier),
            )


def refuse_unkept(services: TableServices, table: MaterializedTable) -> None:
    """Raise DefinitionInvalid for a table that a streaming job is to keep, and cannot."""
    streams = table.definition.streams
    problem = services.keeper.objection(table) if streams else ""
    if problem:
        raise DefinitionInvalid(
            f"{table.identifier} cannot be kept by a streaming job: "
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
        "Let a streaming job keep the rows (SET 'execution.runtime-mode' = 'streaming', then INSERT INTO "
        f"an Iceberg table SELECT … FROM {source}), and let {identifier} read the table that the job writes."
    )
