"""Streams as sources: tables that have no rows of their own, which a refresh cannot read."""

from __future__ import annotations

from mt_core.errors import DefinitionInvalid
from mt_core.identifiers import display_name
from mt_core.model.table import TableIdentifier
from mt_core.sql.flink.connectors import KAFKA, SINKS
from mt_core.tables.engine import SourceVector
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices


def refuse_streams(services: TableServices, identifier: TableIdentifier, vector: SourceVector) -> None:
    """Raise DefinitionInvalid if a source of *vector* is a table with a connector that has no rows for a refresh to read."""
    tables = in_transaction(services.registry, lambda tx: list(tx.connector_tables.all()))
    connectors = {
        display_name(each.parts): each.connector
        for each in tables
        if each.unbounded is not None or each.connector in (*SINKS, KAFKA)
    }
    for source in vector.sources:
        connector = connectors.get(source.name)
        if connector in SINKS:
            raise DefinitionInvalid(
                f"{identifier} cannot read {source.name}, whose connector '{connector}' takes rows and gives none; read "
                "another table.",
                table=str(identifier),
            )
        if connector is not None:
            raise DefinitionInvalid(
                f"{identifier} cannot read {source.name}, whose connector '{connector}' has rows without end and keeps none of "
                "them: a refresh reads what a table has. Let a streaming job keep the rows (SET 'execution.runtime-mode' = "
                f"'streaming', then INSERT INTO an Iceberg table SELECT … FROM {source.name}), and let {identifier} read the table "
                "that the job writes.",
                table=str(identifier),
            )
