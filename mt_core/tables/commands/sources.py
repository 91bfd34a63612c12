"""Sources that a CREATE or ALTER refuses: what only its session has, and what the table cannot be refreshed from."""

from __future__ import annotations

from mt_core.errors import DefinitionInvalid, QueryFailed
from mt_core.model.table import TableDefinition, TableIdentifier
from mt_core.sql.session_variables import variable_at
from mt_core.tables.commands.streams import refuse_streams
from mt_core.tables.commands.upserts import refuse_read, refuse_upserted_source
from mt_core.tables.engine import AnalysedQuery, Query, SourceVector
from mt_core.tables.refresh.circles import refuse_circle
from mt_core.tables.refresh.outlook import refuse_unmaintainable
from mt_core.tables.services import TableServices
from mt_core.tables.table_commands import CommandContext


def analysed_alone(
    services: TableServices, identifier: TableIdentifier, query: Query, context: CommandContext
) -> AnalysedQuery:
    """Return *query*, analysed without the session; raises DefinitionInvalid if it names what only the session has."""
    try:
        analysed = services.engine.analyse(query)
    except QueryFailed as error:
        name = variable_at(query.text, error, context.has_variable)
        if name is None:
            raise
        raise DefinitionInvalid(
            f"The query of {identifier} names {name}, which is a variable of this session; refreshes do not see it. Write its "
            "value."
        ) from error
    views = sorted(analysed.relations & context.temporary_relations)
    functions = sorted(analysed.functions & context.temporary_functions)
    if views or functions:
        what, name = ("view", views[0]) if views else ("function", functions[0])
        raise DefinitionInvalid(
            f"The query of {identifier} names {name}, which is a temporary {what} in this session; refreshes do not see it and "
            f"would take what else has that name. Create a permanent {what}, or write the name in full."
        )
    return analysed


def refuse_impossible(
    services: TableServices, identifier: TableIdentifier, definition: TableDefinition, vector: SourceVector
) -> None:
    """Raise DefinitionInvalid for a table that cannot be refreshed from the sources of *vector* as its options ask for."""
    refuse_streams(services, identifier, definition, vector)
    refuse_circle(services.registry, services.engine, identifier, vector)
    if not definition.streams:
        refuse_unmaintainable(services.engine, identifier, definition)
    refuse_upserted_source(services, identifier, vector)
    refuse_read(services, identifier, definition)
