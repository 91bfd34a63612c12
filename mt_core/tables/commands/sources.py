"""Sources that only the session of a CREATE or ALTER has, and no refresh sees."""

from __future__ import annotations

from mt_core.errors import DefinitionInvalid
from mt_core.model.table import TableIdentifier
from mt_core.tables.engine import AnalysedQuery
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
