"""Checks of sources in CREATE and ALTER.

Both commands refuse objects that exist only in the session, and sources from which the table cannot be
refreshed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import dropwhile

from mt_core.base.tokens import significant
from mt_core.errors import DefinitionInvalid, QueryFailed
from mt_core.model.storage import is_state_table
from mt_core.model.table import TableDefinition, TableIdentifier
from mt_core.tables.commands.streams import refuse_streams
from mt_core.tables.commands.upsert_sources import refuse_read, refuse_upserted_source
from mt_core.tables.engine import AnalysedQuery, Query, SourceVector
from mt_core.tables.refresh.cycles import refuse_cycle
from mt_core.tables.refresh.forecast import refuse_unmaintainable
from mt_core.tables.services import TableServices
from mt_core.tables.table_commands import CommandContext

# The errors for the name of a variable if the query is analysed without its session.
_OF_VARIABLES = ("UNRESOLVED_COLUMN", "NOT_A_CONSTANT_STRING")
_SCHEMAS_OF_VARIABLES = {(), ("session",), ("system", "session")}


def analysed_alone(
    services: TableServices, identifier: TableIdentifier, query: Query, context: CommandContext
) -> AnalysedQuery:
    """Analyse *query* without the session.

    Raises DefinitionInvalid if the query uses an object that exists only in the session.
    """
    try:
        analysed = services.engine.queries.analyse(query)
    except QueryFailed as error:
        name = _variable_at(query.text, error, context.has_variable)
        if name is None:
            raise
        raise DefinitionInvalid(
            f"The query of {identifier} names {name}, which is a variable of this session; "
            "refreshes do not see it. Write its value."
        ) from error
    state = next((each for each in analysed.sources if is_state_table(each.rpartition(".")[2])), None)
    if state is not None:
        raise DefinitionInvalid(
            f"The query of {identifier} reads {state}, which keeps a state of a materialized table; "
            "read the materialized table itself."
        )
    views = sorted(analysed.relations & context.temporary_relations)
    functions = sorted(analysed.functions & context.temporary_functions)
    if views or functions:
        what, name = ("view", views[0]) if views else ("function", functions[0])
        raise DefinitionInvalid(
            f"The query of {identifier} names {name}, which is a temporary {what} in this session; "
            "refreshes do not see it and would use another object of that name. "
            f"Create a permanent {what}, or write the name in full."
        )
    return analysed


def _variable_at(text: str, error: QueryFailed, has_variable: Callable[[str], bool]) -> str | None:
    """Return the session variable at the position that *error* reports in *text*, or None."""
    if (
        error.line is None
        or error.position is None
        or not (error.error_class or "").startswith(_OF_VARIABLES)
    ):
        return None
    place, parts = (error.line, error.position), list[str]()
    tokens = dropwhile(lambda token: (token.line, token.column) < place, significant(text))
    for token in tokens:
        parts.append(token.value)
        following = next(tokens, None)
        if following is None or following.text != ".":
            break
    *schema, name = parts or [""]
    return name if tuple(map(str.lower, schema)) in _SCHEMAS_OF_VARIABLES and has_variable(name) else None


def refuse_impossible(
    services: TableServices, identifier: TableIdentifier, definition: TableDefinition, vector: SourceVector
) -> None:
    """Raise DefinitionInvalid if the table cannot be refreshed from *vector* as its options require."""
    refuse_streams(services, identifier, definition, vector)
    refuse_cycle(services.registry, services.engine.sources, identifier, vector)
    if not definition.streams:
        refuse_unmaintainable(services.engine.changes, identifier, definition)
    refuse_upserted_source(services, identifier, vector)
    refuse_read(services, identifier, definition)
