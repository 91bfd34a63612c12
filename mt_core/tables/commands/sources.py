"""Sources of a query: refuses names that only the session has, and circles of materialized tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from mt_core.errors import DefinitionInvalid, MtError
from mt_core.model.table import TableIdentifier
from mt_core.sql.parser import parse_name
from mt_core.sql.statements import qualify
from mt_core.tables.engine import AnalysedQuery
from mt_core.tables.registry import in_transaction
from mt_core.tables.services import TableServices, query_of
from mt_core.tables.table_commands import CommandContext


def refuse_temporary(identifier: TableIdentifier, analysed: AnalysedQuery, context: CommandContext) -> None:
    """Raise DefinitionInvalid for a query that names what only the session has."""
    views = sorted(analysed.relations & context.temporary_relations)
    functions = sorted(analysed.functions & context.temporary_functions)
    if views or functions:
        what, name = ("view", views[0]) if views else ("function", functions[0])
        raise DefinitionInvalid(
            f"The query of {identifier} names {name}, which is a temporary {what} in this session; refreshes do not see it and "
            f"would take what else has that name. Create a permanent {what}, or write the name in full."
        )


def refuse_circle(services: TableServices, identifier: TableIdentifier, sources: Sequence[str]) -> None:
    """Raise DefinitionInvalid if a materialized table among *sources*, or one that they read, is the table itself."""
    start = str(identifier)
    paths: list[tuple[str, ...]] = [(start, name) for name in sources]
    seen: set[str] = set()
    while paths:
        path = paths.pop(0)
        name = path[-1]
        if name == start:
            raise DefinitionInvalid(
                f"{identifier} would read itself: {' reads '.join(path)}; a refresh would compute from what the one before "
                "wrote. Leave it out of the query, or read the tables below."
            )
        if name not in seen:
            seen.add(name)
            paths += [(*path, below) for below in _sources_of(services, name)]


def _sources_of(services: TableServices, name: str) -> tuple[str, ...]:
    """Return what the materialized table of that name reads now, or read when it was defined; nothing for any other table."""
    parts = parse_name(name)
    if len(parts) < 3:
        return ()
    identifier = qualify(parts, parts[0], parts[1:-1])
    table = in_transaction(services.registry, lambda tx: tx.tables.named(identifier))
    if table is None:
        return ()
    with suppress(MtError):  # the query cannot be analysed at the moment
        return services.engine.analyse(query_of(table.definition)).sources
    return table.definition.sources
