"""Upserts: tables whose refreshes replace rows by key, so that no other materialized table can read them."""

from __future__ import annotations

from functools import partial

from mt_core.base.plural import plural
from mt_core.errors import DefinitionInvalid
from mt_core.model.storage import UPSERT
from mt_core.model.table import TableDefinition, TableIdentifier
from mt_core.tables.engine import SourceVector
from mt_core.tables.registry import in_transaction
from mt_core.tables.runs.upstream import materialized
from mt_core.tables.services import TableServices
from mt_core.tables.views.readers import readers_of

_WHY = "a refresh could detect what has changed there only by reading all of it"


def refuse_upserted_source(
    services: TableServices, identifier: TableIdentifier, vector: SourceVector
) -> None:
    """Raise DefinitionInvalid if a source in *vector* is a materialized table with upserts."""
    for source in vector.sources:
        name = source.name
        table = in_transaction(services.registry, partial(materialized, source=name))
        if table is not None and table.identifier != identifier and UPSERT in table.definition.options:
            raise DefinitionInvalid(
                f"{identifier} cannot read {table.identifier}, which has the option '{UPSERT}': {_WHY}. "
                f"Remove the option (ALTER MATERIALIZED TABLE {table.identifier} RESET ('{UPSERT}')), "
                f"or read the sources of {table.identifier}.",
                table=str(table.identifier),
                key=UPSERT,
            )


def refuse_read(services: TableServices, identifier: TableIdentifier, definition: TableDefinition) -> None:
    """Raise DefinitionInvalid if *definition* has upserts and other materialized tables read the table."""
    if UPSERT not in definition.options:
        return
    readers = readers_of(services, identifier)
    if readers:
        raise DefinitionInvalid(
            f"{identifier} cannot have the option '{UPSERT}', since {', '.join(map(str, readers))} "
            f"{plural(len(readers), 'reads', 'read')} it: {_WHY}. "
            f"Leave the option out, or have the readers of {identifier} read its sources.",
            table=str(identifier),
            key=UPSERT,
            value=definition.options[UPSERT],
        )
